"""a collective returned a wrong value

A sum was wrong: memory, a version, a NIC.

**Prove:** memtester; edac-util

**Fix:** Take the node out.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-402", __doc__)
