"""NCCL_IB_GID_INDEX points to an entry of a RoCE port that is empty, link-local or RoCE v1

The GID table of a RoCE port follows the addresses of its interface. The entry of the IPv4 address
can move after a reboot or with another address, and it differs between ports. A fixed index may
then point to an empty entry, to fe80:: or to RoCE v1. NCCL fails with `ibv_modify_qp failed with 61
No data available`, or hangs. A value that is not a number counts as 0.

**Prove:** show_gids && grep -r NCCL_IB /etc/nccl.conf /etc/fullmesh/env

**Fix:** Remove NCCL_IB_GID_INDEX: NCCL 2.21 and newer choose the entry of each port. On an IPv6
network set NCCL_IB_ADDR_FAMILY=AF_INET6.

**Source:** NCCL 2.30, net_ib/connect.cc and misc/param.cc, and nccl#1333
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-148",
    __doc__,
    weight=350,
    explains=(Explains(("VC-712", "VC-714", "VC-720")),),
    cases=(
        CauseCase(
            "gid-pin",
            "NCCL_IB_GID_INDEX=3, and the port has no entry 3",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
