"""Cases of DG-126."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_master_address
from causes.faults import TUNED, Fault, set_job_variable

CHANGES = {
    "nobody": Change(UB, set_master_address("10.78.5.99", "10.78.5.99")),
    "another node": Change(UB, set_master_address("10.78.5.12", "10.78.5.12")),
}
FAULTS = (Fault("master-nobody", TUNED, set_job_variable("MASTER_ADDR=${P_ADDR%.*}.199")),)
