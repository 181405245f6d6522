"""Cases of VC-109."""

from __future__ import annotations

from verify_changes import hold_port

from causes.faults import LISTEN, MASTER, TUNED, Fault, python, service

VERIFICATION = {
    "master port taken": hold_port,
}
FAULTS = (
    Fault("port-taken", TUNED, service(python(LISTEN)), victim=MASTER, expect={"port": "29500"}),
)
