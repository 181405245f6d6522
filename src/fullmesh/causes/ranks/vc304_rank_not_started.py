"""a rank never started

A rank was never started.

**Prove:** df -h /run; ps aux

**Fix:** See the message.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-304", __doc__)
