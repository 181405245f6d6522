"""A file system failed

A read or write failed ({detail}): the shared file system or the disk has a fault, or the server is
gone. A read-only file system may also be meant so: a container mounts the path read-only, or lacks
its mount and has a read-only root.

**Place:** the storage of the node of this log

**Prove:** on that node, run `dmesg -T | tail`, `df -h` and `mount`

**Fix:** Repair or remount the file system (for NFS: stale handles need a new mount). Then restart
the job from its last checkpoint. In a container, mount the path with write access (--bind, -v,
volumeMounts without readOnly).

**Source:** Center-for-AI-Innovation/LLMFlux#58, read: errno ESTALE, EIO, EROFS, ENOTCONN, ESHUTDOWN and EREMOTEIO
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-527",
    __doc__,
    examples=("OSError: [Errno 116] Stale file handle",),
    patterns=(
        Pattern("Stale file handle", r"(?P<detail>Stale (?:NFS )?file handle)"),
        Pattern("Input/output error", r"\[Errno 5\] (?P<detail>Input/output error)"),
        # FUSE, Lustre and NFS, whose servers or mounts are gone
        *(
            Pattern(words, rf"\[Errno {number}\] (?P<detail>{words})")
            for number, words in (
                (107, "Transport endpoint is not connected"),
                (108, "Cannot send after transport endpoint shutdown"),
                (121, "Remote I/O error"),
            )
        ),
        Pattern(
            "not responding",
            r"(?P<detail>nfs: server \S{1,80} not responding)",
        ),
        Pattern("Remounting filesystem read-only", r"(?P<detail>Remounting filesystem read-only)"),
        Pattern("LustreError", r"(?P<detail>LustreError: .{1,120} rc = -\d{1,4})"),
        Pattern("ead-only file system", r"(?:\[Errno 30\] |: )(?P<detail>Read-only file system)"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    yields=True,
    survivable=True,
    weight=86,
)
