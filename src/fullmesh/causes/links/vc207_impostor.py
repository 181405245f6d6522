"""something else answers at a peer's address

What answers does not know this run's secret: another machine with the address, a proxy, an old listener.

**Prove:** ip neigh show PEER; ss -ltnp on the peer

**Fix:** See DG-140; end what sits on the port.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-207", __doc__)
