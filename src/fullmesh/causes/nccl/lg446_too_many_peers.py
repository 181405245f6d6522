"""NCCL: more GPUs are connected directly than CUDA allows

A GPU can map the memory of at most 8 other GPUs without NVSwitch, and this job connects more of
them on one node (peer mapping resources exhausted).

**Place:** the node of this log

**Prove:** on that node, run `nvidia-smi -L | wc -l` and `nvidia-smi topo -m`

**Fix:** Use at most 8 GPUs of a node in one process group, or set NCCL_P2P_LEVEL=PIX or
NCCL_P2P_DISABLE=1 so that NCCL connects fewer pairs.

**Source:** NVIDIA/nccl#241, read: CUDA's cudaErrorTooManyPeers
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-446",
    __doc__,
    examples=(
        ("n:1:2 [0] include/alloc.h:79 NCCL WARN Cuda failure 'peer mapping resources exhausted'"),
    ),
    patterns=(
        Pattern("peer mapping resources exhausted"),
        Pattern("CUDA_ERROR_TOO_MANY_PEERS"),
    ),
    weight=88,
)
