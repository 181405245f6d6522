"""libfabric does not find the EFA device

libfabric is installed, but its efa provider finds no device. A container lacks /dev/infiniband, or
libfabric and the driver are of different releases.

**Prove:** fi_info -p efa || ls -l /dev/infiniband

**Fix:** Start the container with --device for each /dev/infiniband/uverbs device, or install driver
and libfabric from one EFA installer.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-103", __doc__)
