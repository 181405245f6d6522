"""A collective returned a wrong value

The ranks computed a wrong sum. Faulty memory, a library version that differs or a faulty NIC can
cause this, and training would silently use such values.

**Prove:** edac-util -v

**Fix:** Remove the node from the inventory and test its memory and its NIC.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-402", __doc__)
