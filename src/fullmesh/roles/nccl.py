"""Choose the repository of NCCL's packages, and check the settings for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.model.types import CodedText
from fullmesh.observed.nccl import Repository

CODES: dict[str, str] = {
    "NC-101": "The repository does not have this version of NCCL",
    "NC-102": "The NCCL repository cannot be read",
    "NC-103": "A setting of the role nccl cannot work",
    "NC-104": "The NCCL that loads is not the pinned one",
    "NC-105": "NCCL does not load or does not answer",
    "NC-106": "The repository's key or file cannot be written",
    "NC-107": "dnf's plugin versionlock is off, or its list cannot be written",
    "NC-108": "The package manager does not install the pinned NCCL, for example because of pins or excludes",
    "NC-110": "The repository's key does not have an expected fingerprint, or no fingerprint of it is known",
    "NC-109": "The node's own source of the repository is off, so Fullmesh's source names it too (note)",
}

# NVIDIA calls 64-bit ARM servers "sbsa" in the paths of its repositories.
ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "sbsa"}
VERSION = re.compile(r"\d+\.\d+\.\d+(-\d+\+cuda\d+\.\d+)?")
CUDA = re.compile(r"\d+\.\d+")
UNSIGNED = "none"
ADDRESS = re.compile(r"(https?|file)://\S+")


def choose_nccl_repository(url: str, vendors: str, machine: str) -> str:
    """Return the repository's address: the site's own, or NVIDIA's for this release and machine."""
    return (url or vendors.replace("ARCH", ARCHITECTURES.get(machine, machine))).rstrip("/")


def choose_key_address(key: str, base: str, vendors: str) -> str:
    """Return the address of the signing key, or "" for none. A plain path means a file on the node."""
    if key == UNSIGNED:
        return ""
    if not key:
        return f"{base}/{vendors}"
    return f"file://{key}" if key.startswith("/") else key


def choose_key_file(folder: str, address: str) -> str:
    """Return the path of the key. apt tells armored keys from binary keys by the suffix."""
    suffix = "gpg" if address.endswith(".gpg") else "asc"
    return f"{folder}/fullmesh-nccl.{suffix}"


def explain_nccl_failure(
    failed: Mapping[str, Any], pinned: Sequence[str], around: Repository
) -> str:
    """Explain why the package manager does not install packages that the repository has.

    Args:
        failed: the result of the task that failed.
        pinned: the packages with their versions.
        around: the node's own sources, from nccl_packages.
    """
    lines = [*str(failed.get("stderr") or "").splitlines(), str(failed.get("msg") or "")]
    said = [line.strip().rstrip(".") for line in lines if line.strip()]
    telling = (
        [line for line in said if line.startswith(("E:", "Error:"))] or said[-1:] or ["no output"]
    )
    place = f" from {around['theirs']}, which the node had before" if around["theirs"] else ""
    text = f"{', '.join(pinned)} cannot be installed{place}: {telling[0]}"
    step = "Check: that source and its key"
    if around["in_the_way"]:
        text += (
            f". Settings of this node that affect these packages: {'; '.join(around['in_the_way'])}"
        )
        step = "Allow that version there, or set nccl_version to one that they allow"
    return str(Fault("NC-108", text, step))


def collect_nccl_notes(around: Repository, url: str, ours: str) -> list[CodedText]:
    """Return the notes for the report about the node's sources."""
    if around["theirs"] or not around["off"]:
        return []
    text = (
        f"{url} is switched off in {', '.join(around['off'])}. Fullmesh left that unchanged and added the repository"
        f" for NCCL in {ours}"
    )
    return [{"code": "NC-109", "text": text}]


def find_nccl_faults(
    version: Any, cuda: Any, repository_url: str, repository_key: str
) -> list[Fault]:
    """Return a fault for every setting that cannot work."""
    found = []
    if version and not VERSION.fullmatch(str(version)):
        text = f"nccl_version {version!r} is not a version of NCCL"
        found.append(Fault("NC-103", text, "Write it like 2.28.9 or 2.28.9-1+cuda12.9"))
    if cuda and not CUDA.fullmatch(str(cuda)):
        text = f"nccl_cuda {cuda!r} is not a version of CUDA"
        found.append(Fault("NC-103", text, 'Write it like "12.9", in quotes'))
    url, key = repository_url, repository_key
    if url and not ADDRESS.fullmatch(url):
        text = f"nccl_repository_url {url!r} is not an address"
        found.append(
            Fault("NC-103", text, "Write it like https://mirror.example/cuda or file:///srv/cuda")
        )
    if key and key != UNSIGNED and not (ADDRESS.fullmatch(key) or re.fullmatch(r"/\S+", key)):
        text = f"nccl_repository_key {key!r} is neither an address nor an absolute path"
        found.append(Fault("NC-103", text, "Write it like https://mirror.example/cuda.asc"))
    return found
