"""Cases of DG-127."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, master_addr
from causes.faults import BARE, TUNED, Fault, job_variable, login_variable

CHANGES = {
    "unknown": Change(UB, master_addr("no-such-node")),
}
FAULTS = (
    Fault("master-unknown", TUNED, job_variable("MASTER_ADDR=no-such-node")),
    Fault("master-unknown", BARE, login_variable("MASTER_ADDR=no-such-node"), "bare"),
)
