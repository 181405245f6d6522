"""The fabric manager does not run, or its version differs from the driver's (warning)

The fabric manager configures NVSwitches when the driver starts, and works only with the driver of
its own version. Without it, links that are up stay up. After a reset of a GPU or a reboot they do
not come up, and every CUDA program fails with error 802. This happens if only one of the two is
upgraded.

**Prove:** systemctl status nvidia-fabricmanager || nv-fabricmanager --version && nvidia-smi

**Fix:** Install the fabric manager of the driver's version, and hold both packages together (role
nvidia_driver).

**Source:** NVIDIA, Fabric Manager User Guide
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import explain_fabric_manager, explain_unready_fabric, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_stopped_fabric_manager(seen: ClusterObservations) -> Iterator[Finding]:
    """Find nodes whose fabric works until the next reset, because the fabric manager does not."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        why, cure = explain_fabric_manager(held)
        late, now, _ = explain_unready_fabric(held)
        if not why or late or now:
            continue
        yield Finding(
            "VC-147",
            "L1",
            f"on {node} {why}: after the next reset of a GPU, or the next boot, CUDA starts on none (error 802)",
            node=node,
            seen=f"fabric manager {held['fabric_manager']['version'] or 'none'}, {held['fabric_manager']['active']}",
            expected=f"active, version {held.get('driver', '')}",
            fix=f"on {node}: {cure}",
            severity=WARNING,
        )


CAUSE = Cause(
    "VC-147",
    __doc__,
    find=find_stopped_fabric_manager,
    severity=WARNING,
    cases=(
        CauseCase(
            "gpu-manager", "a fabric manager of a different version than the driver", by=RECORDED
        ),
    ),
)
