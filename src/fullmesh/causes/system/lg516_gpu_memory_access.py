"""CUDA: an access to another GPU's memory failed (contained error)

CUDA reports a contained error. A kernel accessed memory of another GPU over NVLink without
permission, or the link or a GPU failed. The process must end.

**Place:** the node of this log, or a peer's node if the NVLink domain spans several nodes (IMEX)

**Prove:** on all nodes of the NVLink domain, run `journalctl -k | grep -i xid`, `nvidia-smi nvlink
-s` and `nvidia-imex-ctl -N`

**Fix:** If the kernel's log has an Xid, follow LG-506. If not, the library that provides the kernel
is faulty (DeepEP, XLA, NVSHMEM): use another version or its standard NCCL path.

**Source:** read: CUDA's list of errors (226), marin-community/marin#8870
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-516",
    __doc__,
    examples=(
        "CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over nvlink or a hardware error",
    ),
    patterns=(
        Pattern("CUDA_ERROR_CONTAINED"),
        Pattern("nvalid access of peer GPU memory over nvlink"),
    ),
    weight=86,
)
