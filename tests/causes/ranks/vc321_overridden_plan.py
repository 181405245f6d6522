"""Cases of VC-321."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, Fault, set_login_variable

VERIFICATION = {
    "gloo interface of the login": fail_job_start(
        command={"GLOO_SOCKET_IFNAME": "eth0"}, file={"GLOO_SOCKET_IFNAME": "eth1"}
    ),
    "master of the profile": fail_job_start(
        login={"MASTER_PORT": "29600"},
        file={"MASTER_PORT": "29500"},
        sources={"MASTER_PORT": "/etc/profile.d/site.sh:3"},
    ),
}
FAULTS = (
    Fault("login-overrides-plan", TUNED, set_login_variable("GLOO_SOCKET_IFNAME=eth0")),
    Fault("login-overrides-plan", TUNED, set_login_variable("MASTER_PORT=29600"), variant="port"),
)
