"""The shared memory in /dev/shm is full or too small

NCCL, UCX, MPI or vLLM could not create its shared memory in /dev/shm{detail}. Containers get 64 MB by
default.

**Place:** the node of this log, inside the job's container

**Prove:** in the container, run `df -h /dev/shm` and `ls -l /dev/shm | head` (nccl-* files may be
left from ended jobs)

**Fix:** Start the container with --shm-size=8g or --ipc=host. On Kubernetes, mount an emptyDir with
medium Memory at /dev/shm. Remove old nccl-* files.

**Source:** NVIDIA/nccl#290, #342, #525
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-414",
    __doc__,
    examples=(
        (
            "node1:202016:202235 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend "
            "/dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)"
        ),
    ),
    patterns=(
        Pattern(
            "failed to extend /dev/shm",
            r"failed to extend /dev/shm/\S{1,40}(?P<detail> to \d+ bytes)",
        ),
        Pattern(
            "while creating shared memory segment",
            r"while creating shared memory segment \S{1,60}(?P<detail> \(size \d+\))",
        ),
        Pattern(
            "posix_fallocate failed",
            r"posix_fallocate failed : No space left on device(?P<detail>)",
        ),
        Pattern(
            "failed to allocate receive FIFO",
            r"mm_iface.{0,40}failed to allocate receive FIFO(?P<detail>)",
        ),
        Pattern(
            "shared memory backing file",
            r"enough space for (?:the |a )?shared memory backing file(?P<detail>)",
        ),
        Pattern(
            "Not enough memory to write",
            r"Not enough memory to write total of \d{1,20} bytes(?P<detail>)",
        ),
        Pattern(
            "Insufficient space in /dev/shm",
            r"Insufficient space in /dev/shm for [\w -]{1,40}:"
            r"(?P<detail> [\d.]+ [KMG]iB required, [\d.]+ [KMG]iB free)",
        ),
    ),
    explains=(Explains(("LG-307",)),),
    weight=92,
    recorded=(
        RecordedLog(
            "shm",
            (
                "n:1:2 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend "
                "/dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on device (28)\n"
                "n:1:2 [0] misc/shmutils.cc:132 NCCL WARN Error while creating shared memory "
                "segment /dev/shm/nccl-WU88OE (size 9637888), error: No space left on device "
                "(28)"
            ),
        ),
        RecordedLog(
            "shm of vLLM",
            "RuntimeError: Insufficient space in /dev/shm for shared-memory allocation: 160 MiB required, 62 MiB free.",
        ),
    ),
)
