"""a collective failed or hung

A collective did not end.

**Prove:** ./fullmesh diagnose -i INVENTORY

**Fix:** See VC-208 and DG-138.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-403", __doc__)
