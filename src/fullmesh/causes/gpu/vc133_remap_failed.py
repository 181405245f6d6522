"""A GPU has faulty memory that could not be remapped

A GPU replaces faulty rows of memory by spare rows. If that fails (Xid 64), it continues with faulty
memory, and jobs end with errors that ECC cannot correct.

**Prove:** nvidia-smi -q -d ROW_REMAPPER

**Fix:** Leave the GPU out of jobs and have it replaced.

**Source:** NVIDIA, GPU Memory Error Management
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import Finding
from fullmesh.verify.cards import describe_gpu_addresses, list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_failed_remaps(seen: ClusterObservations) -> Iterator[Finding]:
    """Find memory rows that could not be remapped."""
    for node, box in list_gpu_nodes(seen):
        held = box.gpus
        bad = [card for card in held["cards"] if card.get("remap_failed") == "Yes"]
        if bad:
            yield Finding(
                "VC-133",
                "L1",
                f"broken memory of {describe_gpu_addresses(bad)} on {node} could not be replaced by spare rows: "
                "the GPU is worn out",
                node=node,
                seen="remapped_row_failure: Yes",
                expected="No",
                fix=f"on {node}: exclude the GPU (CUDA_VISIBLE_DEVICES), and replace it",
                check=f"on {node}: nvidia-smi -q -d ROW_REMAPPER",
            )


CAUSE = Cause(
    "VC-133",
    __doc__,
    find=find_failed_remaps,
    cases=(CauseCase("gpu-remap", "a row of memory that could not be remapped", by=RECORDED),),
)
