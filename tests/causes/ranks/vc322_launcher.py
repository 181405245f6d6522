"""Cases of VC-322."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, Fault, edited

LAUNCHER = "/opt/fullmesh/bin/fullmesh-torchrun"
WATCHER = "/opt/fullmesh/lib/fullmesh_watch.py"
VERIFICATION = {
    "variable missing": started(("launch", LAUNCHER, "NNODES: parameter not set")),
    "watcher missing": started(("launch", WATCHER, "no such file")),
    "launcher cut": started(("launch", LAUNCHER, "is damaged: it starts nothing")),
}
FAULTS = (
    Fault(
        "job-env-line-missing",
        TUNED,
        edited("/etc/fullmesh/env", "sed -i /^NNODES=/d /etc/fullmesh/env"),
    ),
    *(
        Fault(
            "job-env-line-missing",
            TUNED,
            edited(path, f"head -c 100 /run/fault{path.replace('/', '_')} > {path}"),
            variant=variant,
            expect={"cause": "is damaged"},
        )
        for path, variant in ((LAUNCHER, "launcher"), (WATCHER, "watcher"))
    ),
)
