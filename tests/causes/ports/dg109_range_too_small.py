"""Cases of DG-109."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, setting
from causes.faults import BARE, MASTER, TUNED, Fault, sysctl

CHANGES = {
    "range small": Change(UB, setting("net.ipv4.ip_local_port_range", "50000 50009")),
}
FAULTS = (
    Fault("range-small", BARE, sysctl("net.ipv4.ip_local_port_range=50000 50009")),
    Fault(
        "range-small", TUNED, sysctl("net.ipv4.ip_local_port_range=50000 50009"), "tuned", MASTER
    ),
)
