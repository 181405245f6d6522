"""Gloo could not connect all ranks

The ranks reached the store, but not each other. Gloo connects every pair of ranks directly, so one
blocked link is enough.

**Prove:** ./fullmesh diagnose -i INVENTORY

**Fix:** Fix the blocked links that the findings name.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-401", __doc__)
