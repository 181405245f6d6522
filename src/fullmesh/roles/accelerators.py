"""What is left to ``auto`` is worked out from the first look at the nodes: what torch is made for, and how many ranks.

Pure. What cannot be decided for the user is refused, for all nodes at once and before anything is touched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fullmesh.faults import Fault
from fullmesh.model.auto import AUTO
from fullmesh.model.types import AutoSettings, ClusterPlan
from fullmesh.observed.node import Accelerators, ResolvedSettings
from fullmesh.roles import torch_runtime
from fullmesh.settings import ROOT

LOCKS = str(ROOT / "roles/torch_runtime/files")
# The lowest driver branch for each CUDA, with minor version compatibility (CUDA compatibility guide, "Minor Version
# Compatibility": 12.x from 525.60.13, 13.x from 580.65.06).
LOWEST_BRANCH = {11: 450, 12: 525, 13: 580}
# A device that a virtual machine has is nobody's here.
PASSED_THROUGH = ("vfio-pci", "pci-stub", "pciback")
NOT_NVIDIA = {
    "amd": "AMD GPUs: give a lock of torch for ROCm (torch_runtime_requirements)",
    "ascend": "Ascend NPUs: HCCL needs torch_npu, which Fullmesh does not install",
    "gaudi": "Gaudi accelerators: HCCL needs Intel's own torch, which Fullmesh does not install",
}
RCCL = "torch for ROCm: its backend nccl is RCCL, with NCCL's variables; what is said of NCCL is said of it"
CUDA_OF_WHEEL = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?$")


class UndecidedError(Exception):
    """Auto cannot choose; the fault says why."""

    def __init__(self, code: str, text: str, step: str) -> None:
        self.fault = Fault(code, text, step)
        super().__init__(str(self.fault))


def count_usable_devices(seen: Accelerators, vendor: str) -> int:
    """How many devices of a vendor jobs on the node itself can have."""
    return sum(
        one["vendor"] == vendor and one["driver"] not in PASSED_THROUGH for one in seen["devices"]
    )


def describe_accelerators(seen: Accelerators) -> str:
    """``8 nvidia``, ``none``: the kinds on the bus."""
    vendors = sorted({one["vendor"] for one in seen["devices"]})
    counted = [(count_usable_devices(seen, vendor), vendor) for vendor in vendors]
    return " and ".join(f"{count} {vendor}" for count, vendor in counted if count) or "none"


def find_lock_accelerator(text: str) -> str:
    """What the torch of a lock is made for: its local version says it, else the CUDA runtime beside it."""
    pins = torch_runtime.parse_lock_pins(text)
    local = pins.get("torch", "").partition("+")[2]
    if local:
        return local
    runtime = next((pins[name] for name in pins if CUDA_OF_WHEEL.match(name)), "")
    return "cuda" + ".".join(runtime.split(".")[:2]) if runtime else "cpu"


def read_own_lock_accelerator(host: str, path: Path) -> str:
    """What the torch of a user's own lock is made for.

    Raises:
        Undecided: it says something that we don't know.
    """
    # role torch_runtime refuses a lock that is not there (TR-101)
    made_for = find_lock_accelerator(path.read_text(encoding="utf-8")) if path.is_file() else "cpu"
    try:
        torch_runtime.parse_accelerator(made_for)
    except ValueError:
        step = "Set torch_runtime_accelerator to what it is made for (cpu, cuda12.8, rocm6.4)"
        raise UndecidedError(
            "PR-116", f"{host}: {path.name} pins torch for {made_for!r}", step
        ) from None
    return made_for


def list_cuda_locks(locks: str, version: str) -> list[str]:
    """The CUDA versions that there is a committed lock for, newest first."""
    start = f"{version}-cuda"
    found = [
        one.removeprefix(start)
        for one in torch_runtime.list_lock_names(locks)
        if one.startswith(start)
    ]
    return sorted(found, key=lambda number: [int(part) for part in number.split(".")], reverse=True)


def find_lowest_branch(number: str) -> int:
    """The oldest driver branch that runs programs for a CUDA version; one that is not known needs the newest."""
    major = number.split(".", maxsplit=1)[0]
    return LOWEST_BRANCH.get(int(major or 0), max(LOWEST_BRANCH.values()))


def can_branch_run_lock(lock: str, branch: int) -> bool:
    """Whether a committed lock (``2.10.0-cuda12.8``) is for a CUDA that a driver branch runs."""
    kind, _, number = lock.partition("-")[2].partition("cuda")
    return not kind and number != "" and branch >= find_lowest_branch(number)


def list_torch_builds(host: str, asked: AutoSettings, seen: Accelerators, locks: str) -> list[str]:
    """The builds of torch that a node's driver runs, or will run, newest first; ``cpu`` where it has no NVIDIA GPU.

    Raises:
        Undecided: no driver, no lock, or none that fits.
    """
    own = read_own_lock_accelerator(host, Path(asked["lock"])) if asked["lock"] else ""
    cards = count_usable_devices(seen, "nvidia")
    if not cards or (own and torch_runtime.parse_accelerator(own)[0] != "cuda"):
        return [own or "cpu"]
    held = [own] if own else [f"cuda{number}" for number in list_cuda_locks(locks, asked["torch"])]
    numbers = {one: torch_runtime.parse_accelerator(one)[1] for one in held}
    cuda = ", ".join(numbers.values())
    by_hand = "or set torch_runtime_accelerator (with cpu, the verification names the idle GPUs)"
    if not held:
        raise UndecidedError(
            "PR-116",
            f"{host}: {cards} NVIDIA GPU(s), and no lock of torch {asked['torch']} for CUDA",
            "Take a version that has one "
            f"({', '.join(one for one in torch_runtime.list_lock_names(locks) if 'cuda' in one)}), "
            f"give your own (torch_runtime_requirements; ./fullmesh torch-lock makes one), {by_hand}",
        )
    driver = asked["driver_branch"] or seen["nvidia_driver"]
    branch = re.match(r"\d+", driver)
    if not branch:
        raise UndecidedError(
            "PR-116",
            f"{host}: {cards} NVIDIA GPU(s) and no driver",
            f"Set nvidia_driver_manage: true and nvidia_driver_branch, install a driver, {by_hand}",
        )
    found = [one for one in held if int(branch[0]) >= find_lowest_branch(numbers[one])]
    if found:
        return found
    needed = min(find_lowest_branch(number) for number in numbers.values())
    older = [
        name
        for name in torch_runtime.list_lock_names(locks)
        if can_branch_run_lock(name, int(branch[0]))
    ]
    other = (
        f"take a version of torch that has one ({', '.join(older)}), " if older and not own else ""
    )
    raise UndecidedError(
        "PR-116",
        f"{host}: NVIDIA driver {driver} does not run CUDA {cuda}, which the lock of torch is for",
        f"Bring the driver to branch {needed} or newer (nvidia_driver_manage), {other}give a lock of torch for an "
        f"older CUDA (torch_runtime_requirements; ./fullmesh torch-lock makes one), {by_hand}",
    )


def choose_torch_build(
    host: str, torch: str, lock: str, seen: Accelerators, locks: str = LOCKS
) -> str:
    """What torch is made for on a machine that no plan has looked at.

    Raises:
        Undecided: as `fitting`.
    """
    asked: AutoSettings = {
        "ranks": False,
        "accelerator": AUTO,
        "torch": torch,
        "lock": lock,
        "driver_branch": "",
        "visible": None,
    }
    return list_torch_builds(host, asked, seen, locks)[0]


def count_ranks(host: str, asked: AutoSettings, seen: Accelerators, made_for: str) -> int:
    """A rank for each GPU that torch can use; one where it uses none.

    Raises:
        Undecided: the bus and the driver disagree.
    """
    try:
        kind = torch_runtime.parse_accelerator(made_for)[0]
    except ValueError:
        return 1  # TR-112 says so
    count = count_usable_devices(seen, {"cuda": "nvidia", "rocm": "amd"}.get(kind, ""))
    shown = seen["nvidia_shown"]
    if kind == "cuda" and seen["nvidia_driver"] and shown != count:
        raise UndecidedError(
            "PR-118",
            f"{host}: {count} NVIDIA GPU(s) on the PCI bus, its driver shows {shown}",
            "Look for Xid in its kernel log (a card that fell off comes back with a reset or a reboot), or set "
            "fullmesh_local_ranks",
        )
    left = count if asked["visible"] is None else asked["visible"]
    return max(1, min(count, left))


def resolve_auto_choice(
    plan: ClusterPlan,
    looked: Mapping[str, Accelerators],
    kept: ResolvedSettings,
    locks: str = LOCKS,
) -> tuple[ResolvedSettings, list[Fault]]:
    """What the look at the nodes decides for all that leave it to auto, and why it cannot.

    All such nodes are given the same: one job runs on them, and an NCCL of another version or a rank without a GPU
    ends it. So a node that this run leaves out gets what the others get.

    Args:
        plan: with ``auto``.
        looked: host -> what its bus and driver show, for the hosts of this run that answered.
        kept: what a node remembers of an earlier run, for a run that looks at none of these hosts.
        locks: the folder of the committed locks.
    """
    asked = plan.get("auto", {})
    faults: list[Fault] = []
    found: ResolvedSettings = {}
    torch = {h: one for h, one in asked.items() if one["accelerator"] == AUTO}
    here = {h: one for h, one in torch.items() if h in looked}
    if here:
        found["accelerator"] = _choose_common_build(here, looked, locks, faults)
    elif torch and "accelerator" in kept:
        found["accelerator"] = kept["accelerator"]
    starting = {h: one for h, one in asked.items() if one["ranks"] and h in looked}
    if starting and not faults:
        counts = _count_equal_ranks(starting, looked, found.get("accelerator", ""), faults)
        if counts and not faults:
            found["local_ranks"] = max(counts.values())
    if not faults and any(one["ranks"] for one in asked.values()) and "local_ranks" not in found:
        if "local_ranks" in kept:
            found["local_ranks"] = kept["local_ranks"]
        elif looked:
            faults.append(_explain_unknown_ranks(asked))
    return found, faults


def _explain_unknown_ranks(asked: Mapping[str, AutoSettings]) -> Fault:
    hosts = ", ".join(host for host, one in asked.items() if one["ranks"])
    return Fault(
        "PR-120",
        f"the ranks of {hosts} are left to auto, and this run looks at none of them",
        "Set fullmesh_local_ranks, or run without --limit",
    )


def _choose_common_build(
    asked: Mapping[str, AutoSettings],
    looked: Mapping[str, Accelerators],
    locks: str,
    faults: list[Fault],
) -> str:
    """The newest build that all of them run; "" with a fault."""
    builds: dict[str, list[str]] = {}
    for host, one in asked.items():
        try:
            builds[host] = list_torch_builds(host, one, looked[host], locks)
        except UndecidedError as why:
            faults.append(why.fault)
    if len({torch_runtime.parse_accelerator(one[0])[0] for one in builds.values()}) > 1:
        seen = ", ".join(f"{host}: {describe_accelerators(looked[host])}" for host in builds)
        faults.append(
            Fault(
                "PR-115",
                f"auto would give some nodes torch for GPUs and some for CPUs (accelerators: {seen})",
                "Set torch_runtime_accelerator for the group or by host, or leave a host out of torch_nodes",
            )
        )
    if faults:
        return ""
    first, *others = builds.values()
    common = [one for one in first if all(one in other for other in others)]
    if common:
        return common[0]
    seen = ", ".join(f"{host}: {', '.join(one)}" for host, one in builds.items())
    faults.append(
        Fault(
            "PR-116",
            f"no build of torch runs on all nodes ({seen})",
            "Give the nodes one driver branch (nvidia_driver_manage), or set torch_runtime_accelerator",
        )
    )
    return ""


def _count_equal_ranks(
    asked: Mapping[str, AutoSettings],
    looked: Mapping[str, Accelerators],
    made_for: str,
    faults: list[Fault],
) -> dict[str, int]:
    counts = {}
    for host, one in asked.items():
        own = made_for if one["accelerator"] == AUTO else one["accelerator"]
        try:
            counts[host] = count_ranks(host, one, looked[host], own)
        except UndecidedError as why:
            faults.append(why.fault)
    if len(set(counts.values())) > 1:
        seen = ", ".join(f"{host}: {count}" for host, count in counts.items())
        faults.append(
            Fault(
                "PR-117",
                f"auto starts a rank for each GPU, and their number differs ({seen})",
                "Look for the missing cards, or set fullmesh_local_ranks by host",
            )
        )
    return counts


def describe_unused_devices(looked: Mapping[str, Accelerators], plan: ClusterPlan) -> list[str]:
    """A sentence for each kind of accelerator that torch on its nodes does not use, or not by NCCL."""
    notes = []
    for vendor, step in NOT_NVIDIA.items():
        hosts = [
            host
            for host, seen in looked.items()
            if count_usable_devices(seen, vendor)
            and plan["nodes"][host].get("accelerator") == "cpu"
        ]
        if hosts:
            notes.append(f"torch does not use what {', '.join(hosts)} have. {step}")
    rocm = [h for h in looked if str(plan["nodes"][h].get("accelerator", "")).startswith("rocm")]
    return notes + ([f"{', '.join(rocm)} get {RCCL}"] if rocm else [])
