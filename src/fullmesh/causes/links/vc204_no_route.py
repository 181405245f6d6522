"""A node has no route to a peer

The kernel has no route to the peer, or the next hop does not answer ARP. Connections fail with
'Network is unreachable' or 'No route to host'.

**Prove:** ip route get PEER && ip neigh show PEER

**Fix:** Start the peer, or correct the route or the address.

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
