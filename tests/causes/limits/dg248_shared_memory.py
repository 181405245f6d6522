"""Cases of DG-248."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, put
from causes.faults import TUNED, VICTIM, Fault, at

CHANGES = {
    "shm": Change(UB, put("shm", {"size": 16 << 20, "free": 15 << 20})),
}
FAULTS = (
    Fault("shm", TUNED, at(VICTIM, "mount -t tmpfs -o size=16m fault /dev/shm", "umount /dev/shm")),
)
