"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names an interface that a node does not have

The ranks of that node stop at once with an error in their own log. All other ranks wait until the
timeout.

**Prove:** ip -br link && env | grep SOCKET_IFNAME

**Fix:** Set the variable on each node to that node's own interface, as role cluster_env does.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.env.job_interfaces import find_job_interfaces
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding


def rule_interface_absent(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find a configured job interface that one node does not have."""
    yield from (one for one in find_job_interfaces(evidence) if one.code == "DG-120")


CAUSE = Cause(
    "DG-120",
    __doc__,
    find=rule_interface_absent,
    needs=("environment", "interfaces"),
    weight=570,
    explains=(Explains(("DG-134",), has_same_node), Explains(("VC-324",), has_same_node)),
    cases=(CauseCase("ifname-one", "GLOO_SOCKET_IFNAME=eth9 on one node"),),
)
