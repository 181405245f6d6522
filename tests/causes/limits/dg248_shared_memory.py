"""Cases of DG-248."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_survey_part
from causes.faults import TUNED, VICTIM, Fault, make_step

CHANGES = {
    "shm": Change(UB, set_survey_part("shm", {"size": 16 << 20, "free": 15 << 20})),
}
FAULTS = (
    Fault(
        "shm",
        TUNED,
        make_step(VICTIM, "mount -t tmpfs -o size=16m fault /dev/shm", "umount /dev/shm"),
    ),
)
