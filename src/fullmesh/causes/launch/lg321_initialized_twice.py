"""The process group was initialized twice

init_process_group was called a second time in one process. The framework (Lightning's Trainer,
Accelerate, DeepSpeed, an imported module) had already called it, or the script calls it in a loop
or a retry.

**Place:** the job's own code, on every rank that runs it. It is not a network fault

**Prove:** read the traceback above the line, which names the second call

**Fix:** Keep one call: 'if not torch.distributed.is_initialized(): init_process_group(...)', and
none if a framework makes the group. Call destroy_process_group() before a retry.

**Source:** read: torch/distributed/distributed_c10d.py, intel/torch-xpu-ops#1525,
modelscope/modelscope#98
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-321",
    __doc__,
    examples=(
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
    recorded=(
        RecordedLog(
            "a second init",
            (
                '[rank0]:   File "/srv/jobs/train.py", line 12, in main\n'
                '[rank0]:     dist.init_process_group("nccl")\n'
                "[rank0]: ValueError: trying to initialize the default process group twice!\n"
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
                "============================================================\n"
                "train.py FAILED\n"
                "------------------------------------------------------------\n"
                "Failures:\n"
                "  <NO_OTHER_FAILURES>\n"
                "------------------------------------------------------------\n"
                "Root Cause (first observed failure):\n"
                "[0]:\n"
                "  time      : 2025-05-21_15:43:03\n"
                "  host      : node1\n"
                "  rank      : 0 (local_rank: 0)\n"
                "  exitcode  : 1 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : x\n"
                "============================================================\n"
                ""
            ),
            folded=("LG-304",),
        ),
    ),
)
