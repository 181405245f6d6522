"""A collective failed or hung

A collective ended with an error or did not end in time, although the ranks were connected. Large
packets that vanish (VC-208) and packet loss (DG-138) are common causes.

**Prove:** ./fullmesh diagnose -i INVENTORY

**Fix:** Fix the cause that the diagnosis names. The pages of VC-208 and DG-138 describe the two
common ones.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-403", __doc__)
