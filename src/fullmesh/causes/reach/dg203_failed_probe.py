"""the probe could not be started on a node

The node could be looked at, and its own connections were not tried; those to it were.

**Prove:** ansible -i INVENTORY NODE -m ping

**Fix:** See the message; run the diagnosis again.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "DG-203",
    __doc__,
    weight=300,
    cases=(
        CauseCase(
            "no-sender", "the probe could not be started", by=RECORDED, fields=("node", "seen")
        ),
    ),
)
