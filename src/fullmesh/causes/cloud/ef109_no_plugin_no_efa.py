"""harmless: NCCL finds no network plugin on a node without EFA

NCCL says that libnccl-net.so cannot be opened, and uses its own sockets or InfiniBand code. Without EFA that is
right.

**Prove:** lspci -d 1d0f:

**Fix:** Nothing is to be done.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-109", __doc__, severity="note")
