"""A node does not have its cluster address

Without its cluster address, the peers cannot reach the node.

**Prove:** ip -br address

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import (
    KERNELS,
    LINKS,
    WALLS,
    has_no_route,
    has_root_node,
    has_same_node,
)

CAUSE = Cause(
    "VC-121",
    __doc__,
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
