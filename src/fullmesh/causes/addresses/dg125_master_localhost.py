"""MASTER_ADDR is localhost in a job of several nodes

Every node looks for the store on itself, so only the ranks of the first node connect. The other nodes
wait until the timeout.

**Prove:** env | grep MASTER_ADDR

**Fix:** Set MASTER_ADDR to the master's cluster address on all nodes.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.addresses.master_address import find_master_address
from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding


def rule_master_localhost(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose MASTER_ADDR is loopback."""
    yield from find_master_address(evidence, "DG-125")


CAUSE = Cause(
    "DG-125",
    __doc__,
    find=rule_master_localhost,
    needs=("environment",),
    weight=610,
    explains=(
        Explains(("DG-126", "DG-127", "DG-128"), has_same_node),
        Explains(("VC-324",), has_same_node),
    ),
    cases=(CauseCase("master-localhost", "MASTER_ADDR=localhost"),),
)
