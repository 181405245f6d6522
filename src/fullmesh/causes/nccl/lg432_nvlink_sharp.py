"""NCCL: NVLink SHARP (NVLS) fails, so the fabric of the node is unhealthy

NCCL could not set up NVLink SHARP multicast (NVLS): the fabric manager was restarted, is of another
version, or the GPUs need a reset, or the container or VM may not use multicast.

**Where:** the node of this log: fabric manager and NVSwitches

**Prove:** on that node: systemctl status nvidia-fabricmanager; nvidia-smi -q | grep -A3 Fabric;
NCCL_NVLS_ENABLE=0: the job runs

**Fix:** Restart the fabric manager with no GPU in use and reset the GPUs (nvidia-smi -r), or
reboot; NCCL_NVLS_ENABLE=0 does without NVLS.

**Source:** NVIDIA/nccl#1488, #976; read: nccl transport/nvls.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-432",
    __doc__,
    looks=(
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
