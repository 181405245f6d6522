"""Cases of VC-328."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, Fault, set_login_variable
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "a letter is missing": fail_job_start(
        ("name", "NCCL_SOCKET_IFNAM", "NCCL_SOCKET_IFNAME", "/etc/environment:1"),
        ("name", "GLOO_SOCKET_IFACE", "GLOO_SOCKET_IFNAME", "/etc/environment:2"),
    ),
}
FAULTS = (
    Fault(
        "job-variable-unread",
        TUNED,
        set_login_variable("GLOO_SOCKET_IFNAM=eth1"),
        severity=WARNING,
        expect={"cause": "jobs read GLOO_SOCKET_IFNAME"},
    ),
)
