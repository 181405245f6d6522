"""Resolve ``auto`` from the survey of the nodes: the accelerator of the torch build, and the number of ranks.

Pure. If Fullmesh cannot decide, it reports all nodes at once and stops before anything is changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fullmesh.faults import Fault
from fullmesh.model.auto import AUTO
from fullmesh.model.locks import LOCKS, list_lock_names
from fullmesh.model.types import AutoSettings, ClusterPlan
from fullmesh.observed.node import Accelerators, ResolvedSettings
from fullmesh.roles import torch_runtime

# The lowest driver branch for each CUDA, with minor version compatibility (CUDA compatibility guide, "Minor Version
# Compatibility": 12.x from 525.60.13, 13.x from 580.65.06).
LOWEST_BRANCH = {11: 450, 12: 525, 13: 580}
# Jobs on the node cannot use a device that is passed through to a virtual machine.
PASSED_THROUGH = ("vfio-pci", "pci-stub", "pciback")
NOT_NVIDIA = {
    "amd": "AMD GPUs: give a lock of torch for ROCm (torch_runtime_requirements)",
    "ascend": "Ascend NPUs: HCCL needs torch_npu, which Fullmesh does not install",
    "gaudi": "Gaudi accelerators: HCCL needs Intel's own torch, which Fullmesh does not install",
}
RCCL = "torch for ROCm: its backend nccl is RCCL, which uses NCCL's variables. Messages about NCCL mean RCCL"
CUDA_OF_WHEEL = re.compile(r"nvidia-cuda-runtime(?:-cu\d+)?$")


class UndecidedError(Exception):
    """Auto cannot choose. The fault has the reason."""

    def __init__(self, code: str, text: str, step: str) -> None:
        self.fault = Fault(code, text, step)
        super().__init__(str(self.fault))


def count_usable_devices(seen: Accelerators, vendor: str) -> int:
    """Count the devices of a vendor that jobs on the node itself can use."""
    return sum(
        one["vendor"] == vendor and one["driver"] not in PASSED_THROUGH for one in seen["devices"]
    )


def describe_accelerators(seen: Accelerators) -> str:
    """Describe the devices on the bus, such as ``8 nvidia`` or ``none``."""
    vendors = sorted({one["vendor"] for one in seen["devices"]})
    counted = [(count_usable_devices(seen, vendor), vendor) for vendor in vendors]
    return " and ".join(f"{count} {vendor}" for count, vendor in counted if count) or "none"


def find_lock_accelerator(text: str) -> str:
    """Return the accelerator of a lock's torch: from its local version, or from the CUDA runtime in the lock."""
    pins = torch_runtime.parse_lock_pins(text)
    local = pins.get("torch", "").partition("+")[2]
    if local:
        return local
    runtime = next((pins[name] for name in pins if CUDA_OF_WHEEL.match(name)), "")
    return "cuda" + ".".join(runtime.split(".")[:2]) if runtime else "cpu"


def read_own_lock_accelerator(host: str, path: Path) -> str:
    """Return the accelerator of the torch in a user's own lock.

    Raises:
        UndecidedError: the accelerator is unknown to Fullmesh.
    """
    # role torch_runtime reports a missing lock (TR-101)
    made_for = find_lock_accelerator(path.read_text(encoding="utf-8")) if path.is_file() else "cpu"
    try:
        torch_runtime.parse_accelerator(made_for)
    except ValueError:
        step = "Set torch_runtime_accelerator to the accelerator of that build (cpu, cuda12.8, rocm6.4)"
        raise UndecidedError(
            "PR-116", f"{host}: {path.name} pins torch for {made_for!r}", step
        ) from None
    return made_for


def list_cuda_locks(locks: str, version: str) -> list[str]:
    """List the CUDA versions that have a committed lock, newest first."""
    start = f"{version}-cuda"
    found = [one.removeprefix(start) for one in list_lock_names(locks) if one.startswith(start)]
    return sorted(found, key=lambda number: [int(part) for part in number.split(".")], reverse=True)


def find_lowest_branch(number: str) -> int:
    """Return the oldest driver branch that runs programs for a CUDA version. An unknown version needs the newest."""
    major = number.split(".", maxsplit=1)[0]
    return LOWEST_BRANCH.get(int(major or 0), max(LOWEST_BRANCH.values()))


def can_branch_run_lock(lock: str, branch: int) -> bool:
    """Return whether a committed lock (``2.10.0-cuda12.8``) is for a CUDA that a driver branch runs."""
    kind, _, number = lock.partition("-")[2].partition("cuda")
    return not kind and number != "" and branch >= find_lowest_branch(number)


def list_torch_builds(host: str, asked: AutoSettings, seen: Accelerators, locks: str) -> list[str]:
    """List the torch builds that a node's current or planned driver runs, newest first, or ``cpu`` without NVIDIA GPUs.

    Raises:
        UndecidedError: there is no driver, no lock, or no lock that fits.
    """
    own = read_own_lock_accelerator(host, Path(asked["lock"])) if asked["lock"] else ""
    gpus = count_usable_devices(seen, "nvidia")
    if not gpus or (own and torch_runtime.parse_accelerator(own)[0] != "cuda"):
        return [own or "cpu"]
    held = [own] if own else [f"cuda{number}" for number in list_cuda_locks(locks, asked["torch"])]
    numbers = {one: torch_runtime.parse_accelerator(one)[1] for one in held}
    cuda = ", ".join(numbers.values())
    by_hand = "or set torch_runtime_accelerator (with cpu, the verification names the idle GPUs)"
    if not held:
        raise UndecidedError(
            "PR-116",
            f"{host}: it has {gpus} NVIDIA GPU(s), but torch {asked['torch']} has no lock for CUDA",
            "Use a version that has one "
            f"({', '.join(one for one in list_lock_names(locks) if 'cuda' in one)}), "
            f"use your own lock (./fullmesh torch-lock creates one for torch_runtime_requirements), {by_hand}",
        )
    driver = asked["driver_branch"] or seen["nvidia_driver"]
    branch = re.match(r"\d+", driver)
    if not branch:
        raise UndecidedError(
            "PR-116",
            f"{host}: it has {gpus} NVIDIA GPU(s) but no driver",
            f"Set nvidia_driver_manage: true and nvidia_driver_branch, install a driver, {by_hand}",
        )
    found = [one for one in held if int(branch[0]) >= find_lowest_branch(numbers[one])]
    if found:
        return found
    needed = min(find_lowest_branch(number) for number in numbers.values())
    older = [name for name in list_lock_names(locks) if can_branch_run_lock(name, int(branch[0]))]
    other = (
        f"use a version of torch that runs on it ({', '.join(older)}), "
        if older and not own
        else ""
    )
    raise UndecidedError(
        "PR-116",
        f"{host}: NVIDIA driver {driver} does not run CUDA {cuda}, which the lock of torch is for",
        f"Upgrade the driver to branch {needed} or newer (nvidia_driver_manage), {other}use a lock of torch for an "
        f"older CUDA (./fullmesh torch-lock creates one for torch_runtime_requirements), {by_hand}",
    )


def choose_torch_build(
    host: str, torch: str, lock: str, seen: Accelerators, locks: str = LOCKS
) -> str:
    """Return the torch build for a machine without a cluster plan.

    Raises:
        UndecidedError: as `list_torch_builds`.
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
    """Return one rank for each GPU that torch can use, or 1 without GPUs.

    Raises:
        UndecidedError: the bus and the driver disagree.
    """
    try:
        kind = torch_runtime.parse_accelerator(made_for)[0]
    except ValueError:
        return 1  # TR-112 reports it
    count = count_usable_devices(seen, {"cuda": "nvidia", "rocm": "amd"}.get(kind, ""))
    shown = seen["nvidia_shown"]
    if kind == "cuda" and seen["nvidia_driver"] and shown != count:
        raise UndecidedError(
            "PR-118",
            f"{host}: the PCI bus has {count} NVIDIA GPU(s), but the driver shows {shown}",
            "Check: its kernel log for Xid errors. Fix: reset or reboot to recover a lost GPU, or set "
            "fullmesh_local_ranks",
        )
    left = count if asked["visible"] is None else asked["visible"]
    return max(1, min(count, left))


def resolve_auto_choice(
    plan: ClusterPlan,
    observed: Mapping[str, Accelerators],
    kept: ResolvedSettings,
    locks: str = LOCKS,
) -> tuple[ResolvedSettings, list[Fault]]:
    """Resolve ``auto`` for all nodes, and return the faults that prevent it.

    All such nodes get the same result, because one job runs on them: another version of NCCL, or a rank without a GPU,
    ends it. A node that this run leaves out gets the result of the others.

    Args:
        plan: with ``auto``.
        observed: host -> its devices and driver, for the hosts of this run that answered.
        kept: the result of an earlier run from a node's manifest, for a run that surveys none of these hosts.
        locks: the folder of the committed locks.
    """
    asked = plan.get("auto", {})
    faults: list[Fault] = []
    found: ResolvedSettings = {}
    torch = {h: one for h, one in asked.items() if one["accelerator"] == AUTO}
    here = {h: one for h, one in torch.items() if h in observed}
    if here:
        found["accelerator"] = _choose_common_build(here, observed, locks, faults)
    elif torch and "accelerator" in kept:
        found["accelerator"] = kept["accelerator"]
    starting = {h: one for h, one in asked.items() if one["ranks"] and h in observed}
    if starting and not faults:
        counts = _count_equal_ranks(starting, observed, found.get("accelerator", ""), faults)
        if counts and not faults:
            found["local_ranks"] = max(counts.values())
    if not faults and any(one["ranks"] for one in asked.values()) and "local_ranks" not in found:
        if "local_ranks" in kept:
            found["local_ranks"] = kept["local_ranks"]
        elif observed:
            faults.append(_explain_unknown_ranks(asked))
    return found, faults


def _explain_unknown_ranks(asked: Mapping[str, AutoSettings]) -> Fault:
    hosts = ", ".join(host for host, one in asked.items() if one["ranks"])
    return Fault(
        "PR-120",
        f"The ranks of {hosts} are auto, but this run does not include any of them",
        "Set fullmesh_local_ranks, or run without --limit",
    )


def _choose_common_build(
    asked: Mapping[str, AutoSettings],
    observed: Mapping[str, Accelerators],
    locks: str,
    faults: list[Fault],
) -> str:
    """Return the newest build that runs on all of them, or "" with a fault."""
    builds: dict[str, list[str]] = {}
    for host, one in asked.items():
        try:
            builds[host] = list_torch_builds(host, one, observed[host], locks)
        except UndecidedError as why:
            faults.append(why.fault)
    if len({torch_runtime.parse_accelerator(one[0])[0] for one in builds.values()}) > 1:
        seen = ", ".join(f"{host}: {describe_accelerators(observed[host])}" for host in builds)
        faults.append(
            Fault(
                "PR-115",
                f"auto would install torch for GPUs on some nodes and for CPUs on others (accelerators: {seen})",
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
            f"No build of torch runs on all nodes ({seen})",
            "Install one driver branch on all nodes (nvidia_driver_manage), or set torch_runtime_accelerator",
        )
    )
    return ""


def _count_equal_ranks(
    asked: Mapping[str, AutoSettings],
    observed: Mapping[str, Accelerators],
    made_for: str,
    faults: list[Fault],
) -> dict[str, int]:
    counts = {}
    for host, one in asked.items():
        own = made_for if one["accelerator"] == AUTO else one["accelerator"]
        try:
            counts[host] = count_ranks(host, one, observed[host], own)
        except UndecidedError as why:
            faults.append(why.fault)
    if len(set(counts.values())) > 1:
        seen = ", ".join(f"{host}: {count}" for host, count in counts.items())
        faults.append(
            Fault(
                "PR-117",
                f"auto starts one rank per GPU, but the nodes have different numbers ({seen})",
                "Fix the missing GPUs, or set fullmesh_local_ranks by host",
            )
        )
    return counts


def describe_unused_devices(observed: Mapping[str, Accelerators], plan: ClusterPlan) -> list[str]:
    """Return one sentence for each kind of accelerator that torch does not use, or not through NCCL."""
    notes = []
    for vendor, step in NOT_NVIDIA.items():
        hosts = [
            host
            for host, seen in observed.items()
            if count_usable_devices(seen, vendor)
            and plan["nodes"][host].get("accelerator") == "cpu"
        ]
        if hosts:
            notes.append(f"torch does not use the accelerators of {', '.join(hosts)}. {step}")
    rocm = [h for h in observed if str(plan["nodes"][h].get("accelerator", "")).startswith("rocm")]
    return notes + ([f"{', '.join(rocm)} get {RCCL}"] if rocm else [])
