"""The cluster interface has no carrier

The cable is unplugged, or the switch port or the interface is down. NCCL then silently uses the
next interface.

**Prove:** ip -br link

**Fix:** Run ip link set INTERFACE up, and check the cable.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import (
    KERNELS,
    LINKS,
    WALLS,
    has_no_route,
    has_root_node,
    has_same_node,
)
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import list_node_links


def rule_carrier(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the cluster interface is up on each node."""
    for name in seen.plan["nodes"]:
        nic = seen.facts(name).get("interface", {})
        if nic.get("exists") and not nic["up"]:
            yield Finding(
                "VC-106",
                "L1",
                f"the cluster interface of {name} has no carrier",
                node=name,
                seen=f"{nic['name']} down",
                expected=f"{nic['name']} up",
                fix=f"on {name}: ip link set {nic['name']} up, or reconnect the cable or switch port",
                pairs=list_node_links(seen, name),
            )


CAUSE = Cause(
    "VC-106",
    __doc__,
    find=rule_carrier,
    weight=1100,
    explains=(
        Explains(
            (
                *LINKS,
                *WALLS,
                *KERNELS,
                "DG-138",
                "DG-139",
                "DG-140",
                "DG-141",
                "DG-239",
                "VC-121",
                "VC-213",
            ),
            has_root_node,
        ),
        Explains(
            ("DG-119", "DG-120", "DG-126", "DG-134", "VC-601", "VC-603", "VC-110"), has_same_node
        ),
        Explains(("DG-155",), has_no_route),
    ),
    cases=(CauseCase("interface-down", "ip link set eth1 down on one node"),),
)
