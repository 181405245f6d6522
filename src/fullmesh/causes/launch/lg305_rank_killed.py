"""A rank was killed (SIGKILL), usually by the kernel because memory ran out

{Who} was killed with SIGKILL, nearly always by the out-of-memory killer of the kernel or cgroup.

**Place:** {who}

**Prove:** on that node: journalctl -k --since -1d | grep -i -E 'oom|killed process'

**Fix:** Use fewer DataLoader workers or a smaller batch, or give the unit or container more memory.

**Source:** OpenBMB/MiniCPM-V#770, hpcaitech/ColossalAI#3514
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.launch.patterns import (
    build_shell_patterns,
    build_signal_patterns,
    derive_rank_host,
)
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, RecordedLog

CAUSE = LogCause(
    "LG-305",
    __doc__,
    examples=(
        (
            "  host      : node2\n"
            "  rank      : 1 (local_rank: 0)\n"
            "  exitcode  : -9 (pid: 14750)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 9 (SIGKILL) received by PID 14750"
        ),
    ),
    patterns=(*build_signal_patterns(9, "SIGKILL"), *build_shell_patterns("Killed")),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    derive=derive_rank_host,
    weight=84,
    recorded=(
        RecordedLog(
            "spawn",
            (
                "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with "
                "signal SIGKILL"
            ),
        ),
        RecordedLog(
            "Lightning's child killed",
            (
                "[rank: 1] Child process with PID 4711 terminated with code -9. Forcefully "
                "terminating all other processes"
            ),
        ),
    ),
)
