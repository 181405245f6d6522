"""GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME names an interface that no node has

Gloo stops with 'Unable to find address for', NCCL with 'no socket interface found' or goes on over another one.

**Prove:** ip -br link; env | grep SOCKET_IFNAME

**Fix:** Name the interface of the cluster network, or unset the variable where names differ between nodes.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains

CAUSE = Cause(
    "DG-119",
    __doc__,
    weight=580,
    explains=(Explains(("DG-120", "DG-121", "DG-134")),),
    cases=(CauseCase("ifname-everywhere", "GLOO_SOCKET_IFNAME=eth9 on every node", node="first"),),
)
