"""Something else answers at a peer's address

The answering program does not know this run's secret. It is another machine with the same address,
a proxy, or an old listener.

**Prove:** ip neigh show PEER, and on the peer: ss -ltnp

**Fix:** Give the other machine another address (see DG-140), or end the program that uses the port.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-207", __doc__)
