"""Which wheels a cluster needs: the lock, the targets to download for, the room they take.

The controller downloads once for each different target (lock, Python, machine), never once a node.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fullmesh.faults import Fault

CODES: dict[str, str] = {
    "TR-101": "there is no lock file for the torch that was asked for",
    "TR-102": "the lock file has a line that is not pinned by version and hash",
    "TR-103": "the node has no Python at torch_runtime_python",
    "TR-104": "the node's Python cannot make virtual environments",
    "TR-105": "the node has not enough disk space",
    "TR-106": "the controller could not download the wheels",
    "TR-107": "a wheel arrived damaged on the node",
    "TR-108": "pip could not install the wheels on the node",
    "TR-109": "the new environment's torch does not load, or is not the one that was asked for",
    "TR-110": "something that is not ours is at torch_runtime_path",
}

GIB = 1 << 30
PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;*]+)\s*(;.*?)?$")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)")
# Tags from before the perennial manylinux scheme (PEP 600), which wheels still carry alone.
LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
OLDEST_GLIBC = {"x86_64": 5, "aarch64": 17}


def logical_lines(text: str) -> list[str]:
    """The lines of a requirements file, continuations joined, comments and blanks left out."""
    joined = re.sub(r"\\\s*\n", " ", text)
    lines = (re.sub(r"(^|\s)#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line]


def lock_faults(path: str, text: str) -> list[Fault]:
    """Every line that is not ``name==version`` with at least one SHA-256."""
    faults = []
    for line in logical_lines(text):
        pin = line.split("--hash", 1)[0].strip()
        if not PIN.match(pin) or not HASH.search(line):
            step = "Write name==version --hash=sha256:…, as pip-compile --generate-hashes does"
            faults.append(
                Fault("TR-102", f"{path}: {pin!r} is not pinned by version and hash", step)
            )
    if not logical_lines(text):
        faults.append(Fault("TR-102", f"{path} is empty", "Name at least torch"))
    return faults


def pinned(text: str) -> dict[str, str]:
    """Name -> version of everything in a lock."""
    pins = (PIN.match(line.split("--hash", 1)[0].strip()) for line in logical_lines(text))
    return {re.sub(r"[-_.]+", "-", pin["name"]).lower(): pin["version"] for pin in pins if pin}


def lock_file(files: str, version: str, build: str, own: str) -> str:
    """The path of the lock that the settings ask for."""
    return own or f"{files}/torch-{version}-{build}.txt"


def faults(files: str, version: str, build: str, own: str) -> list[Fault]:
    """What is wrong with the settings."""
    path = Path(lock_file(files, version, build, own))
    if path.is_file():
        return lock_faults(str(path), path.read_text(encoding="utf-8"))
    there = sorted(p.stem.removeprefix("torch-") for p in Path(files).glob("torch-*.txt"))
    what = f"{own} does not exist" if own else f"there is no lock for torch {version} ({build})"
    step = f"Take one of {', '.join(there)}, or give your own file by torch_runtime_requirements"
    return [Fault("TR-101", what, step)]


def platforms(machine: str, glibc: Sequence[int]) -> list[str]:
    """pip's platform names that run on a machine with this glibc, newest first."""
    tags = []
    for minor in range(int(glibc[1]), OLDEST_GLIBC.get(machine, 17) - 1, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in LEGACY:
            tags.append(f"{LEGACY[minor]}_{machine}")
    return [*tags, f"linux_{machine}"]


def target_key(lock: str, seen: Mapping[str, Any]) -> str:
    """A short name for (lock, Python, machine): nodes with the same key take the same wheels."""
    text = "\0".join([lock, str(seen["python"]), str(seen["machine"])])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def targets(nodes: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """What must be downloaded, each once.

    *nodes*: lock file and observation of each node. The oldest glibc of a group decides, so that one set of
    wheels runs on all of it; a wheel that every node of the group has kept need not travel.
    """
    found: dict[str, dict[str, Any]] = {}
    for lock, seen in nodes:
        if not seen.get("needed") or not seen.get("python"):
            continue
        key = target_key(lock, seen)
        new = {
            "key": key,
            "lock": lock,
            "python": seen["python"],
            "glibc": list(seen["glibc"]),
            "machine": seen["machine"],
            "have": set(seen.get("have", ())),
        }
        old = found.setdefault(key, new)
        old["glibc"] = min(old["glibc"], new["glibc"])
        old["have"] &= new["have"]
    return [
        target
        | {
            "have": sorted(target["have"]),
            "platforms": platforms(target["machine"], target["glibc"]),
        }
        for target in found.values()
    ]


def space_faults(node: str, seen: Mapping[str, Any], wheels: Mapping[str, Any]) -> list[Fault]:
    """Refuse a node whose disk cannot hold the bundle, its copy in transit and the environment."""
    need = 2 * int(wheels["bundle_bytes"]) + int(wheels["installed_bytes"])
    free = int(seen["free_bytes"])
    if free >= need:
        return []
    text = f"{node}: {free / GIB:.2f} GiB free at {seen['store']}, {need / GIB:.2f} GiB needed"
    return [Fault("TR-105", text, "Make room, or set torch_runtime_path to a larger disk")]
