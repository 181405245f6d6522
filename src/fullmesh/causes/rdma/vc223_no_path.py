"""The kernel finds no path from an RDMA device to the peer's address

To connect a queue pair, the kernel looks for a route and for the peer's MAC address on the device's
own interface. It does not use another interface. The step fails if the peer does not answer on the
rail (ARP, neighbor discovery), or if the network is unreachable. NCCL shows this as `ibv_modify_qp
failed with 110 Connection timed out` or `101 Network is unreachable`.

**Prove:** ip route get PEER from ADDRESS && ip neighbour show dev INTERFACE

**Fix:** Give both ends of the rail addresses in one subnet, or a route for the rail. Then check the
cable.

**Source:** Linux, drivers/infiniband/core/addr.c, measured with soft-RoCE
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-223",
    __doc__,
    weight=345,
    explains=(Explains(("VC-712", "VC-714")),),
    cases=(
        CauseCase(
            "rdma-no-path",
            "the peer's address on the second rail cannot be resolved",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
