"""A rank died of SIGBUS: shared memory (/dev/shm) is full

{Who} died of SIGBUS: /dev/shm is too small (containers have 64 MB) for DataLoader workers or NCCL.

**Place:** {who}

**Prove:** in the job's container: df -h /dev/shm

**Fix:** Start the container with --shm-size=8g or --ipc=host. In Kubernetes, mount an emptyDir with
medium Memory at /dev/shm.

**Source:** NVIDIA/nccl#290, #525, and the DataLoader's own message, which names shared memory
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.launch.patterns import (
    build_crash_patterns,
    build_signal_patterns,
    derive_rank_host,
)
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-306",
    __doc__,
    looks=(
        (
            "  host      : node2\n"
            "  rank      : 1 (local_rank: 0)\n"
            "  exitcode  : -7 (pid: 14750)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 7 (SIGBUS) received by PID 14750"
        ),
        (
            "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is "
            "possible that dataloader's workers are out of shared memory."
        ),
    ),
    patterns=(
        *build_signal_patterns(7, "SIGBUS"),
        *build_crash_patterns(7, "SIGBUS"),
        Pattern("killed by signal: Bus error", r"(?P<rank>)(?P<host>)killed by signal: Bus error"),
    ),
    explains=(Explains(("LG-103", "LG-201", "LG-210", "LG-318", "LG-402", "LG-403", "LG-404")),),
    derive=derive_rank_host,
    weight=84,
    recorded=(
        RecordedLog(
            "sigbus",
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
                "  exitcode  : -7 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : Signal 7 (SIGBUS) received by PID 1\n"
                "============================================================\n"
                ""
            ),
        ),
    ),
)
