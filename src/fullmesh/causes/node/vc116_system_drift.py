"""kernel, glibc, NIC driver, CUDA, locale or time zone differ from those of most nodes (warning)

A kernel, libc, driver, locale or time zone of its own explains a node that is slower, that sorts or reads files in
another order, or whose logs do not fit the others'.

**Prove:** uname -r; ldd --version; ethtool -i IFACE; localectl; timedatectl

**Fix:** One image for all nodes.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-116", __doc__, severity=WARNING)
