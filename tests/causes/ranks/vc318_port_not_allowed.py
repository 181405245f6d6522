"""Cases of VC-318."""

from __future__ import annotations

from causes.changes import started
from causes.faults import MASTER, TUNED, Fault, sysctl

VERIFICATION = {
    "port closed to the account": started(("bind", "29500", "EACCES")),
}
FAULTS = (
    Fault(
        "job-port-privileged",
        TUNED,
        sysctl("net.ipv4.ip_unprivileged_port_start=30000"),
        victim=MASTER,
    ),
)
