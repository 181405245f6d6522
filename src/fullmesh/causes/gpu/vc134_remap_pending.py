"""A GPU has faulty memory that is remapped at the next reset (warning)

A GPU replaces faulty rows of its memory at its next reset. Until then it avoids them.

**Prove:** nvidia-smi -q -d ROW_REMAPPER

**Fix:** nvidia-smi --gpu-reset while no program uses the GPUs, or reboot the node.

**Source:** NVIDIA, GPU Memory Error Management
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import describe_gpu_addresses, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_pending_remaps(seen: ClusterObservations) -> Iterator[Finding]:
    """Find memory rows that are only remapped at the next reset."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        due = [card for card in held["cards"] if card.get("remap_pending") == "Yes"]
        if due:
            yield Finding(
                "VC-134",
                "L1",
                f"broken memory of {describe_gpu_addresses(due)} on {node} is replaced by spare rows at the next reset "
                "only",
                node=node,
                seen="remapped_row_pending: Yes",
                expected="No",
                fix=f"on {node}, without any program on the GPUs: nvidia-smi --gpu-reset, or reboot",
                severity=WARNING,
            )


CAUSE = Cause(
    "VC-134",
    __doc__,
    find=find_pending_remaps,
    severity=WARNING,
    cases=(CauseCase("gpu-pending", "a row of memory that waits for a reset", by=RECORDED),),
)
