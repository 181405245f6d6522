"""The cluster NIC of a node runs at half duplex

A port that negotiates learns the speed of a port with fixed settings, but not its duplex mode, and
falls back to half duplex. Both ends then send at the same time, and the NIC counts collisions.
Short packets pass, but under load many are lost and sent again.

**Prove:** ethtool INTERFACE

**Fix:** Let the NIC and the switch port negotiate, or fix both to the same speed and full duplex.

**Source:** IEEE 802.3 clause 28, ethtool(8)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_root_node
from fullmesh.result.findings import Finding


def rule_half_duplex(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report cluster NICs that run at half duplex."""
    for name in evidence.nodes:
        nic = evidence.find_nic(name, evidence.get_cluster_interface(name))
        if not nic or not nic["physical"] or nic["duplex"] != "half":
            continue
        yield Finding(
            "DG-188",
            "L1",
            f"the cluster interface {nic['name']} of {name} runs at half duplex",
            node=name,
            seen=f"half duplex, {nic['speed']} Mbit/s",
            expected="full duplex",
            fix=f"on {name}: ethtool -s {nic['name']} autoneg on, and let the switch port negotiate as well",
        )


CAUSE = Cause(
    "DG-188",
    __doc__,
    find=rule_half_duplex,
    needs=("interfaces",),
    weight=1035,
    explains=(Explains(("DG-138", "DG-139", "VC-209"), has_root_node),),
    cases=(CauseCase("half-duplex", "an interface runs at half duplex", by=RECORDED),),
)
