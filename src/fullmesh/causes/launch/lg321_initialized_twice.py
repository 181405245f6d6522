"""the process group was initialized twice

init_process_group was called a second time in one process: the framework (Lightning's Trainer,
Accelerate, DeepSpeed, an imported module) had done it before, or the script runs it in a loop or a
retry.

**Where:** the job's own code; every rank that runs it, the network has no part in it

**Prove:** the traceback above it names the second call; grep -rn init_process_group in the job's
code

**Fix:** Keep one call: 'if not torch.distributed.is_initialized(): init_process_group(...)', none
at all under a framework that makes the group itself; destroy_process_group() before a new try.

**Source:** read: torch/distributed/distributed_c10d.py; intel/torch-xpu-ops#1525,
modelscope/modelscope#98
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-321",
    __doc__,
    looks=(
        "[rank0]: ValueError: trying to initialize the default process group twice!",
        "RuntimeError: trying to initialize the default process group twice!",
    ),
    patterns=(
        Pattern(
            "trying to initialize the default process group",
            # not the line of torch's source that a traceback shows
            r'(?<!raise ValueError\(")(?<!raise RuntimeError\(")'
            r"trying to initialize the default process group twice",
        ),
    ),
    weight=91,
)
