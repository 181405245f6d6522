"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names an interface that no node has

Gloo stops with 'Unable to find address for'. NCCL stops with 'no socket interface found' or uses
another interface.

**Prove:** ip -br link && env | grep SOCKET_IFNAME

**Fix:** Name the interface of the cluster network. If its name differs between nodes, unset the
variable.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.env.job_interfaces import find_job_interfaces
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding


def rule_interface_nowhere(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find a configured job interface that no node has."""
    yield from (one for one in find_job_interfaces(evidence) if one.code == "DG-119")


CAUSE = Cause(
    "DG-119",
    __doc__,
    find=rule_interface_nowhere,
    needs=("environment", "interfaces"),
    weight=580,
    explains=(Explains(("DG-120", "DG-121", "DG-134")), Explains(("VC-324",), has_same_node)),
    cases=(CauseCase("ifname-everywhere", "GLOO_SOCKET_IFNAME=eth9 on every node"),),
)
