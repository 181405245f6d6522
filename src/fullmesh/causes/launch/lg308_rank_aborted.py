"""A rank aborted itself (SIGABRT)

{Who} aborted itself (SIGABRT), usually because of its NCCL watchdog or an uncaught C++ exception.
The lines before it give the reason, if the log has them.

**Place:** {who}

**Prove:** read the last lines of that rank's own log

**Fix:** Correct the error above this line.

**Source:** read: ProcessGroupNCCL.cpp watchdog
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.launch.patterns import (
    build_crash_patterns,
    build_signal_patterns,
    derive_rank_host,
)
from fullmesh.causes.logs import LogCause, Severity

CAUSE = LogCause(
    "LG-308",
    __doc__,
    examples=(
        (
            "  host      : node2\n"
            "  rank      : 1 (local_rank: 0)\n"
            "  exitcode  : -6 (pid: 14750)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 6 (SIGABRT) received by PID 14750"
        ),
    ),
    patterns=(*build_signal_patterns(6, "SIGABRT"), *build_crash_patterns(6, "SIGABRT")),
    severity=Severity.SYMPTOM,
    follows_any=True,
    explains=(Explains(("LG-310",)),),
    is_pointer=True,
    derive=derive_rank_host,
)
