"""no route to a peer

The kernel has no route, or nobody answers ARP at the next hop.

**Prove:** ip route get PEER; ip neigh show PEER

**Fix:** Fix the route or the address; is the other node up?

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import SHUT, WALLS, is_return_path

CAUSE = Cause(
    "VC-204",
    __doc__,
    weight=890,
    explains=(Explains((*SHUT, *WALLS, "DG-138", "VC-206"), is_return_path),),
)
