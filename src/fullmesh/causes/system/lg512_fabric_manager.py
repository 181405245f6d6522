"""The fabric manager does not run, so no GPU of the node works

CUDA reports that the system is not ready (error 802). The GPUs are connected by NVSwitches, and
NVIDIA's fabric manager does not run, fails when it starts, or has another version than the driver.

**Place:** the node of this log

**Prove:** on that node, run `systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A3
Fabric`, or ./fullmesh verify -i INVENTORY (VC-147)

**Fix:** Install and enable nvidia-fabricmanager in exactly the driver's version. Role nvidia_driver
does this on machines with NVSwitches.

**Source:** pytorch/pytorch#35710, akash-network/website#632, CUDA's cudaErrorSystemNotReady
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-512",
    __doc__,
    examples=(
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
            "functions before calling NumCudaDevices() that might have already set an error? "
            "Error 802: system not yet initialized"
        ),
    ),
    patterns=(
        Pattern("system not yet initialized"),
        Pattern("CUDA_ERROR_SYSTEM_NOT_READY"),
        Pattern("cudaErrorSystemNotReady"),
        Pattern(
            "nvidia-fabricmanager",
            r"nvidia-fabricmanager(?:\.service|\]).{0,160}?(?:timed out|Failed with result|Failed to start|FAILURE)",
        ),
        Pattern(
            "match with driver version",
            r"fabric manager NVIDIA GPU driver interface version \S{1,40} (?:don't|doesn't) match with driver",
        ),
    ),
    weight=93,
    recorded=(
        RecordedLog(
            "a fabric manager of another version",
            (
                "node1 nv-fabricmanager[104230]: fabric manager NVIDIA GPU driver interface version "
                "550.127.05 don't match with driver version 550.120. Please update with matching "
                "NVIDIA driver package."
            ),
        ),
        RecordedLog(
            "no fabric manager",
            (
                "RuntimeError: cuda runtime error (802) : system not yet initialized at "
                "/opt/conda/conda-bld/pytorch_1579022034529/work/aten/src/THC/THCGeneral.cpp:50"
            ),
        ),
    ),
)
