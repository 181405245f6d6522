"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names an interface that a node does not have

That node's ranks stop at once, and the others wait for their time-out: the message stands in another log than the
cause.

**Prove:** ip -br link; env | grep SOCKET_IFNAME

**Fix:** Give every node the name of its own interface; role cluster_env does.

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
    """An interface that jobs are told to use does not exist on a node."""
    yield from (one for one in find_job_interfaces(evidence) if one.code == "DG-120")


CAUSE = Cause(
    "DG-120",
    __doc__,
    find=rule_interface_absent,
    needs=("environment", "interfaces"),
    weight=570,
    explains=(Explains(("DG-134",), has_same_node),),
    cases=(CauseCase("ifname-one", "GLOO_SOCKET_IFNAME=eth9 on one node"),),
)
