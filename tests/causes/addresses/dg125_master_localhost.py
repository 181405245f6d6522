"""Cases of DG-125."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, master_addr
from causes.faults import TUNED, Fault, job_variable

CHANGES = {
    "localhost": Change(UB, master_addr("localhost", "127.0.0.1")),
}
FAULTS = (Fault("master-localhost", TUNED, job_variable("MASTER_ADDR=localhost")),)
