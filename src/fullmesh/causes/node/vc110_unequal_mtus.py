"""The MTUs differ (warning)

Different MTUs on the hosts alone are harmless. If the path between two hosts has a smaller MTU than
both ends, large packets vanish (VC-208).

**Prove:** ip -br link && ping -c 1 -M do -s 8972 PEER

**Fix:** Set one MTU on all nodes and switches.

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
