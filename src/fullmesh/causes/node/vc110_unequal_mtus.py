"""MTUs differ (warning)

MTUs that differ between hosts alone are harmless; with a path that is narrower than both ends large packets vanish
(VC-208).

**Prove:** ip -br link; ping -M do -s 8972 PEER

**Fix:** One MTU on all nodes and switches.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_root_node
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-110",
    __doc__,
    severity=WARNING,
    weight=520,
    explains=(Explains(("DG-139",), has_root_node),),
)
