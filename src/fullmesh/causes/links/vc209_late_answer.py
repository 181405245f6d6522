"""A listener answered late (warning)

The link is open, but the node was too busy to answer in time.

**Prove:** uptime on the node

**Fix:** Repeat the command when the node is less busy.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-209", __doc__, severity=WARNING)
