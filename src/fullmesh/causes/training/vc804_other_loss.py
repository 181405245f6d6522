"""training over all ranks gives another loss than one process alone

All ranks together compute what one process does with the whole batch; another loss is a wrong sum.

**Prove:** The job alone in one process

**Fix:** As for VC-402.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-804", __doc__)
