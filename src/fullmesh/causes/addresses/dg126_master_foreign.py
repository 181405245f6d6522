"""MASTER_ADDR is not an address of the master

No machine answers at that address, or the machine there does not run the store. Workers fail with 'No route
to host' after 3 s (no ARP reply), or wait until the timeout.

**Prove:** ping MASTER_ADDR && ip neigh show

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


def rule_master_foreign(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose MASTER_ADDR is not an address of the master."""
    yield from find_master_address(evidence, "DG-126")


CAUSE = Cause(
    "DG-126",
    __doc__,
    find=rule_master_foreign,
    needs=("environment", "master_answers"),
    weight=600,
    explains=(Explains(("VC-101",), has_same_node), Explains(("VC-324",), has_same_node)),
    cases=(CauseCase("master-nobody", "MASTER_ADDR=an unused address of the cluster network"),),
)
