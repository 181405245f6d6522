"""The range from which kernels take ports, and how to set it."""

from __future__ import annotations

import re

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.ports import KERNEL_RANGE

KEY = "net.ipv4.ip_local_port_range"


RESERVED = "net.ipv4.ip_local_reserved_ports"


JOB = re.compile(
    r"torchrun|torch[._]distributed|torch\.distributed|pt_main|pt_elastic|deepspeed|accelerate|horovod|mpirun"
)


def suggest_range_fix(evidence: ClusterEvidence, name: str) -> str:
    """Return the command that restores a node's range."""
    data = evidence.plan["data_ports"]
    wanted = KERNEL_RANGE.sysctl if evidence.assumed else str(data["sysctl"])
    by_hand = f"on {name}: sysctl -w {KEY}='{wanted}'"
    return by_hand if evidence.assumed else f"{by_hand}, then {evidence.seen.apply('tuning')}"
