"""Cases of VC-322."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, Fault, edited

LAUNCHER = "/opt/fullmesh/bin/fullmesh-torchrun"
VERIFICATION = {
    "variable missing": started(("launch", LAUNCHER, "NNODES: parameter not set")),
    "watcher missing": started(("launch", "/opt/fullmesh/lib/fullmesh_watch.py", "no such file")),
}
FAULTS = (
    Fault(
        "job-env-line-missing",
        TUNED,
        edited("/etc/fullmesh/env", "sed -i /^NNODES=/d /etc/fullmesh/env"),
    ),
)
