"""NCCL: a rank does not see the GPUs of its neighbours

NCCL opens the memory of another GPU of the node by its number, but this rank does not see that GPU.
Slurm or the container gave each process only its own GPU, although NCCL treats them as one machine.

**Place:** the launcher of this node

**Prove:** compare `nvidia-smi -L` and `env | grep -E '^(CUDA_VISIBLE_DEVICES|SLURM_STEP_GPUS)='` in
two ranks of the node

**Fix:** Let every rank see all GPUs of its node (srun --gpus-per-node or --gpu-bind=none instead of
--gpus-per-task), and choose by the local rank. If each container must have one GPU, set
NCCL_P2P_DISABLE=1 or a unique NCCL_HOSTID per container.

**Source:** NVIDIA/nccl#1948, read: NCCL's transport/p2p.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import AS_LAST, LogCause, Pattern

CAUSE = LogCause(
    "LG-441",
    __doc__,
    examples=(
        "node1:804052:804100 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
    ),
    patterns=(
        Pattern(
            "invalid device ordinal", AS_LAST + r"Cuda failure (?:101 )?'invalid device ordinal'"
        ),
    ),
    weight=91,
)
