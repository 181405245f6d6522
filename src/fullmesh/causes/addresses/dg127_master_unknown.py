"""MASTER_ADDR is a name that a node cannot resolve

The node cannot find the store. torch repeats 'gai error: -3 - Temporary failure in name resolution'
until the timeout.

**Prove:** getent ahosts NAME

**Fix:** Add the name to /etc/hosts, or set MASTER_ADDR to the address.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.addresses.master_address import find_master_address
from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding


def rule_master_unknown(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes that cannot resolve MASTER_ADDR."""
    yield from find_master_address(evidence, "DG-127")


CAUSE = Cause(
    "DG-127",
    __doc__,
    find=rule_master_unknown,
    needs=("environment", "master_answers"),
    weight=590,
    explains=(Explains(("VC-101",), has_same_node), Explains(("VC-324",), has_same_node)),
    cases=(CauseCase("master-unknown", "MASTER_ADDR=no-such-node"),),
)
