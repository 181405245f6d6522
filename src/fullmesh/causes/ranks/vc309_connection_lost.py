"""The connection to a node was lost while its ranks ran

The controller heard nothing from the node for 10 s, or ssh lost the connection. The node ends its
ranks by itself 3.5 s after it last heard the controller. Fullmesh stops the ranks on all other
nodes.

**Prove:** journalctl -u ssh -u sshd && ip -s link

**Fix:** Repair the management connection of the node, then verify again.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-309", __doc__)
