"""Cases of DG-112."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, variable
from causes.faults import ALL, MASTER, TUNED, Fault, job_variable

CHANGES = {
    "port in range": Change(EL, variable("MASTER_PORT", "50004", EL, UB)),
}
FAULTS = (
    Fault(
        "port-in-range",
        TUNED,
        job_variable("MASTER_PORT=50004", ALL),
        victim=MASTER,
        expect={"port": "50004"},
    ),
)
