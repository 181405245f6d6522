"""a node has EFA but no libfabric

NCCL's plugin reaches the device through libfabric and its provider efa only.

**Prove:** fi_info -p efa

**Fix:** Install Amazon's EFA installer (1.39 or newer brings the plugin), and reboot where it brought a driver.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-102", __doc__)
