"""Shared memory (/dev/shm) is full

{Who} died of SIGBUS, or could not create a semaphore: /dev/shm is too small (containers have 64 MB)
for DataLoader workers or NCCL, or files of killed jobs fill it.

**Place:** {who}

**Prove:** in the job's container: df -h /dev/shm && ls /dev/shm

**Fix:** Start the container with --shm-size=8g or --ipc=host. In Kubernetes, mount an emptyDir with
medium Memory at /dev/shm. Delete the files of dead processes there.

**Source:** NVIDIA/nccl#290, #525, flagos-ai/FlagGems#6304, tahoebio/tahoe-x1#63, and the
DataLoader's own message, which names shared memory
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.launch.patterns import (
    build_crash_patterns,
    build_signal_patterns,
    derive_rank_host,
)
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern, RecordedLog

UNNAMED = "(?P<rank>)(?P<host>)"
CAUSE = LogCause(
    "LG-306",
    __doc__,
    examples=(
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
        Pattern(
            "insufficient shared memory (shm)", f"{UNNAMED}Unexpected bus error encountered in"
        ),
        Pattern(
            "No space left on device",
            rf"{UNNAMED}(?:unable to write to file </torch_[^>]{{1,80}}>: No space left on device"
            r"|\[Errno 28\] No space left on device: '/dev/shm/)",
        ),
        # Python's semaphores are files of /dev/shm, so the error looks like that of a full disk
        Pattern(
            "No space left on device",
            rf"{UNNAMED}(?:_multiprocessing\.SemLock|_posixshmem\.shm_open)\(.{{0,400}}\[Errno 28\]",
            before=4,
        ),
        Pattern(
            "unable to write to file </torch_",
            UNNAMED + r"unable to write to file </torch_[^>]{1,80}>\s*$",
        ),
        Pattern(
            "unable to allocate shared memory",
            UNNAMED + r"unable to allocate shared memory\(shm\) for file <[^>]{1,80}>: No space",
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    derive=derive_rank_host,
    weight=84,
    recorded=(
        RecordedLog(
            "the data loader suspects it",
            (
                "ERROR: Unexpected bus error encountered in worker. This might be caused by "
                "insufficient shared memory (shm)."
            ),
        ),
        RecordedLog(
            "a semaphore does not fit",
            (
                "Traceback (most recent call last):\n"
                '  File "/usr/lib/python3.10/multiprocessing/synchronize.py", line 57, in __init__\n'
                "    sl = self._semlock = _multiprocessing.SemLock(\n"
                "OSError: [Errno 28] No space left on device"
            ),
        ),
        RecordedLog(
            "a launcher that prints torch's ProcessFailure",
            (
                "The worker fails with {0: ProcessFailure(local_rank=0, pid=54, exitcode=-7, "
                "error_file='<N/A>', message='Signal 7 (SIGBUS) received by PID 54')}"
            ),
        ),
        RecordedLog(
            "text-generation-inference",
            "Error: Download process was signaled to shutdown with signal 7",
        ),
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
