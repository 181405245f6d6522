"""Choose the wheels of a cluster: the lock, the targets to download for, and the disk space.

The controller downloads once for each different target (lock, Python, machine), not once per node.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from fullmesh.faults import Fault
from fullmesh.model.locks import list_lock_names
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.torch import VenvSeen, WheelhouseResult
from fullmesh.observed.wheel_locks import parse_logical_lines

CODES: dict[str, str] = {
    "TR-101": "There is no lock file for the requested torch",
    "TR-102": "The lock file has a line that is not pinned by version and hash",
    "TR-103": "The node has no Python at torch_runtime_python",
    "TR-104": "The node's Python cannot create virtual environments",
    "TR-105": "The node does not have enough disk space",
    "TR-106": "The controller could not download the wheels",
    "TR-107": "A wheel arrived damaged on the node",
    "TR-108": "pip could not install the wheels on the node",
    "TR-109": "The new environment's torch does not load, or is not the requested one",
    "TR-110": "torch_runtime_path has files that Fullmesh did not create",
    "TR-111": "Nodes could not get the wheels from each other, so the controller sent them (warning)",
    "TR-113": "The new environment's torch is built for another accelerator",
    "TR-114": "The lock has no wheels for the node's Python or machine",
    "TR-112": "torch_runtime_accelerator is unknown",
    "TR-115": "An account other than root can change the folder of torch_runtime_path, or one above it",
    "TR-116": "Another run still builds or removes the environment on the node",
}

GIB = 1 << 30
# torch_runtime_domain_libraries: each is built for one torch version, so it belongs to that lock.
COMPANIONS = ("torchvision", "torchaudio")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[^\s;*]+)\s*(;.*?)?$")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)")
# Tags from before the perennial manylinux scheme (PEP 600), which wheels still carry alone.
LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
ACCELERATOR = re.compile(
    r"^(?P<kind>cpu|cuda|rocm|cu(?=\d{3}$))(?P<version>(?<=cu)\d{3}|(?<!cpu)\d+\.\d+)?$"
)
PYTORCH = "https://download.pytorch.org/whl"
OLDEST_GLIBC = {"x86_64": 5, "aarch64": 17}
NEWEST_GLIBC = 199  # limit for a node's number, which is foreign data


# The line of a lock with its targets: hashes do not show them, and pip only finds out when it downloads.
SERVES = re.compile(
    r"^# serves: CPython (?P<pythons>[\d., ]+) on (?P<machines>[\w, ]+)$", re.MULTILINE
)
PYTHON = re.compile(r"python(\d+\.\d+)$")


@dataclass(frozen=True)
class LockTargets:
    """The Pythons and machines for which a lock has wheels."""

    pythons: tuple[str, ...]
    machines: tuple[str, ...]

    def __str__(self) -> str:
        """Describe the targets."""
        return f"CPython {', '.join(self.pythons)} on {', '.join(self.machines)}"


def parse_lock_targets(text: str) -> LockTargets | None:
    """Return the targets that a lock states. None: it states none, as a user's own lock may."""
    found = SERVES.search(text)
    if not found:
        return None
    pythons, machines = (
        re.split(r"[, ]+", found[name].strip()) for name in ("pythons", "machines")
    )
    return LockTargets(tuple(pythons), tuple(machines))


def find_python_version(interpreter: str, seen: str) -> str:
    """Return the version of a node's Python: from its name, because it may not be installed yet, or else *seen*."""
    named = PYTHON.search(interpreter)
    return named[1] if named else seen


def find_python_faults(
    node: str, interpreter: str, seen: str, machine: str, lock: str
) -> list[Fault]:
    """Return why a node cannot build an environment from a lock, before anything is changed.

    *seen*: the version of the interpreter, if known. *lock*: its path.
    """
    path = Path(lock)
    held = parse_lock_targets(path.read_text(encoding="utf-8")) if path.is_file() else None
    version = find_python_version(interpreter, seen)
    if not held or ((not version or version in held.pythons) and machine in held.machines):
        return []
    shown = f"Python {version} ({interpreter})" if version else interpreter
    step = (
        "Set torch_runtime_python (and torch_runtime_packages, which install it) to one that the lock supports, or "
        "use your own lock (./fullmesh torch-lock creates one for torch_runtime_requirements)"
    )
    text = (
        f"{node}: torch would run on {shown} on {machine}, but the lock {path.name} supports {held}"
    )
    return [Fault("TR-114", text, step)]


def find_lock_faults(path: str, text: str) -> list[Fault]:
    """Return a fault for every line that is not ``name==version`` with at least one SHA-256."""
    faults = []
    for line in parse_logical_lines(text):
        pin = line.split("--hash", 1)[0].strip()
        if not PIN.match(pin) or not HASH.search(line):
            step = "Write name==version --hash=sha256:…, as pip-compile --generate-hashes does"
            faults.append(
                Fault("TR-102", f"{path}: {pin!r} is not pinned by version and hash", step)
            )
    if not parse_logical_lines(text):
        faults.append(Fault("TR-102", f"{path} is empty", "Name at least torch"))
    return faults


def parse_lock_pins(text: str) -> dict[str, str]:
    """Map the name of each package in a lock to its version."""
    pins = (PIN.match(line.split("--hash", 1)[0].strip()) for line in parse_logical_lines(text))
    return {re.sub(r"[-_.]+", "-", pin["name"]).lower(): pin["version"] for pin in pins if pin}


def parse_accelerator(text: str) -> tuple[str, str]:
    """Split an accelerator: ``cuda13.0`` and ``cu130`` are ("cuda", "13.0"), ``rocm`` is ("rocm", "").

    Raises:
        ValueError: it is none of these.
    """
    found = ACCELERATOR.match(str(text))
    if not found:
        raise ValueError(text)
    kind = "cuda" if found["kind"] == "cu" else found["kind"]
    number = found["version"] or ""
    if found["kind"] == "cu":
        number = f"{number[:-1]}.{number[-1]}"
    return kind, number


DOMAIN = "domain"


def choose_lock_folder(files: str, *, domain: bool) -> str:
    """Return the folder of the committed locks with or without the domain libraries. Both use the same file names."""
    return f"{files}/{DOMAIN}" if domain else files


def choose_lock_file(files: str, version: str, wanted: str, own: str) -> str:
    """Return the path of the lock for the settings. ``cuda`` alone means the newest CUDA that has a lock."""
    if own:
        return own
    try:
        kind, number = parse_accelerator(wanted)
    except ValueError:
        kind, number = wanted, ""
    if kind != "cpu" and not number:
        known = [
            name.rpartition(kind)[2]
            for name in list_lock_names(files)
            if name.startswith(f"{version}-{kind}")
        ]
        number = max(known, key=lambda n: [int(part) for part in n.split(".")], default="")
    return f"{files}/torch-{version}-{kind}{number}.txt"


def choose_package_index(files: str, version: str, wanted: str, own: str) -> str:
    """Return PyTorch's package index for an accelerator (https://pytorch.org/get-started). *own* overrides it."""
    if own:
        return "" if own == "none" else own
    kind, number = parse_accelerator(wanted)
    if kind != "cpu" and not number:
        number = Path(choose_lock_file(files, version, wanted, "")).stem.rpartition(kind)[2]
    if kind != "cpu" and not number:
        return ""
    folder = f"cu{number.replace('.', '')}" if kind == "cuda" else f"{kind}{number}"
    return f"{PYTORCH}/{folder}"


def find_torch_faults(files: str, version: object, wanted: str, requirements: str) -> list[Fault]:
    """Return the faults in the settings."""
    version = str(version)
    try:
        parse_accelerator(wanted)
    except ValueError:
        step = "Write cpu, cuda, cuda13.0 (or cu130), rocm or rocm6.4"
        return [Fault("TR-112", f"torch_runtime_accelerator is {wanted!r}", step)]
    path = Path(choose_lock_file(files, version, wanted, requirements))
    if path.is_file():
        return find_lock_faults(str(path), path.read_text(encoding="utf-8"))
    what = (
        f"{requirements} does not exist"
        if requirements
        else f"there is no lock for torch {version} ({wanted})"
    )
    extra = "".join(f" --with {one}" for one in COMPANIONS if Path(files).name == DOMAIN)
    step = (
        f"Use one of {', '.join(list_lock_names(files))}, or create your own with ./fullmesh torch-lock{extra} and "
        "set torch_runtime_requirements to it"
    )
    return [Fault("TR-101", what, step)]


def list_platform_tags(machine: str, glibc: Sequence[int]) -> list[str]:
    """List pip's platform names that run on a machine with this glibc, newest first."""
    tags = []
    newest = min([*glibc, 0, 0][1], NEWEST_GLIBC)
    for minor in range(newest, OLDEST_GLIBC.get(machine, 17) - 1, -1):
        tags.append(f"manylinux_2_{minor}_{machine}")
        if minor in LEGACY:
            tags.append(f"{LEGACY[minor]}_{machine}")
    return [*tags, f"linux_{machine}"]


def derive_target_key(lock: str, python: str, machine: str) -> str:
    """Derive a short name for (lock, Python, machine). Nodes with the same key use the same wheels."""
    text = "\0".join([lock, python, machine])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class WheelSettings(TypedDict):
    """The controller's settings for a node's download: the lock's path and the package index."""

    lock: str
    index: str


class WheelTarget(TypedDict):
    """A set of wheels to download. ``have``: SHA-256 of those that all of its nodes already have."""

    key: str
    lock: str
    index: str
    python: str
    glibc: list[int]
    machine: str
    have: list[str]
    platforms: list[str]


class BundleHandover(TypedDict):
    """The nodes from which a node fetches the bundle, nearest first. If not ``shared``, the controller sends it."""

    sources: list[str]
    shared: bool


def list_wheel_targets(nodes: Sequence[tuple[WheelSettings, VenvSeen]]) -> list[WheelTarget]:
    """List the sets of wheels to download, each once.

    *nodes*: settings and survey of each node. The oldest glibc of a group decides, so that one set of wheels runs on
    all of
    its nodes. Wheels that every node of the group already has are not sent.
    """
    found: dict[str, WheelTarget] = {}
    for wanted, seen in nodes:
        if not seen["needed"] or not seen["python"]:
            continue
        key = derive_target_key(wanted["lock"], seen["python"], seen["machine"])
        new: WheelTarget = {
            "key": key,
            "lock": wanted["lock"],
            "index": wanted["index"],
            "python": seen["python"],
            "glibc": seen["glibc"],
            "machine": seen["machine"],
            "have": sorted(seen["have"]),
            "platforms": [],
        }
        old = found.setdefault(key, new)
        old["glibc"] = min(old["glibc"], new["glibc"])
        old["have"] = sorted(set(old["have"]) & set(new["have"]))
    for target in found.values():
        target["platforms"] = list_platform_tags(target["machine"], target["glibc"])
    return list(found.values())


def find_space_faults(node: str, seen: VenvSeen, wheels: WheelhouseResult) -> list[Fault]:
    """Return a fault if a node's disk cannot hold the bundle, its copy in transit and the environment."""
    need = 2 * wheels["bundle_bytes"] + wheels["installed_bytes"]
    free = seen["free_bytes"]
    if free >= need:
        return []
    text = f"{node}: {free / GIB:.2f} GiB free at {seen['store']}, {need / GIB:.2f} GiB needed"
    return [Fault("TR-105", text, "Free some space, or set torch_runtime_path to a larger disk")]


FAN_OUT = 2


def order_bundle_sources(place: int, count: int) -> list[int]:
    """List the sources for the node at *place*, nearest first: its way up the tree, then its neighbors.

    Place 0 has the file. No node serves more than FAN_OUT others unless some fail, and a node passes on pieces while
    it still receives. The transfer therefore takes the time of FAN_OUT copies and a few pieces, for any number of
    nodes.
    """
    way = []
    here = place
    while here:
        here = (here - 1) // FAN_OUT
        way.append(here)
    neighbors = [n for n in (place - 1, place + 1) if 0 < n < count and n not in way]
    return way + neighbors if place else []


def plan_bundle_handover(
    nodes: Mapping[str, tuple[VenvSeen, WheelhouseResult]], plan: ClusterPlan
) -> dict[str, BundleHandover]:
    """Decide which nodes get the bundle from the controller and which from other nodes.

    *nodes*: name -> (survey, its download). The controller sends the bundle if there is no plan, to a node outside
    the plan,
    and if only one node needs it. A node that still has the whole bundle from an interrupted run comes first, else
    the first
    in the plan's order.
    """
    groups: dict[str, list[str]] = {}
    found: dict[str, BundleHandover] = {}
    for name, (_, wheels) in nodes.items():
        if not wheels["bundle"]:
            continue
        found[name] = {"sources": [], "shared": False}
        if name in plan.get("nodes", {}):
            groups.setdefault(wheels["bundle"], []).append(name)
    for bundle, members in groups.items():
        if len(members) < 2:  # noqa: PLR2004 (no other node to share with)
            continue
        name = Path(bundle).name
        members.sort(key=lambda node: int(plan["nodes"][node]["node_rank"]))
        members.sort(
            key=lambda node: nodes[node][0]["bundles"].get(name) != nodes[node][1]["bundle_bytes"]
        )
        for place, node in enumerate(members):
            asked = [members[n] for n in order_bundle_sources(place, len(members))]
            found[node] = {"sources": asked, "shared": True}
    return found
