"""Evaluate check L1 for software: differences between nodes, and conflicts inside a node.

torch, Python and NCCL must be equal (``verify_node.rule_equal_versions``, an error). This module reports differences
that may explain odd results: kernel, glibc, NIC driver, locale, time zone, CUDA. They are warnings, except for a
torch that the driver cannot run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from fullmesh.foreign_text import parse_decimal
from fullmesh.model.known_defects import find_known_defects, parse_version
from fullmesh.model.locks import LOCKS, list_lock_names
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.model import ClusterObservations

PAIR = 2
# key of a node's facts -> its name
LOOKED_AT = {
    "kernel": "the kernel",
    "glibc": "glibc",
    "nic_driver": "the driver of the cluster's NIC",
    "torch_cuda": "the CUDA that torch is built for",
    "driver_cuda": "the CUDA of the GPU driver",
    "locale": "the locale",
    "time_zone": "the time zone",
}
# program -> the setting with its version
SETTINGS = {
    "torch": "torch_runtime_version",
    "NCCL": "nccl_version. torch's wheels include their own NCCL",
    "NVIDIA driver": "nvidia_driver_branch",
}
STEPS = {
    "kernel": "uname -r. Install the same kernel and reboot",
    "glibc": "ldd --version. Use the same release of the distribution",
    "nic_driver": "ethtool -i {interface}. Install the same driver",
    "driver_cuda": "nvidia-smi. Install the same driver",
    "locale": "localectl set-locale LANG={usual}",
    "time_zone": "timedatectl set-timezone {usual}",
}


def get_software(seen: ClusterObservations, name: str) -> dict[str, str]:
    """Return a node's software versions, "" if unknown."""
    facts = seen.facts(name)
    said: Mapping[str, Any] = facts.get("software", {})
    gpus = seen.survey(name).get("gpus", {})
    more = {"kernel": facts.get("kernel", ""), "driver_cuda": gpus.get("cuda", "")}
    return {key: str({**said, **more}.get(key) or "") for key in LOOKED_AT}


def rule_software_drift(seen: ClusterObservations) -> Iterator[Finding]:
    """Report nodes that differ from the majority. With 2 nodes, the first one's value counts."""
    table = {name: get_software(seen, name) for name in seen.plan["nodes"]}
    for key, words in LOOKED_AT.items():
        held = {name: row[key] for name, row in table.items() if row[key]}
        if len(set(held.values())) < PAIR:
            continue
        usual = Counter(held.values()).most_common(1)[0][0]
        odd = [name for name, value in held.items() if value != usual]
        values = ", ".join(dict.fromkeys(held[name] for name in odd))
        rest = [name for name, value in held.items() if value == usual]
        interface = str(seen.facts(odd[0]).get("interface", {}).get("name", "eth0"))
        step = STEPS.get(key, "").format(usual=usual, interface=interface)
        yield Finding(
            "VC-116",
            "L1",
            f"{words} is {values} on {join_names(odd)} and {usual} on {join_names(rest)}",
            node=odd[0],
            peer=join_names(rest),
            seen=values,
            expected=usual,
            fix=f"on {join_names(odd)}: {step}" if step else seen.apply("packages"),
            severity=WARNING,
        )


def parse_version_numbers(text: str) -> tuple[int, ...]:
    """Return ``13.0`` as comparable numbers."""
    return tuple(number for part in text.split(".") if (number := parse_decimal(part)) is not None)


def suggest_older_torch(seen: ClusterObservations, major: int) -> str:
    """Suggest a torch for a driver's CUDA: the newest with a lock, or the user's own lock."""
    held = [one.partition("-cuda") for one in list_lock_names(LOCKS)]
    fits = [
        (parse_version_numbers(cuda), torch)
        for torch, _, cuda in held
        if parse_version_numbers(cuda)[:1] == (major,)
    ]
    if not fits:
        by = "with your own lock (./fullmesh torch-lock creates one for torch_runtime_requirements)"
        return f"torch for CUDA {major} {by}"
    cuda, torch = max(fits)
    shown = ".".join(map(str, cuda))
    return (
        f"torch_runtime_version: {torch} in the inventory, whose lock is for CUDA {shown} (torch_runtime_accelerator: "
        f"auto). Then {seen.apply('packages')}"
    )


def rule_cuda_version(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the driver runs torch's CUDA: its own major version or older (CUDA's minor version compatibility)."""
    for name in seen.plan["nodes"]:
        row = get_software(seen, name)
        built, runs = (
            parse_version_numbers(row["torch_cuda"]),
            parse_version_numbers(row["driver_cuda"]),
        )
        if built and runs and built[0] > runs[0]:
            yield Finding(
                "VC-117",
                "L1",
                f"torch on {name} is built for CUDA {row['torch_cuda']}, its driver runs up to {row['driver_cuda']}",
                node=name,
                seen=row["driver_cuda"],
                expected=f"{built[0]}.0 or newer",
                fix=f"a newer driver on {name}, or {suggest_older_torch(seen, runs[0])}",
            )


def rule_two_nccls(seen: ClusterObservations) -> Iterator[Finding]:
    """Report two versions of NCCL: torch's wheels have their own (pytorch#122571), other programs use the system's."""
    both = {}
    for name in seen.plan["nodes"]:
        own = str(seen.facts(name).get("versions", {}).get("torch_nccl", ""))
        system = str(seen.nodes.get(name, {}).get("node", {}).get("nccl", {}).get("version", ""))
        if own and system and own != system:
            both[name] = (system, own)
    if both:
        first = next(iter(both))
        system, own = both[first]
        yield Finding(
            "VC-118",
            "L1",
            f"torch includes NCCL {own} and the system has {system} ({join_names(list(both))}): torch's jobs use the "
            "first, nccl-tests and MPI programs the second",
            node=first,
            seen=system,
            expected=own,
            fix=f"nccl_version: {own}, if the repository has it",
            severity=WARNING,
        )


def list_program_versions(seen: ClusterObservations, name: str) -> list[tuple[str, str, str]]:
    """List a node's programs that have known defects, with their versions and the node's machine."""
    held = seen.facts(name).get("versions", {})
    machine = str(seen.facts(name).get("software", {}).get("machine") or "unknown")
    system = seen.nodes.get(name, {}).get("node", {}).get("nccl", {}).get("version", "")
    listed = [
        ("torch", held.get("torch")),
        ("NCCL", held.get("torch_nccl")),
        ("NCCL", system),
        ("NVIDIA driver", seen.survey(name).get("gpus", {}).get("driver")),
    ]
    return [
        (program, str(version), machine) for program, version in dict.fromkeys(listed) if version
    ]


def rule_known_defects(seen: ClusterObservations) -> Iterator[Finding]:
    """Report versions of programs with publicly known defects that a newer version does not have."""
    nodes: dict[tuple[str, str, str], list[str]] = {}
    for name in seen.plan["nodes"]:
        for one in list_program_versions(seen, name):
            nodes.setdefault(one, []).append(name)
    for (program, version, machine), names in nodes.items():
        defects = [defect for defect, _ in find_known_defects(program, [version], machine)]
        if not defects:
            continue
        newest = max((defect.fixed_in for defect in defects), key=parse_version)
        yield Finding(
            "VC-119",
            "L1",
            f"{program} {version} on {join_names(names)} has known defects: "
            + "; ".join(defect.describe_fix() for defect in defects),
            node=names[0],
            seen=version,
            expected=f"{newest} or newer",
            fix=f"if jobs have this problem, install {program} {newest} or newer on all nodes ({SETTINGS[program]})",
            severity=WARNING,
        )


RULES = (rule_software_drift, rule_cuda_version, rule_two_nccls, rule_known_defects)
