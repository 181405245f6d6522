"""two nodes' cluster cards have one hardware address

Virtual machines that were cloned with their cards, or addresses set by hand. A switch sends frames to the port where
the address was seen last, so connections break by turns.

**Prove:** on every node: ip link show INTERFACE

**Fix:** Give each card an address of its own where the machine is defined.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node

CAUSE = Cause(
    "DG-259",
    __doc__,
    weight=1070,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-158"), has_root_node),),
    cases=(CauseCase("one-mac", "the cluster cards show one hardware address", by=RECORDED),),
)
