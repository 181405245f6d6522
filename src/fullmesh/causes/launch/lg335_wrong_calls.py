"""The program calls torch.distributed in a wrong way

The program made a call that torch.distributed does not allow: {detail}.

**Place:** the program of this log

**Prove:** read the traceback above that line

**Fix:** Correct the program: call init_process_group first on every rank, build the same model on all
ranks, give NCCL tensors on the GPU, and use each parameter once in a backward pass (or DDP's static_graph).

**Source:** read: torch/distributed and ProcessGroupNCCL.cpp
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-335",
    __doc__,
    examples=(
        "RuntimeError: Tensors must be CUDA and dense",
        (
            "ValueError: Default process group has not been initialized, please make sure to "
            "call init_process_group."
        ),
    ),
    patterns=(
        Pattern(
            "Default process group has not been initialized",
            r"Error: (?P<detail>Default process group has not been initialized)",
        ),
        Pattern(
            "Tensors must be CUDA and dense", r"Error: (?P<detail>Tensors must be CUDA and dense)"
        ),
        Pattern("DDP expects same model", r"(?P<detail>DDP expects same model across all ranks)"),
        Pattern(
            "appears not to match",
            r"(?P<detail>params\[\d{1,6}\] in this process with sizes .{1,80} appears not to match)",
        ),
        Pattern(
            "No rendezvous handler for", r"rror: (?P<detail>No rendezvous handler for \S{1,80})"
        ),
        Pattern(
            "to mark a variable ready only once",
            r"(?P<detail>Expected to mark a variable ready only once)",
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=80,
)
