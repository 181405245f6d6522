"""Processes of a node cannot open each other's GPU memory (CUDA or HIP IPC)

A process could not export or open a handle of GPU memory ({detail}). The processes are in different
containers or namespaces, the container or virtual machine forbids it, or the memory is of a kind
that has no such handles.

**Place:** the containers of this node

**Prove:** for both processes: ls -l /proc/PID/ns. Then repeat the job with NCCL_P2P_DISABLE=1

**Fix:** Run all ranks of a node in one container, or start the containers with --ipc=host and
--pid=host. Otherwise set NCCL_P2P_DISABLE=1, and switch off custom all-reduce kernels
(--disable-custom-all-reduce). Remove expandable_segments from PYTORCH_CUDA_ALLOC_CONF.

**Source:** read: RCCL's and NCCL's transport/p2p.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-460",
    __doc__,
    examples=("n:1:2 [0] p2p.cc:256 NCCL WARN hipIpcGetMemHandle failed : invalid argument",),
    patterns=(
        *(
            Pattern(
                needle,
                rf"(?P<detail>(?:hip|cuda){needle}(?:\(.{{0,80}}\))?.{{0,40}}?"
                r"(?:failed|error|invalid|not supported)[ :'\w]{0,40})",
            )
            for needle in ("IpcGetMemHandle", "IpcOpenMemHandle")
        ),
    ),
    explains=(Explains(("LG-421", "LG-422")),),
    weight=80,
)
