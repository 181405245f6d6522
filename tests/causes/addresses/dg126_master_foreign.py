"""Cases of DG-126."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, master_addr
from causes.faults import TUNED, Fault, job_variable

CHANGES = {
    "nobody": Change(UB, master_addr("10.78.5.99", "10.78.5.99")),
    "another node": Change(UB, master_addr("10.78.5.12", "10.78.5.12")),
}
FAULTS = (Fault("master-nobody", TUNED, job_variable("MASTER_ADDR=${P_ADDR%.*}.199")),)
