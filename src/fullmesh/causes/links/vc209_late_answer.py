"""a listener answered late (warning)

The link is open, the node was busy.

**Prove:** uptime on the node

**Fix:** Run it again when the node is less busy.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-209", __doc__, severity=WARNING)
