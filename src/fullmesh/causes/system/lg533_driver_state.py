"""The CUDA driver of the node is in a bad state

CUDA could not start and gives no reason ({detail}). The module nvidia_uvm is missing or hangs after
a suspend, an update or a GPU error, or the container lacks /dev/nvidia-uvm.

**Place:** the node of this log

**Prove:** on that node, run `ls -l /dev/nvidia-uvm`, `lsmod | grep nvidia_uvm` and `journalctl -k
-g nvidia`

**Fix:** End all GPU processes and reload the module (rmmod nvidia_uvm, then modprobe nvidia_uvm),
or reboot. Pass /dev/nvidia-uvm to the container.

**Source:** read: CUDA's cudaErrorUnknown and torch's message about it
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import AS_LAST, RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-533",
    __doc__,
    examples=(
        (
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up "
            "environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start."
        ),
        "n:1:2 [0] alloc.h:5 NCCL WARN Cuda failure 999 'unknown error'",
    ),
    patterns=(
        Pattern("CUDA unknown error", r"(?P<detail>CUDA unknown error)"),
        Pattern("'unknown error'", AS_LAST + r"Cuda failure (?:999 )?(?P<detail>'unknown error')"),
    ),
    explains=(Explains((*RANK_FAILURE_EFFECTS, "LG-521")),),
    survivable=True,
    weight=84,
)
