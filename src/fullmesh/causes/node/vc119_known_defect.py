"""A version of torch, NCCL or the driver has a known defect (warning)

A newer version of torch, NCCL or the NVIDIA driver does not have a defect of the installed one that
is known in public. The finding has its symptom and its source. It matters only if your jobs have
this symptom.

**Prove:** python -c 'import torch; print(torch.__version__, torch.cuda.nccl.version())'; nvidia-smi

**Fix:** If jobs have this problem, set torch_runtime_version, nccl_version or
nvidia_driver_branch to a newer version.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.model.known_defects import find_known_defects, parse_version
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.model import ClusterObservations

# program -> the setting with its version
SETTINGS = {
    "torch": "torch_runtime_version",
    "NCCL": "nccl_version. torch's wheels include their own NCCL",
    "NVIDIA driver": "nvidia_driver_branch",
}


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


CAUSE = Cause("VC-119", __doc__, find=rule_known_defects, severity=WARNING)
