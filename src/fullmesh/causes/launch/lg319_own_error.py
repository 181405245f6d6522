"""The program itself failed first

The program failed with an error of its own: {error}: {message}.{place} Errors of other ranks that
come after it follow from it.

**Place:** {who}

**Prove:** read the traceback above that line

**Fix:** Correct the program, its arguments or its files on that node.

**Source:** Python's tracebacks
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, RecordedLog

CAUSE = LogCause(
    "LG-319",
    __doc__,
    explains=(Explains((*RANK_FAILURE_EFFECTS, "LG-302", "LG-320", "LG-722")),),
    weight=68,
    recorded=(
        RecordedLog("unknown argument", "train.py: error: unrecognized arguments: --ranks=0"),
        RecordedLog(
            "an error ends the program, and a thread of Gloo's the process",
            (
                "[rank0]: Traceback (most recent call last):\n"
                '[rank0]:   File "/srv/jobs/train.py", line 9, in <module>\n'
                "[rank0]: ValueError: no such split: valid\n"
                "terminate called without an active exception\n"
                "  host      : gpu-el1.lab.example\n"
                "  rank      : 0 (local_rank: 0)\n"
                "  exitcode  : -6 (pid: 6305)  (SIGABRT)\n"
                "  error_file: <N/A>\n"
                "  traceback : Signal 6 (SIGABRT) received by PID 6305\n"
                ""
            ),
            folded=("LG-308", "LG-320"),
        ),
        RecordedLog(
            "own code",
            (
                "[rank1]: KeyError: 'input_ids'\n"
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
                "  host      : node2\n"
                "  rank      : 1 (local_rank: 0)\n"
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
