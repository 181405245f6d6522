"""Ray: the object store is full

Ray has no memory left for an object ({detail}). Its object store is in /dev/shm, or on a disk if
that is small, and objects that are still referenced stay in it.

**Place:** the node of this log

**Prove:** on that node: ray memory --stats-only; df -h /dev/shm /tmp

**Fix:** Give the container a larger /dev/shm (--shm-size), start Ray with a larger
--object-store-memory, free the disk to which it spills, or keep fewer objects in the program.

**Source:** read: Ray's exceptions.py and plasma store
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-618",
    __doc__,
    examples=(
        (
            "ray.exceptions.ObjectStoreFullError: Failed to put object ffff00 in object store because it is full. "
            "Object size is 1024 bytes."
        ),
    ),
    patterns=(
        Pattern("ObjectStoreFullError", r"(?P<detail>ObjectStoreFullError)"),
        Pattern("OutOfDiskError", r"exceptions\.(?P<detail>OutOfDiskError)"),
    ),
    weight=84,
)
