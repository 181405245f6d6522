"""Harmless: NCCL finds no network plugin on a node without EFA

NCCL reports that it cannot open libnccl-net.so, and uses its built-in socket or InfiniBand
transport. Without EFA that is correct.

**Prove:** lspci -d 1d0f:

**Fix:** No action is needed.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-109", __doc__, severity="note")
