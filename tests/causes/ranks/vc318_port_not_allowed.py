"""Cases of VC-318."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import MASTER, TUNED, Fault, set_sysctl

VERIFICATION = {
    "port closed to the account": fail_job_start(("bind", "29500", "EACCES")),
}
FAULTS = (
    Fault(
        "job-port-privileged",
        TUNED,
        set_sysctl("net.ipv4.ip_unprivileged_port_start=30000"),
        victim=MASTER,
    ),
)
