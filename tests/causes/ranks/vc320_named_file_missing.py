"""Cases of VC-320."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import BARE, Fault, set_login_variable

VERIFICATION = {
    "topology file gone": fail_job_start(
        ("path", "NCCL_TOPO_FILE", "/etc/nccl/gone.xml", "/etc/environment:1")
    ),
}
FAULTS = (
    Fault("job-topology-missing", BARE, set_login_variable("NCCL_TOPO_FILE=/etc/nccl/gone.xml")),
)
