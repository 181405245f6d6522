"""The NVLink fabric of a node is not initialized

On machines with NVSwitch, the fabric manager must configure the switches before CUDA can start. If
it does not run, or if its version differs from the driver's, every CUDA program fails with error
802 (system not yet initialized).

**Prove:** nvidia-smi -q | grep -A2 Fabric && systemctl status nvidia-fabricmanager

**Fix:** systemctl enable --now nvidia-fabricmanager, of exactly the driver's version (role
nvidia_driver)

**Source:** NVIDIA, Fabric Manager User Guide
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding
from fullmesh.verify.cards import explain_unready_fabric, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations

LATE = (
    "journalctl -u nvidia-fabricmanager (it needs the driver's own version: role nvidia_driver installs both "
    "together) and dmesg | grep -i -E 'nvswitch|nvlink'"
)


def find_unready_fabric(seen: ClusterObservations) -> Iterator[Finding]:
    """Find GPUs behind NVSwitches whose fabric is not set up."""
    for node, box in list_gpu_nodes(seen):
        late, why, cure = explain_unready_fabric(box.gpus)
        if not late and not why:
            continue
        yield Finding(
            "VC-136",
            "L1",
            f"the NVLink fabric of {node} is not set up{': ' * bool(why)}{why}. CUDA starts on none of its GPUs "
            "(error 802, system not yet initialized)",
            node=node,
            seen=f"fabric state: {late[0].get('fabric', '')} on {len(late)} GPU(s)"
            if late
            else why,
            expected="Completed",
            fix=f"on {node}: {cure or LATE}",
        )


CAUSE = Cause(
    "VC-136",
    __doc__,
    find=find_unready_fabric,
    weight=420,
    explains=(Explains(("VC-719", "VC-711", "VC-712"), has_same_node),),
    cases=(
        CauseCase(
            "gpu-fabric",
            "the fabric is not initialized, and its manager is installed but does not run",
            by=RECORDED,
        ),
    ),
)
