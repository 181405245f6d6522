"""A collective got a tensor on a device that the process group has no backend for

A collective was called with a tensor on {device}, and no backend of the process group serves that
device: NCCL serves GPU tensors only, and Gloo serves CPU tensors.

**Place:** the job's own code. It is not a network fault

**Prove:** read the traceback above the line, which names the call

**Fix:** Move the tensor (tensor.cuda()), or use init_process_group('cpu:gloo,cuda:nccl').

**Source:** mistralai/mistral-inference#252, read: torch ProcessGroup.hpp getBackend
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-325",
    __doc__,
    examples=("[rank0]: RuntimeError: No backend type associated with device type cpu",),
    patterns=(
        Pattern(
            "No backend type associated with device type",
            r"No backend type associated with device type (?P<device>\w{1,20})",
        ),
    ),
    weight=91,
)
