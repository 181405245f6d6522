"""A network interface negotiated a lower speed than those of the other nodes

A damaged cable or a switch port negotiated a lower speed. Collectives wait for this node, so the
whole job slows down.

**Prove:** ethtool INTERFACE

**Fix:** Replace the cable, and check the speed setting of the switch port.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_root_node
from fullmesh.result.findings import WARNING, Finding, join_names


def rule_interface_speeds(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find cluster interfaces with a lower speed than the others."""
    held = {}
    for name in evidence.nodes:
        nic = evidence.find_nic(name, evidence.get_cluster_interface(name))
        if nic and nic["physical"] and nic["speed"] > 0:
            held[name] = nic["speed"]
    if len(set(held.values())) < 2:  # noqa: PLR2004 (two that differ)
        return
    best = max(held.values())
    odd = [name for name, speed in held.items() if speed != best]
    yield Finding(
        "DG-239",
        "L1",
        f"the cluster interface of {join_names(odd)} runs at {held[odd[0]]} Mbit/s, the others at {best}",
        node=odd[0],
        peer=join_names([n for n in held if n not in odd]),
        seen=f"{held[odd[0]]} Mbit/s",
        expected=f"{best} Mbit/s",
        check=f"on {odd[0]}: ethtool {evidence.get_cluster_interface(odd[0])}",
        fix=f"replace the cable of {odd[0]}, or correct the speed of its switch port",
        severity=WARNING,
    )


CAUSE = Cause(
    "DG-239",
    __doc__,
    find=rule_interface_speeds,
    needs=("interfaces",),
    severity=WARNING,
    weight=510,
    explains=(Explains(("DG-139",), has_root_node),),
    cases=(
        CauseCase(
            "slow-speed", "an interface negotiated a lower speed than the others'", by=RECORDED
        ),
    ),
)
