"""A node has EFA but no libfabric

NCCL's plugin reaches the device only through libfabric and its efa provider.

**Prove:** fi_info -p efa

**Fix:** Install Amazon's EFA installer (1.39 or newer includes NCCL's plugin). Reboot if it
installed a driver.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-102", __doc__)
