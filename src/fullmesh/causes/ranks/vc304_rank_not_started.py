"""A rank did not start

The node could not start a rank, for example because the disk below /run or the process table is
full.

**Prove:** df -h /run && ps aux | wc -l

**Fix:** Fix the error that the message names.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-304", __doc__)
