"""RDMA ports differ in their GID types or link layers

RoCE v2 needs a GID of that type, which a port gets from the IP address of its network interface. If
the interface has no address, or if the other end uses InfiniBand, NCCL fails with completion status
12.

**Prove:** show_gids || cat /sys/class/infiniband/DEVICE/ports/1/gid_attrs/types/*

**Fix:** Assign the interface its address, and leave NCCL_IB_GID_INDEX unset.

**Source:** nccl#426, nccl#1131
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.gpu.rdma_ports import UP, group_rdma_ports
from fullmesh.causes.relations import has_same_node
from fullmesh.observed.survey import RdmaPort
from fullmesh.result.findings import Finding, join_names


def describe_gid_types(port: RdmaPort) -> str:
    """Return the link layer and the GID types of a port."""
    return (
        f"{port['layer']}: {join_names(sorted({gid['type'] for gid in port['gids']})) or 'no GID'}"
    )


def rule_gid_types(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find RDMA ports without a RoCE v2 GID if the same ports of other nodes have one."""
    for (device, number), held in group_rdma_ports(evidence).items():
        kinds = {
            name: describe_gid_types(port) for name, port in held.items() if port["state"] == UP
        }
        if len(set(kinds.values())) < 2:  # noqa: PLR2004 (two that differ)
            continue
        usual = Counter(kinds.values()).most_common(1)[0][0]
        odd = [name for name, kind in kinds.items() if kind != usual]
        yield Finding(
            "DG-118",
            "L1",
            f"the RDMA port {device}/{number} of {join_names(odd)} has other GID types than on the other nodes",
            node=odd[0],
            peer=join_names([n for n in kinds if n not in odd]),
            seen=kinds[odd[0]],
            expected=usual,
            check=f"on {odd[0]}: show_gids",
            fix=f"on {odd[0]}: assign {device}'s network interface its IP address, and leave NCCL_IB_GID_INDEX unset",
        )


CAUSE = Cause(
    "DG-118",
    __doc__,
    find=rule_gid_types,
    needs=("rdma",),
    weight=360,
    explains=(Explains(("VC-148",), has_same_node),),
    cases=(
        CauseCase("roce-gid", "one node has a RoCE v2 GID, and the other has none", by=RECORDED),
    ),
)
