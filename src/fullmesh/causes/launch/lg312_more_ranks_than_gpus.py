"""A rank does not see the GPU that it asks for

A rank asked for a GPU that it does not see ({detail}). The node has more ranks than GPUs, or Slurm
(--gpus-per-task), the container, CUDA_VISIBLE_DEVICES or MIG shows the process only a part of them.

**Place:** the node of this log

**Prove:** on that node: nvidia-smi -L | wc -l && echo $CUDA_VISIBLE_DEVICES

**Fix:** Set fullmesh_local_ranks (--nproc-per-node) to the number of visible GPUs, or show each
rank all GPUs of its node (srun --gpus-per-node, --gpu-bind=none). If each rank sees one GPU, use
device 0.

**Source:** read: CUDA runtime, Lightning's accelerator check
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-312",
    __doc__,
    examples=(
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
            r"(?P<detail>(?<!Cuda failure 101 ')(?<!Cuda failure ')invalid device ordinal)",
        ),
        Pattern("your machine only has", r"(?P<detail>your machine only has: \[[^\]]{0,60}\])"),
        Pattern("Invalid device id", r"AssertionError: (?P<detail>Invalid device id)"),
        Pattern("device < num_gpus", r"(?P<detail>device >= 0 && device < num_gpus)"),
        Pattern("CUDA_ERROR_INVALID_DEVICE", r"(?P<detail>CUDA_ERROR_INVALID_DEVICE)\b"),
    ),
    explains=(Explains(("LG-201", "LG-210")),),
    weight=90,
)
