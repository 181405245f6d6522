"""The kernel, glibc, NIC driver, CUDA, locale or time zone differs from that of most nodes (warning)

Such a difference explains why a node is slower, sorts or reads files in another order, or writes
logs with other times.

**Prove:** uname -r && ldd --version && ethtool -i IFACE && localectl && timedatectl

**Fix:** Use one image for all nodes.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-116", __doc__, severity=WARNING)
