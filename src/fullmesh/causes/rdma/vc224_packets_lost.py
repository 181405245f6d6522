"""RDMA packets between two devices are lost

RoCE v2 sends its packets to UDP port 4791. The queue pair connects without a packet, so the loss
shows only with the first message: completion status 12 (IBV_WC_RETRY_EXC_ERR) after all retries.
TCP between the same nodes can work, because firewalls, switch ACLs and VLANs treat UDP 4791
differently. Firewalls of the nodes see these packets only with soft-RoCE: a NIC sends and receives
them past the kernel.

With three or more nodes, the finding names the node if its device reaches no peer and each of the
peers reaches another node.

**Prove:** rdma statistic && ibv_rc_pingpong -d DEVICE -g INDEX PEER

**Fix:** Allow UDP port 4791 in both directions on the path, and check cable, VLAN and switch port.

**Source:** InfiniBand Architecture Specification, annex A17 (RoCE v2), measured with soft-RoCE
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains

CAUSE = Cause(
    "VC-224",
    __doc__,
    weight=340,
    explains=(Explains(("VC-712", "VC-714")),),
    cases=(
        CauseCase(
            "rdma-packets-lost",
            "UDP 4791 is dropped between two nodes",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
