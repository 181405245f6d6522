"""An RDMA port that jobs use has no RoCE v2 GID of an IP address

A RoCE port gets its GIDs from the addresses of its network interface. Without an address it has
only the link-local GID, or none, and NCCL cannot reach other nodes through it. A NIC with two
interfaces for one port (the twins of a DGX Spark) needs an address on each, in different subnets.
The GID can also disappear while a job runs, if the address is removed and added again.

**Prove:** show_gids || grep -H . /sys/class/infiniband/*/ports/*/gids/* && ip address

**Fix:** Assign the interface an address in a subnet of its own, or leave the port out of
NCCL_IB_HCA.

**Source:** NVIDIA, DGX Spark playbooks, multi-sparks-through-switch, and nccl#1333
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-221",
    __doc__,
    weight=350,
    explains=(Explains(("VC-148", "VC-712", "VC-714"), has_same_node),),
    cases=(
        CauseCase(
            "rdma-missing-gid",
            "one of two RoCE ports of a node has only its link-local GID",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
