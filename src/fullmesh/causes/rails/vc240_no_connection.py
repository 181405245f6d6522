"""Two nodes have no connection over a rail

Addresses, routes and rules of both nodes are right, and packets are lost nevertheless. The reason
is outside of the two kernels: a cable, the VLAN of a switch port, an ACL, or a NIC.

**Prove:** ping -I ADDRESS PEER

**Fix:** Check the cable and the configuration of both switch ports.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.rails.ends import has_same_rail

CAUSE = Cause(
    "VC-240",
    __doc__,
    # found by VC-231
    weight=600,
    explains=(Explains(("VC-223", "VC-224"), has_same_rail),),
    cases=(
        CauseCase("rail-silent", "a bridge between both ends that drops all frames", by=RECORDED),
    ),
)
