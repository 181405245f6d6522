"""Cases of VC-314."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import BARE, Fault, set_login_variable
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "library of torch missing": fail_job_start(
        (
            "load",
            "/opt/fullmesh/venv/lib/python3.12/site-packages/torch/lib/libtorch_python.so",
            "libgomp.so.1 => not found",
            "/etc/environment:3",
        )
    ),
}
FAULTS = (
    Fault(
        "job-preload",
        BARE,
        set_login_variable("LD_PRELOAD=/opt/nosuch/libhook.so"),
        severity=WARNING,
    ),
)
