"""The cable of a rail leads to the wrong interface

On the interface of the rail, the peer's interface of another rail answers, and the right one does
not. The cables of two ports are swapped, or fullmesh_rails names the interfaces in the wrong order.

**Prove:** ping -c 2 ff02::1%INTERFACE && ip neigh show dev INTERFACE

**Fix:** Swap the cables at one end, or correct the interfaces in fullmesh_rails.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_links

CAUSE = Cause(
    "VC-242",
    __doc__,
    # found by VC-231
    weight=648,
    explains=(Explains(("VC-223", "VC-224", "VC-227"), has_same_links),),
    cases=(CauseCase("rail-swapped", "the cables of two rails are swapped", by=RECORDED),),
)
