"""The process sees no GPU

The program found no GPU ({detail}). The container did not get the devices, CUDA_VISIBLE_DEVICES
hides them, the job got a node without a GPU, or the account may not open them (ROCm: /dev/kfd and
the group render).

**Place:** the container, pod or job of this log

**Prove:** in the job's own environment, run `ls -l /dev/nvidia* /dev/kfd /dev/dri`, `nvidia-smi -L`
and `env | grep VISIBLE_DEVICES`

**Fix:** Start the container with its GPUs (docker run --gpus all, Kubernetes: limits for
nvidia.com/gpu, Slurm: --gres=gpu). For ROCm, add --device /dev/kfd --device /dev/dri and the group
that owns them. Unset an empty CUDA_VISIBLE_DEVICES.

**Source:** read: torch/cuda, ProcessGroupNCCL.cpp, vLLM's platforms
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-521",
    __doc__,
    examples=(
        "RuntimeError: No CUDA GPUs are available",
        "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
    ),
    patterns=(
        Pattern("GPUs are available", r"(?P<detail>No (?:CUDA|HIP) GPUs are available)"),
        Pattern(
            "no GPUs found",
            r"(?P<detail>ProcessGroupNCCL is only supported with GPUs, no GPUs found)",
        ),
        Pattern(
            "capable device is detected", r"(?P<detail>no (?:CUDA|ROCm)-capable device is detected)"
        ),
        Pattern(
            "/dev/kfd read-write", r"(?P<detail>Unable to open /dev/kfd read-write: [\w ]{5,40})"
        ),
        Pattern(
            "supported devices found for platform CUDA",
            r"(?P<detail>no supported devices found for platform CUDA)",
        ),
        Pattern("Failed to infer device type", r"(?P<detail>Failed to infer device type)"),
        Pattern(
            "CUDA driver initialization failed", r"(?P<detail>CUDA driver initialization failed)"
        ),
        # a start script of an image, whose program the container runtime adds with the GPUs
        Pattern("nvidia-smi: command not found", r"(?P<detail>nvidia-smi: command not found)"),
        Pattern(
            "vLLM is running on UnspecifiedPlatform",
            r"(?P<detail>No platform detected, vLLM is running on UnspecifiedPlatform)",
        ),
        Pattern("Insufficient Permissions", r"(?P<detail>NVML: Insufficient Permissions)"),
        Pattern("compiled with CUDA enabled", r"(?P<detail>Torch not compiled with CUDA enabled)"),
        Pattern("No visible GPU devices", r"(?P<detail>No visible GPU devices)"),
        Pattern("No devices were found", r"^\s*(?P<detail>No devices were found)\s*$"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    survivable=True,
    weight=84,
)
