"""Check the settings of NVIDIA's container toolkit, choose its repository, and write notes for the report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

from fullmesh.faults import Fault
from fullmesh.model.types import CodedText
from fullmesh.observed.gpu import GpuFacts
from fullmesh.observed.toolkit import CdiState, ToolkitPackages

CODES: dict[str, str] = {
    "CT-101": "A setting of the role container_toolkit cannot work",
    "CT-102": "The container toolkit's repository cannot be read",
    "CT-103": "The repository does not have this version of the container toolkit",
    "CT-104": "The node has no NVIDIA GPU for containers",
    "CT-105": "The repository's key or file cannot be written",
    "CT-106": "The package manager does not install the container toolkit",
    "CT-107": "The container toolkit does not describe the GPUs for containers (CDI)",
    "CT-108": "docker's daemon.json cannot be read, or docker does not start with NVIDIA's runtime in it",
    "CT-109": "No driver is loaded, so containers get GPUs only after the reboot that loads it (note)",
    "CT-110": "Containers run, so docker uses NVIDIA's runtime from its next start (note)",
    "CT-111": "The repository's key does not have an expected fingerprint",
}
UNSIGNED = "none"
ADDRESS = re.compile(r"(https?|file)://\S+")
VERSION = re.compile(r"(\d+)\.(\d+)\.\d+(-\d+)?")
# The first with `nvidia-ctk cdi generate` (NVIDIA's documentation, "Support for Container Device Interface").
OLDEST = (1, 12)


class ToolkitSource(TypedDict):
    """The repository of the packages.

    Attributes:
        url: of the repository.
        key: the address of its key, or "" for none.
    """

    url: str
    key: str


def choose_toolkit_source(
    url: str, key: str, vendors: str, vendors_key: str, machine: str
) -> ToolkitSource:
    """Choose the site's own repository and key, or NVIDIA's. A plain path is a file on the node.

    Args:
        url: of the site's mirror, or "".
        key: the site's key, "none", or "".
        vendors: NVIDIA's address, with ``ARCH`` in it.
        vendors_key: NVIDIA's key.
        machine: its name in the package manager.
    """
    found = "" if key == UNSIGNED else key or vendors_key
    return {
        "url": (url or vendors.replace("ARCH", machine)).rstrip("/"),
        "key": f"file://{found}" if found.startswith("/") else found,
    }


def find_toolkit_faults(settings: Mapping[str, Any], bundle: str) -> list[Fault]:
    """Return a fault for every setting that cannot work."""
    found = []
    version = str(settings["container_toolkit_version"])
    read = VERSION.fullmatch(version)
    if version and (not read or (int(read[1]), int(read[2])) < OLDEST):
        text = f"container_toolkit_version {version!r} is not a version of the toolkit that describes GPUs"
        found.append(
            Fault(
                "CT-101",
                text,
                "Write it like 1.20.0 or 1.20.0-1. The oldest supported version is 1.12.0",
            )
        )
    url, key = (str(settings[f"container_toolkit_repository_{one}"]) for one in ("url", "key"))
    if url and not ADDRESS.fullmatch(url):
        text = f"container_toolkit_repository_url {url!r} is not an address"
        found.append(
            Fault("CT-101", text, "Write it like https://mirror.example/libnvidia-container/deb")
        )
    if key and key != UNSIGNED and not (ADDRESS.fullmatch(key) or re.fullmatch(r"/\S+", key)):
        text = (
            f"container_toolkit_repository_key {key!r} is neither an address nor an absolute path"
        )
        found.append(Fault("CT-101", text, "Write it like https://mirror.example/gpgkey"))
    if bundle:
        text = f"bundles do not contain the container toolkit, but fullmesh_bundle is {bundle}"
        step = (
            "Add -e container_toolkit_manage=false, then run once without the bundle, with a mirror"
        )
        found.append(Fault("CT-101", text, step))
    return found


def find_missing_gpu_faults(gpu: GpuFacts) -> list[Fault]:
    """Return a fault if the node has no GPU for the toolkit."""
    if gpu["pci"]["gpus"]:
        return []
    step = "Set container_toolkit_manage only for nodes with a GPU (lspci -d 10de: lists the GPUs)"
    return [Fault("CT-104", "No NVIDIA GPU is on the PCI bus", step)]


def needs_own_source(seen: ToolkitPackages) -> bool:
    """Return whether Fullmesh's own file must name the repository.

    It must not if another file names it already, or if others installed the packages.
    """
    return not seen["repository"]["theirs"] and (seen["ours"] or not seen["satisfied"])


def explain_toolkit_failure(failed: Mapping[str, Any], seen: ToolkitPackages, url: str) -> str:
    """Explain why the package manager does not install a version that the repository has."""
    lines = [*str(failed.get("stderr") or "").splitlines(), str(failed.get("msg") or "")]
    said = [line.strip().rstrip(".") for line in lines if line.strip()]
    telling = (
        [line for line in said if line.startswith(("E:", "Error:"))] or said[-1:] or ["no output"]
    )
    text = f"version {seen['version']} of {url} cannot be installed: {telling[0]}"
    way = seen["repository"]["in_the_way"]
    step = "Check: the repository's key, and the node's other sources"
    if way:
        text += f". Settings of this node that affect these packages: {'; '.join(way)}"
        step = "Allow that version there, or set container_toolkit_version to one that they allow"
    return str(Fault("CT-106", text, step))


def collect_toolkit_notes(devices: CdiState, waiting: int) -> list[CodedText]:
    """Return the notes for the report.

    Args:
        devices: the result of container_devices.
        waiting: the number of running docker containers that delay its settings.
    """
    found: list[CodedText] = []
    if not devices["driver"]:
        how = "the toolkit's unit then does it" if devices["units"] else "then run again"
        text = f"no NVIDIA driver is loaded: containers get the GPUs after the reboot that loads it ({how})"
        found.append({"code": "CT-109", "text": text})
    if waiting:
        text = f"{waiting} container(s) run: docker uses NVIDIA's runtime after `systemctl restart docker`"
        found.append({"code": "CT-110", "text": text})
    return found
