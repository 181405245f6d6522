"""Cases of DG-121."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, set_variable
from causes.faults import TUNED, Fault, set_job_variable

CHANGES = {
    "ifname lo": Change(UB, set_variable("GLOO_SOCKET_IFNAME", "lo")),
}
FAULTS = (Fault("ifname-lo", TUNED, set_job_variable("GLOO_SOCKET_IFNAME=lo")),)
