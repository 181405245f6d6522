"""NCCL announces an address outside the cluster network

NCCL chose a different interface than the cluster's, so the peers connect to an address that they may
not reach.

**Prove:** NCCL_DEBUG=INFO ./JOB 2>&1 | grep Bootstrap

**Fix:** ansible-playbook site.yml -i INVENTORY --tags launch.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import list_nccl_answers


def rule_nccl_address(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that NCCL, without a GPU, announces the cluster address."""
    for name, said in list_nccl_answers(seen):
        if not said["reason"] and said["address"] != seen.address(name):
            yield Finding(
                "VC-601",
                "L6",
                f"NCCL on {name} announces a different address than the cluster's",
                node=name,
                seen=said["address"],
                expected=seen.address(name),
                fix=f"{seen.apply('launch')} (it writes NCCL_SOCKET_IFNAME)",
            )


CAUSE = Cause(
    "VC-601",
    __doc__,
    find=rule_nccl_address,
    weight=500,
    explains=(Explains(("DG-134",), has_same_node),),
    cases=(CauseCase("nccl-library", "the library itself announces another address", by=RECORDED),),
)
