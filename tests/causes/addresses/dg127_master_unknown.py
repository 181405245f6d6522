"""Cases of DG-127."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_master_address
from causes.faults import BARE, TUNED, Fault, set_job_variable, set_login_variable

CHANGES = {
    "unknown": Change(UB, set_master_address("no-such-node")),
}
FAULTS = (
    Fault("master-unknown", TUNED, set_job_variable("MASTER_ADDR=no-such-node")),
    Fault("master-unknown", BARE, set_login_variable("MASTER_ADDR=no-such-node"), "bare"),
)
