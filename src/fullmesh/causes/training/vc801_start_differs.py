"""a rank starts training from other data or parameters

DDP copies rank 0's parameters at the start; ranks that begin with others, or with another order of the data, have
other files or another torch.

**Prove:** sha256sum of the job's files on every node

**Fix:** The same files and versions everywhere.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-801", __doc__)
