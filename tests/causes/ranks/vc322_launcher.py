"""Cases of VC-322."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, Fault, edit_file

LAUNCHER = "/opt/fullmesh/bin/fullmesh-torchrun"
WATCHER = "/opt/fullmesh/lib/fullmesh_watch.py"
VERIFICATION = {
    "variable missing": fail_job_start(("launch", LAUNCHER, "NNODES: parameter not set")),
    "watcher missing": fail_job_start(("launch", WATCHER, "no such file")),
    "launcher cut": fail_job_start(("launch", LAUNCHER, "is damaged: it starts nothing")),
}
FAULTS = (
    Fault(
        "job-env-line-missing",
        TUNED,
        edit_file("/etc/fullmesh/env", "sed -i /^NNODES=/d /etc/fullmesh/env"),
    ),
    *(
        Fault(
            "job-env-line-missing",
            TUNED,
            edit_file(path, f"head -c 100 /run/fault{path.replace('/', '_')} > {path}"),
            variant=variant,
            expect={"cause": "is damaged"},
        )
        for path, variant in ((LAUNCHER, "launcher"), (WATCHER, "watcher"))
    ),
)
