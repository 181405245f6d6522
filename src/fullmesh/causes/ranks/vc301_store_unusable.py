"""the store or rendezvous port is not usable from a rank

A rank could not use the store.

**Prove:** the rank's last words in result.json

**Fix:** See the links of this rank's node.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-301", __doc__)
