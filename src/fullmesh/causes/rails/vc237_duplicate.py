"""Two machines have the same address on a rail

Packets go to the machine that answered ARP last, so connections alternately work and fail.

**Prove:** arping -D -I INTERFACE ADDRESS

**Fix:** Remove the address from the other machine.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.rails.ends import has_same_rail

CAUSE = Cause(
    "VC-237",
    __doc__,
    # found by VC-231
    weight=652,
    explains=(Explains(("VC-223", "VC-224"), has_same_rail),),
    cases=(
        CauseCase(
            "rail-duplicate", "another namespace on the cable with the node's address", by=RECORDED
        ),
    ),
)
