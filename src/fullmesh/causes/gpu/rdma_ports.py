"""RDMA ports of all nodes."""

from __future__ import annotations

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.survey import RdmaPort

UP = "ACTIVE"


def group_rdma_ports(evidence: ClusterEvidence) -> dict[tuple[str, int], dict[str, RdmaPort]]:
    """Map each device and port to the nodes and their values."""
    found: dict[tuple[str, int], dict[str, RdmaPort]] = {}
    for name in evidence.nodes:
        for port in evidence.survey(name).get("rdma", []):
            found.setdefault((port["device"], port["port"]), {})[name] = port
    return found
