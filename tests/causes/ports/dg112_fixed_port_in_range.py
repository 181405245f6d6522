"""Cases of DG-112."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, set_variable
from causes.faults import ALL, MASTER, TUNED, Fault, set_job_variable

CHANGES = {
    "port in range": Change(EL, set_variable("MASTER_PORT", "50004", EL, UB)),
}
FAULTS = (
    Fault(
        "port-in-range",
        TUNED,
        set_job_variable("MASTER_PORT=50004", ALL),
        victim=MASTER,
        expect={"port": "50004"},
    ),
)
