"""Cases of VC-109."""

from __future__ import annotations

from verify_changes import hold_port

from causes.faults import LISTEN, MASTER, TUNED, Fault, make_python_command, run_service

VERIFICATION = {
    "master port taken": hold_port,
}
FAULTS = (
    Fault(
        "port-taken",
        TUNED,
        run_service(make_python_command(LISTEN)),
        victim=MASTER,
        expect={"port": "29500"},
    ),
)
