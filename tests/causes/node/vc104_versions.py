"""Cases of VC-104."""

from __future__ import annotations

from causes.faults import TUNED, VICTIM, Fault, at

DISTINFO = "/opt/fullmesh/venv/lib/python3.*/site-packages/torch-*.dist-info/METADATA"


FAULTS = (
    Fault(
        "torch-version",
        TUNED,
        at(
            VICTIM,
            f"sed -i 's/^Version: .*/Version: 2.1.0/' {DISTINFO}",
            f"sed -i 's/^Version: .*/Version: 2.13.0/' {DISTINFO}",
        ),
    ),
)
