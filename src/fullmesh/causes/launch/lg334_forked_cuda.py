"""A process was forked after CUDA had started

A child process cannot use CUDA, because its parent had used it before the fork ({detail}).

**Place:** the program of this log

**Prove:** read the traceback: the first use of CUDA is in the parent, outside the function that the
workers run

**Fix:** Start workers with the method spawn (torch.multiprocessing,
VLLM_WORKER_MULTIPROC_METHOD=spawn), and use CUDA only in the workers.

**Source:** read: torch/cuda, CUDA's cudaErrorInitializationError
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import AS_LAST, RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-334",
    __doc__,
    examples=(
        (
            "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with "
            "multiprocessing, you must use the 'spawn' start method"
        ),
    ),
    patterns=(
        Pattern(
            "re-initialize CUDA in forked subprocess",
            r"(?P<detail>Cannot re-initialize CUDA in forked subprocess)",
        ),
        Pattern(
            "'initialization error'",
            AS_LAST + r"Cuda failure (?:3 )?(?P<detail>'initialization error')",
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=86,
)
