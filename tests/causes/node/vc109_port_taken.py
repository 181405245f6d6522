"""Cases of VC-109."""

from __future__ import annotations

from causes.faults import LISTEN, MASTER, TUNED, Fault, python, service

FAULTS = (
    Fault("port-taken", TUNED, service(python(LISTEN)), victim=MASTER, expect={"port": "29500"}),
)
