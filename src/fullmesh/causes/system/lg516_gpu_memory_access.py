"""CUDA: an access to another GPU's memory failed (contained error)

CUDA reports a contained error: a kernel accessed memory of another GPU over NVLink that it may not,
or the link or a GPU failed. The process has to end.

**Where:** the node of this log; in an NVLink domain of several nodes (IMEX) also the peer's

**Prove:** journalctl -k | grep -i xid on all nodes of the NVLink domain; nvidia-smi nvlink -s;
nvidia-imex-ctl -N

**Fix:** With an Xid in the kernel's log: treat it as LG-506. Without one, the library that made the
kernel is wrong (DeepEP, XLA, NVSHMEM): use another version or its standard NCCL path.

**Source:** read: CUDA's list of errors (226); marin-community/marin#8870
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-516",
    __doc__,
    looks=(
        "CUDA_ERROR_CONTAINED: Invalid access of peer GPU memory over nvlink or a hardware error",
    ),
    patterns=(
        Pattern("CUDA_ERROR_CONTAINED"),
        Pattern("nvalid access of peer GPU memory over nvlink"),
    ),
    weight=86,
)
