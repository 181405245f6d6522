"""Harmless: Ray's object store does not fit into /dev/shm

Ray keeps its objects in /tmp because /dev/shm is too small. This is slower if processes exchange
much data.

**Prove:** df -h /dev/shm

**Fix:** Enlarge /dev/shm (in a container: --shm-size), or lower --object-store-memory.

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-960",
    __doc__,
    examples=(
        (
            "WARNING: The object store is using /tmp/ray instead of /dev/shm because /dev/shm "
            "has only 65536000 bytes available. This will harm performance!"
        ),
    ),
    patterns=(Pattern("instead of /dev/shm because /dev/shm has only"),),
    severity=Severity.HARMLESS,
    recorded=(
        RecordedLog(
            "ray with a small /dev/shm",
            (
                "2026-11-24 21:22:10,098\tWARNING services.py:2248 -- WARNING: The object store "
                "is using /tmp/ray instead of /dev/shm because /dev/shm has only 65536000 "
                "bytes available. This will harm performance!"
            ),
            heads=(),
            harmless=("LG-960",),
        ),
    ),
)
