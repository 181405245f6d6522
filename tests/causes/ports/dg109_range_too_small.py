"""Cases of DG-109."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, change_sysctl
from causes.faults import BARE, MASTER, TUNED, Fault, set_sysctl

CHANGES = {
    "range small": Change(UB, change_sysctl("net.ipv4.ip_local_port_range", "50000 50009")),
}
FAULTS = (
    Fault("range-small", BARE, set_sysctl("net.ipv4.ip_local_port_range=50000 50009")),
    Fault(
        "range-small",
        TUNED,
        set_sysctl("net.ipv4.ip_local_port_range=50000 50009"),
        "tuned",
        MASTER,
    ),
)
