"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME is the loopback interface

Every rank announces 127.0.0.1, so its peers connect to themselves. The connections are refused at
once, or the job hangs for 5 times the timeout.

**Prove:** env | grep SOCKET_IFNAME

**Fix:** Name the interface of the cluster network.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.env.job_interfaces import find_job_interfaces
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding


def rule_interface_loopback(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find a configured job interface that is loopback."""
    yield from (one for one in find_job_interfaces(evidence) if one.code == "DG-121")


CAUSE = Cause(
    "DG-121",
    __doc__,
    find=rule_interface_loopback,
    needs=("environment", "interfaces"),
    weight=560,
    explains=(Explains(("DG-134",), has_same_node), Explains(("VC-324",), has_same_node)),
    cases=(CauseCase("ifname-lo", "GLOO_SOCKET_IFNAME=lo on one node or all"),),
)
