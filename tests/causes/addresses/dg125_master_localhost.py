"""Cases of DG-125."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_master_address
from causes.faults import TUNED, Fault, set_job_variable

CHANGES = {
    "localhost": Change(UB, set_master_address("localhost", "127.0.0.1")),
}
FAULTS = (Fault("master-localhost", TUNED, set_job_variable("MASTER_ADDR=localhost")),)
