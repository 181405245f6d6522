"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME is the loopback interface

Every rank announces 127.0.0.1, so peers connect to themselves: refused at once, or a hang of five times the time-out.

**Prove:** env | grep SOCKET_IFNAME

**Fix:** Name the interface of the cluster network.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-121",
    __doc__,
    weight=560,
    explains=(Explains(("DG-134",), has_same_node),),
    cases=(CauseCase("ifname-lo", "GLOO_SOCKET_IFNAME=lo on one node or all"),),
)
