"""Cases of DG-121."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, variable
from causes.faults import TUNED, Fault, job_variable

CHANGES = {
    "ifname lo": Change(UB, variable("GLOO_SOCKET_IFNAME", "lo")),
}
FAULTS = (Fault("ifname-lo", TUNED, job_variable("GLOO_SOCKET_IFNAME=lo")),)
