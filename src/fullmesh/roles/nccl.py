"""Where NCCL's packages come from, and what can be wrong with the settings that say so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.model.types import CodedText
from fullmesh.observed.nccl import Repository

CODES: dict[str, str] = {
    "NC-101": "the repository has no such NCCL; the message lists what it has",
    "NC-102": "the NCCL repository cannot be read",
    "NC-103": "a setting of the role nccl cannot work",
    "NC-104": "the NCCL that loads is not the one that is pinned",
    "NC-105": "NCCL does not load or does not answer",
    "NC-106": "the repository's key or file cannot be written",
    "NC-107": "dnf's plugin versionlock is off, or its list cannot be written",
    "NC-108": "the package manager does not install the pinned NCCL; the message names pins and excludes in its way",
    "NC-110": "The repository's key does not have an expected fingerprint, or no fingerprint of it is known",
    "NC-109": "note: the node has the repository's own source switched off, so ours names it as well",
}

# NVIDIA calls 64-bit ARM servers "sbsa" in the paths of its repositories.
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "sbsa"}
VERSION = re.compile(r"\d+\.\d+\.\d+(-\d+\+cuda\d+\.\d+)?")
CUDA = re.compile(r"\d+\.\d+")
UNSIGNED = "none"
ADDRESS = re.compile(r"(https?|file)://\S+")


def choose_nccl_repository(url: str, vendors: str, machine: str) -> str:
    """The repository's address: the site's own, or NVIDIA's for this release and machine."""
    return (url or vendors.replace("ARCH", ARCHITECTURES.get(machine, machine))).rstrip("/")


def choose_key_address(key: str, base: str, vendors: str) -> str:
    """Where the signing key is fetched from; a plain path means a file on the node; "" for none."""
    if key == UNSIGNED:
        return ""
    if not key:
        return f"{base}/{vendors}"
    return f"file://{key}" if key.startswith("/") else key


def choose_key_file(folder: str, address: str) -> str:
    """Where the key is kept; apt tells armored from binary keys by the suffix."""
    suffix = "gpg" if address.endswith(".gpg") else "asc"
    return f"{folder}/fullmesh-nccl.{suffix}"


def explain_nccl_failure(
    failed: Mapping[str, Any], pinned: Sequence[str], around: Repository
) -> str:
    """The refusal when the package manager does not install what the repository has.

    Args:
        failed: the result of the task that failed.
        pinned: the packages with their versions.
        around: what nccl_packages saw of the node's own sources.
    """
    lines = [*str(failed.get("stderr") or "").splitlines(), str(failed.get("msg") or "")]
    told = [line.strip().rstrip(".") for line in lines if line.strip()]
    telling = (
        [line for line in told if line.startswith(("E:", "Error:"))] or told[-1:] or ["no output"]
    )
    place = f" from {around['theirs']}, which the node had before" if around["theirs"] else ""
    text = f"{', '.join(pinned)} cannot be installed{place}: {telling[0]}"
    step = "Look at that source and its key"
    if around["in_the_way"]:
        text += (
            f". Settings of this node that touch these packages: {'; '.join(around['in_the_way'])}"
        )
        step = "Let that version through there, or set nccl_version to one that they let through"
    return str(Fault("NC-108", text, step))


def collect_nccl_notes(around: Repository, url: str, ours: str) -> list[CodedText]:
    """What the report has to say of the node's sources."""
    if around["theirs"] or not around["off"]:
        return []
    text = (
        f"{url} is named in {', '.join(around['off'])} and switched off there; it was left so, and {ours} names it"
        " for NCCL"
    )
    return [{"code": "NC-109", "text": text}]


def find_nccl_faults(
    version: Any, cuda: Any, repository_url: str, repository_key: str
) -> list[Fault]:
    """Every setting that cannot work."""
    found = []
    if version and not VERSION.fullmatch(str(version)):
        text = f"nccl_version {version!r} is no version of NCCL"
        found.append(Fault("NC-103", text, "Write it like 2.28.9 or 2.28.9-1+cuda12.9"))
    if cuda and not CUDA.fullmatch(str(cuda)):
        text = f"nccl_cuda {cuda!r} is no version of CUDA"
        found.append(Fault("NC-103", text, 'Write it like "12.9", in quotes'))
    url, key = repository_url, repository_key
    if url and not ADDRESS.fullmatch(url):
        text = f"nccl_repository_url {url!r} is no address"
        found.append(
            Fault("NC-103", text, "Write it like https://mirror.example/cuda or file:///srv/cuda")
        )
    if key and key != UNSIGNED and not (ADDRESS.fullmatch(key) or re.fullmatch(r"/\S+", key)):
        text = f"nccl_repository_key {key!r} is neither an address nor an absolute path"
        found.append(Fault("NC-103", text, "Write it like https://mirror.example/cuda.asc"))
    return found
