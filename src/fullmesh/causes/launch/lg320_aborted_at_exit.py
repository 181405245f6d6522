"""A rank aborted while its program ended

A thread of the process still worked when the program ended, usually a Gloo thread that returned a
tensor. The rank aborted, but its results may be complete.

**Place:** the node of this log. On the other nodes, torchrun waits up to 300 s for it and ignores
SIGTERM

**Prove:** check whether the job's last output exists, or before the end: grep pt_gloo
/proc/PID/task/*/comm

**Fix:** End a finished rank with os._exit(0), after destroy_process_group() and all atexit work, as
examples/ddp.py does. References to the model keep Gloo's threads alive.

**Source:** pytorch/pytorch#190489. Measured: torch 2.13, 8 ranks on 2 CPUs that end right after a
collective, 5 of 8 jobs, 0 of 8 with os._exit
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-320",
    __doc__,
    examples=("terminate called without an active exception",),
    patterns=(Pattern("terminate called without an active exception"),),
    weight=56,
    recorded=(
        RecordedLog(
            "a thread of Gloo's at the end",
            (
                "terminate called without an active exception\n"
                "W1122 07:11:51.899000 6276 "
                "torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 6306 "
                "closing signal SIGTERM\n"
                "E1122 07:11:51.965000 6276 "
                "torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6) "
                "local_rank: 0 (pid: 6305) of binary: "
                "/opt/fullmesh/venvs/3e2e9377516239e8/bin/python\n"
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
                "Root Cause (first observed failure):\n"
                "[0]:\n"
                "  time      : 2026-11-22_07:11:51\n"
                "  host      : gpu-el1.lab.example\n"
                "  rank      : 0 (local_rank: 0)\n"
                "  exitcode  : -6 (pid: 6305)  (SIGABRT)\n"
                "  error_file: <N/A>\n"
                "  traceback : Signal 6 (SIGABRT) received by PID 6305\n"
                ""
            ),
            folded=("LG-308", "LG-310"),
        ),
    ),
)
