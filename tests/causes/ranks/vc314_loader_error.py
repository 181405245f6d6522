"""Cases of VC-314."""

from __future__ import annotations

from causes.changes import started
from causes.faults import BARE, Fault, login_variable
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "library of torch missing": started(
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
        "job-preload", BARE, login_variable("LD_PRELOAD=/opt/nosuch/libhook.so"), severity=WARNING
    ),
)
