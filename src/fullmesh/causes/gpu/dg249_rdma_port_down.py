"""An RDMA port is down

NCCL uses only ports that are up. If none is up, it uses TCP without an error message, at about a
tenth of the speed.

**Prove:** ibstat || cat /sys/class/infiniband/*/ports/*/state

**Fix:** Reconnect the cable, enable the switch port, or start the subnet manager.

**Source:** nccl#286
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.gpu.rdma_ports import UP, group_rdma_ports
from fullmesh.result.findings import Finding, join_names


def rule_rdma_ports(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find RDMA ports that are down but up on other nodes: NCCL silently falls back to TCP."""
    for (device, number), held in group_rdma_ports(evidence).items():
        up = [name for name, port in held.items() if port["state"] == UP]
        down = [name for name, port in held.items() if port["state"] != UP]
        if not up or not down:
            continue
        port = held[down[0]]
        yield Finding(
            "DG-249",
            "L1",
            f"the RDMA port {device}/{number} is {port['state'] or 'not up'} on {join_names(down)} and "
            f"up on {join_names(up)}",
            node=down[0],
            peer=join_names(up),
            seen=f"{port['state']}, physically {port['physical']}",
            expected=UP,
            check=f"on {down[0]}: ibstat {device}",
            fix="reconnect the cable, enable the switch port, or start the subnet manager",
        )


CAUSE = Cause(
    "DG-249",
    __doc__,
    find=rule_rdma_ports,
    needs=("rdma",),
    weight=130,
    cases=(CauseCase("rdma-port", "an RDMA port is down on one node", by=RECORDED),),
)
