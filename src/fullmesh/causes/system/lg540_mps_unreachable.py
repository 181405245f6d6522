"""CUDA: the MPS server cannot be used

CUDA cannot use NVIDIA's Multi-Process Service (MPS): {detail}. Its daemon runs as another user, ended after a fatal
fault of another client, or is not in this container.

**Place:** the node of this log

**Prove:** on that node: ps -C nvidia-cuda-mps-control,nvidia-cuda-mps-server -o user,pid,args; env | grep CUDA_MPS;
tail the server.log in CUDA_MPS_LOG_DIRECTORY

**Fix:** Restart the daemon as the user of the job, and mount CUDA_MPS_PIPE_DIRECTORY in the container. Training with
one rank per GPU needs no MPS: echo quit | nvidia-cuda-mps-control

**Source:** read: CUDA's driver API (errors 805 to 810) and NVIDIA's guide on MPS
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-540",
    __doc__,
    examples=(
        "RuntimeError: CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server",
    ),
    patterns=(
        Pattern(
            "MPS client failed to connect",
            r"(?P<detail>MPS client failed to connect to the MPS control daemon)",
        ),
        Pattern("CUDA_ERROR_MPS_", r"(?P<detail>CUDA_ERROR_MPS_[A-Z_]{1,40})"),
        Pattern("cudaErrorMps", r"(?P<detail>cudaErrorMps[A-Za-z]{1,40})"),
    ),
    survivable=True,
    weight=86,
)
