"""Gloo could not connect all ranks

Ranks met at the store and not each other.

**Prove:** ./fullmesh diagnose -i INVENTORY

**Fix:** See the links.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-401", __doc__)
