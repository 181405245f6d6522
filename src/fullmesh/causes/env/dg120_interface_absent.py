"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names an interface that a node does not have

That node's ranks stop at once, and the others wait for their time-out: the message stands in another log than the
cause.

**Prove:** ip -br link; env | grep SOCKET_IFNAME

**Fix:** Give every node the name of its own interface; role cluster_env does.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-120",
    __doc__,
    weight=570,
    explains=(Explains(("DG-134",), has_same_node),),
    cases=(CauseCase("ifname-one", "the same on one node"),),
)
