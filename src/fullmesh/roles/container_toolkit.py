"""NVIDIA's container toolkit: what is wrong with the settings, where it comes from, what the report has to say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from fullmesh.faults import Fault
from fullmesh.model.types import CodedText
from fullmesh.observed.gpu import GpuFacts
from fullmesh.observed.toolkit import CdiState, ToolkitPackages

CODES: dict[str, str] = {
    "CT-101": "a setting of the role container_toolkit cannot work",
    "CT-102": "the container toolkit's repository cannot be read",
    "CT-103": "the repository has no such container toolkit; the message lists what it has",
    "CT-104": "no NVIDIA GPU on the node, so containers have none to get",
    "CT-105": "the repository's key or file cannot be written",
    "CT-106": "the package manager does not install the container toolkit",
    "CT-107": "the container toolkit does not describe the GPUs for containers (CDI)",
    "CT-108": "docker's daemon.json cannot be read, or docker does not start with NVIDIA's runtime in it",
    "CT-109": "note: no driver is loaded, so containers get GPUs only after the reboot that loads it",
    "CT-110": "note: containers run, so docker takes NVIDIA's runtime at its next start",
    "CT-111": "The repository's key does not have an expected fingerprint",
}
UNSIGNED = "none"
ADDRESS = re.compile(r"(https?|file)://\S+")
VERSION = re.compile(r"(\d+)\.(\d+)\.\d+(-\d+)?")
# The first with `nvidia-ctk cdi generate` (NVIDIA's documentation, "Support for Container Device Interface").
OLDEST = (1, 12)


class ToolkitSource(TypedDict):
    """Where the packages come from.

    Attributes:
        url: of the repository.
        key: where its key is fetched from; "" for none.
    """

    url: str
    key: str


def choose_toolkit_source(
    url: str, key: str, vendors: str, vendors_key: str, machine: str
) -> ToolkitSource:
    """The site's own repository and key, or NVIDIA's; a plain path is a file on the node.

    Args:
        url: of the site's mirror, or "".
        key: the site's key, "none", or "".
        vendors: NVIDIA's address, with ``ARCH`` in it.
        vendors_key: NVIDIA's key.
        machine: as the package manager calls it.
    """
    found = "" if key == UNSIGNED else key or vendors_key
    return {
        "url": (url or vendors.replace("ARCH", machine)).rstrip("/"),
        "key": f"file://{found}" if found.startswith("/") else found,
    }


def find_toolkit_faults(settings: Mapping[str, Any], bundle: str) -> list[Fault]:
    """Every setting that cannot work."""
    found = []
    version = str(settings["container_toolkit_version"])
    read = VERSION.fullmatch(version)
    if version and (not read or (int(read[1]), int(read[2])) < OLDEST):
        text = f"container_toolkit_version {version!r} is no version of the toolkit that describes GPUs"
        found.append(Fault("CT-101", text, "Write it like 1.20.0 or 1.20.0-1; 1.12.0 is the first"))
    url, key = (str(settings[f"container_toolkit_repository_{one}"]) for one in ("url", "key"))
    if url and not ADDRESS.fullmatch(url):
        text = f"container_toolkit_repository_url {url!r} is no address"
        found.append(
            Fault("CT-101", text, "Write it like https://mirror.example/libnvidia-container/deb")
        )
    if key and key != UNSIGNED and not (ADDRESS.fullmatch(key) or re.fullmatch(r"/\S+", key)):
        text = (
            f"container_toolkit_repository_key {key!r} is neither an address nor an absolute path"
        )
        found.append(Fault("CT-101", text, "Write it like https://mirror.example/gpgkey"))
    if bundle:
        text = f"the container toolkit is not in a bundle, and fullmesh_bundle is {bundle}"
        step = "Give -e container_toolkit_manage=false beside it, then run once without the bundle, with a mirror"
        found.append(Fault("CT-101", text, step))
    return found


def find_missing_gpu_faults(gpu: GpuFacts) -> list[Fault]:
    """Why the toolkit has no business on this node."""
    if gpu["pci"]["gpus"]:
        return []
    step = "Set container_toolkit_manage only for nodes with a GPU; lspci -d 10de: shows what is on the bus"
    return [Fault("CT-104", "no NVIDIA GPU is on the PCI bus", step)]


def needs_own_source(seen: ToolkitPackages) -> bool:
    """Whether our own file has to name the repository: not beside somebody else's, nor for what others installed."""
    return not seen["repository"]["theirs"] and (seen["ours"] or not seen["satisfied"])


def explain_toolkit_failure(failed: Mapping[str, Any], seen: ToolkitPackages, url: str) -> str:
    """The refusal when the package manager does not install what the repository has."""
    lines = [*str(failed.get("stderr") or "").splitlines(), str(failed.get("msg") or "")]
    told = [line.strip().rstrip(".") for line in lines if line.strip()]
    telling = (
        [line for line in told if line.startswith(("E:", "Error:"))] or told[-1:] or ["no output"]
    )
    text = f"version {seen['version']} of {url} cannot be installed: {telling[0]}"
    way = seen["repository"]["in_the_way"]
    step = "Look at the repository's key, and at what else the node's sources have"
    if way:
        text += f". Settings of this node that touch these packages: {'; '.join(way)}"
        step = "Let that version through there, or set container_toolkit_version to one that they let through"
    return str(Fault("CT-106", text, step))


def collect_toolkit_notes(devices: CdiState, waiting: int) -> list[CodedText]:
    """What the report has to say.

    Args:
        devices: what container_devices returned.
        waiting: containers that run under docker, for whose end its settings wait.
    """
    found: list[CodedText] = []
    if not devices["driver"]:
        how = "the toolkit's unit does it then" if devices["units"] else "run again then"
        text = f"no NVIDIA driver is loaded: containers get the GPUs after the reboot that loads it ({how})"
        found.append({"code": "CT-109", "text": text})
    if waiting:
        text = f"{waiting} container(s) run: docker takes NVIDIA's runtime after `systemctl restart docker`"
        found.append({"code": "CT-110", "text": text})
    return found
