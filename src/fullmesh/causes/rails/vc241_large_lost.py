"""Large packets are lost on a rail

Small packets arrive. A switch port between the nodes has a smaller MTU than both interfaces.

**Prove:** ping -M do -s 8972 -I ADDRESS PEER

**Fix:** Set one MTU on all switch ports of the rail. Jumbo frames need 9216 on many switches.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.rails.ends import has_same_rail

CAUSE = Cause(
    "VC-241",
    __doc__,
    # found by VC-231
    weight=610,
    explains=(Explains(("VC-225",), has_same_rail),),
    cases=(
        CauseCase(
            "rail-large-lost", "a bridge between both ends that drops large frames", by=RECORDED
        ),
    ),
)
