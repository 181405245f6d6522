"""a rank died

A rank ended before it was done.

**Prove:** journalctl -k --since -10min

**Fix:** See its last words in result.json.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-303", __doc__)
