"""Cases of DG-128."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_variable
from causes.faults import TUNED, Fault, set_job_variable

CHANGES = {
    "master port": Change(UB, set_variable("MASTER_PORT", "29999")),
}
FAULTS = (Fault("master-port", TUNED, set_job_variable("MASTER_PORT=29999")),)
