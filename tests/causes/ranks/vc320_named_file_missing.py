"""Cases of VC-320."""

from __future__ import annotations

from causes.changes import started
from causes.faults import BARE, Fault, login_variable

VERIFICATION = {
    "topology file gone": started(
        ("path", "NCCL_TOPO_FILE", "/etc/nccl/gone.xml", "/etc/environment:1")
    ),
}
FAULTS = (Fault("job-topology-missing", BARE, login_variable("NCCL_TOPO_FILE=/etc/nccl/gone.xml")),)
