"""A disk or a quota is full

A disk or quota is full ({detail}).

**Place:** the node of this log

**Prove:** run `df -h`, `df -i` and `quota -s`

**Fix:** Free space, or write checkpoints and logs to another disk.

**Source:** errno 28 and 122
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-505",
    __doc__,
    looks=("OSError: [Errno 28] No space left on device",),
    patterns=(
        Pattern(
            "No space left on device",
            (
                r"\A(?!.*(?:SemLock|shm_open)\()"
                r".*\[Errno 28\] (?P<detail>No space left on device)(?!.{0,80}/dev/shm)"
            ),
            before=4,
        ),
        Pattern("Disk quota exceeded", r"(?P<detail>Disk quota exceeded)"),
    ),
    weight=87,
    recorded=(
        RecordedLog(
            "disk",
            "OSError: [Errno 28] No space left on device",
        ),
    ),
)
