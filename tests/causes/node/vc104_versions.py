"""Cases of VC-104."""

from __future__ import annotations

from verify_changes import facts, nccl

from causes.faults import TUNED, VICTIM, Fault, make_step

DISTINFO = "/opt/fullmesh/venv/lib/python3.*/site-packages/torch-*.dist-info/METADATA"


VERIFICATION = {
    "other torch": lambda s: facts(s)["versions"].update(torch="2.12.0+cpu"),
    "other python": lambda s: facts(s)["versions"].update(python="3.12.1"),
    "other system nccl": lambda s: nccl(s, version="2.30.4"),
}
FAULTS = (
    Fault(
        "torch-version",
        TUNED,
        make_step(
            VICTIM,
            f"sed -i 's/^Version: .*/Version: 2.1.0/' {DISTINFO}",
            f"sed -i 's/^Version: .*/Version: 2.13.0/' {DISTINFO}",
        ),
    ),
)
