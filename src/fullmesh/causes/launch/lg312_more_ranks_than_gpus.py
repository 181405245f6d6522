"""More local ranks than GPUs

A rank asked for a GPU that the node does not have ({detail}): --nproc-per-node is larger than the
number of visible GPUs.

**Place:** the node of this log

**Prove:** on that node: nvidia-smi -L | wc -l && echo $CUDA_VISIBLE_DEVICES

**Fix:** Set fullmesh_local_ranks (--nproc-per-node) to the number of visible GPUs.

**Source:** read: CUDA runtime, Lightning's accelerator check
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-312",
    __doc__,
    looks=(
        "RuntimeError: CUDA error: invalid device ordinal",
        (
            "lightning.fabric.utilities.exceptions.MisconfigurationException: You requested gpu: "
            "[0, 1]\n"
            " But your machine only has: [0]"
        ),
    ),
    patterns=(
        # in NCCL itself it is a GPU of another rank (LG-441)
        Pattern(
            "invalid device ordinal",
            r"(?P<detail>(?<!NCCL WARN Cuda failure 101 ')(?<!NCCL WARN Cuda failure ')invalid device ordinal)",
        ),
        Pattern("your machine only has", r"(?P<detail>your machine only has: \[[^\]]{0,60}\])"),
    ),
    explains=(Explains(("LG-201", "LG-210")),),
    weight=90,
)
