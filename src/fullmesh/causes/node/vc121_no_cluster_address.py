"""A node does not have its cluster address

Without its cluster address, the peers cannot reach the node.

**Prove:** ip -br address

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network.
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
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import list_node_links


def rule_cluster_address(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that each node has its cluster address."""
    for name, node in seen.plan["nodes"].items():
        held = seen.facts(name).get("addresses", {})
        if name in seen.left_out() or held.get(node["address"]):
            continue
        yield Finding(
            "VC-121",
            "L0",
            f"{name} does not have its cluster address",
            node=name,
            seen=join_names(sorted(a for a in held if a not in ("127.0.0.1", "::1"))),
            expected=node["address"],
            fix=seen.apply("network"),
            pairs=list_node_links(seen, name),
        )


CAUSE = Cause(
    "VC-121",
    __doc__,
    find=rule_cluster_address,
    weight=1090,
    explains=(
        Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-140", "DG-141", "VC-213"), has_root_node),
        Explains(("DG-155",), has_no_route),
        Explains(
            ("DG-123", "DG-134", "DG-136", "VC-102", "VC-601", "VC-603", "VC-122"), has_same_node
        ),
        Explains(("DG-126",)),
    ),
    cases=(CauseCase("no-address", "ip addr del the cluster address"),),
)
