"""Cases of DG-128."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, variable
from causes.faults import TUNED, Fault, job_variable

CHANGES = {
    "master port": Change(UB, variable("MASTER_PORT", "29999")),
}
FAULTS = (Fault("master-port", TUNED, job_variable("MASTER_PORT=29999")),)
