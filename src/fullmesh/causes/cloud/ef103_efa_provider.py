"""libfabric does not find the EFA device

libfabric is there and its provider finds no device: in a container without /dev/infiniband, or with another version
of the driver.

**Prove:** fi_info -p efa; ls -l /dev/infiniband

**Fix:** Give a container --device=/dev/infiniband/uverbs*; install one version of driver and libfabric.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-103", __doc__)
