"""Small RDMA messages arrive and large ones are lost

The path MTU of a queue pair is the smaller active MTU of both devices: 1024 bytes with an interface
MTU of 1500, and 4096 with 4200 or more. If a switch port or VLAN in between allows less, packets of
full size are lost. Small messages arrive, so connection tests pass, and jobs end with completion
status 12. With three or more nodes, the finding names the node that reaches no peer with them.

**Prove:** ping -M do -s 4096 PEER && ibv_rc_pingpong -s 1048576 PEER

**Fix:** Set one MTU, 9000 if possible, on both interfaces and all switch ports between them.

**Source:** rdma-core, ibv_query_port(3), measured with soft-RoCE
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-225",
    __doc__,
    weight=345,
    explains=(Explains(("VC-712", "VC-714")),),
    cases=(
        CauseCase(
            "rdma-large-lost",
            "packets of full size are lost between two nodes",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
