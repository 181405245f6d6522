"""NCCL: NVLink SHARP (NVLS) fails because the node's NVLink fabric is unhealthy

NCCL could not set up NVLink SHARP multicast (NVLS). The fabric manager was restarted or has another
version than the driver, the GPUs need a reset, or the container or VM is not allowed to use multicast.

**Place:** the fabric manager and the NVSwitches of the node of this log

**Prove:** on that node, run `systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A3
Fabric`. The job works with NCCL_NVLS_ENABLE=0.

**Fix:** Stop all GPU jobs, restart the fabric manager and reset the GPUs (nvidia-smi -r), or
reboot. To run without NVLS, set NCCL_NVLS_ENABLE=0.

**Source:** NVIDIA/nccl#1488, #976, read: nccl transport/nvls.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-432",
    __doc__,
    examples=(
        "node23:12098:12141 [2] transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'",
        (
            "node1:1:2 [0] NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size "
            "2097152 : CUDA error 401 'the operation cannot be performed in the present state'."
        ),
    ),
    patterns=(
        Pattern(
            "nvls.cc:",
            r"nvls\.cc:\d+ NCCL WARN Cu(?:da|DA) (?:failure|error) (?:\d+ )?'(?!out of memory)",
        ),
        Pattern("NVLink SHARP (NVLS)", r"Failed to bind NVLink SHARP \(NVLS\)"),
    ),
    weight=89,
)
