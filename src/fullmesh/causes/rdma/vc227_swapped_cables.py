"""The cables of two rails are swapped

Each rail has its own subnet, so a device finds its peer only if the cable ends at the right port.
Fullmesh tries the other ports of the peer with link-local addresses, which need no subnet. If one of
them answers, the cables are swapped. With three or more nodes, the finding names the node that is
connected otherwise than the rest. With two nodes, it can be either.

**Prove:** lldpcli show neighbors || ping -I INTERFACE fe80::PEER

**Fix:** Swap the cables at one node, or exchange the addresses of its two interfaces.

**Source:** measured with soft-RoCE
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-227",
    __doc__,
    weight=365,
    explains=(Explains(("VC-712", "VC-714")),),
    cases=(
        CauseCase(
            "rdma-swapped-cables",
            "each rail of a node ends at the other rail's port of the peer",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
