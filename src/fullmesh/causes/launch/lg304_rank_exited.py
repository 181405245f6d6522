"""A launcher saw a rank end with an error

{launcher} saw {who} end first, with exit code {exitcode}.

**Place:** {who}

**Prove:** read that rank's own log (torchrun: --log-dir DIR --tee 3, and @record on main. srun:
--output=%t.log)

**Fix:** Correct the error in that rank's own log.

**Source:** read: torch/distributed/elastic/multiprocessing/errors
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.launch.patterns import HOST, RANK, TORCHRUN, derive_rank_host
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-304",
    __doc__,
    examples=(
        (
            "  host      : node2\n"
            "  rank      : 1 (local_rank: 0)\n"
            "  exitcode  : 1 (pid: 14750)\n"
            "  error_file: <N/A>\n"
            "  traceback : To enable traceback see: "
            "https://pytorch.org/docs/stable/elastic/errors.html"
        ),
    ),
    patterns=(
        Pattern(
            "  exitcode  : ",
            rf"{HOST}{RANK}exitcode\s*: (?P<exitcode>\d+) ",
            before=2,
            fields=TORCHRUN,
        ),
        Pattern(
            "failed (exitcode: ",
            r"failed \(exitcode: (?P<exitcode>\d+)\) (?P<rank>)(?P<host>)local_rank",
            fields=TORCHRUN,
        ),
        Pattern(
            "terminated with code ",
            r"\[rank: (?P<rank>\d{1,7})\] Child process with PID \d+ terminated with code"
            r" (?P<exitcode>\d+)(?P<host>)",
            fields=(("launcher", "Lightning's launcher"),),
        ),
        Pattern(
            "srun: error: ",
            r"srun: error: (?P<host>\S{1,120}): tasks? (?P<rank>[\d,-]{1,80}): Exited with exit code"
            r" (?P<exitcode>\d+)",
            fields=(("launcher", "srun"),),
        ),
        Pattern(
            "exits with return code = ",
            r"exits with return code = (?P<exitcode>[1-9]\d*)(?P<rank>)(?P<host>)",
            fields=(("launcher", "DeepSpeed's launcher"),),
        ),
        Pattern(
            "Exit code: ",
            r"Process name: \[\[\d+,\d+\],(?P<rank>\d{1,7})\]\s+Exit code: +(?P<exitcode>[1-9]\d*)(?P<host>)",
            before=1,
            fields=(("launcher", "mpirun"),),
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    explains=(Explains(("LG-310",)),),
    is_pointer=True,
    derive=derive_rank_host,
    recorded=(
        RecordedLog(
            "torchrun alone",
            (
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
                "  traceback : To enable traceback see: x\n"
                "============================================================\n"
                ""
            ),
        ),
        RecordedLog(
            "Lightning's child",
            (
                "[rank: 1] Child process with PID 4711 terminated with code 1. Forcefully "
                "terminating all other processes to avoid zombies 🧟"
            ),
        ),
    ),
)
