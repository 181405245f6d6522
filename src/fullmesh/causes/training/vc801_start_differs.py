"""A rank starts training with other data or parameters

At the start, DDP copies rank 0's parameters to all ranks. A rank that starts with other parameters,
or with the data in another order, has different files or another torch version.

**Prove:** sha256sum JOB_FILES

**Fix:** Use the same files and versions on all nodes.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-801", __doc__)
