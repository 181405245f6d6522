"""The kernel drops packets that arrive on a rail

With rp_filter=1, the kernel drops a packet if it would send the answer by another interface. This
happens with several rails in one network, and with a route that leads to the peers by another
interface.

**Prove:** ip route get ADDRESS from PEER iif INTERFACE && nstat -az TcpExtIPReversePathFilter

**Fix:** Run site.yml with --tags tuning, which sets rp_filter to 2 (loose).
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.rails.ends import has_same_rail

CAUSE = Cause(
    "VC-235",
    __doc__,
    # found by VC-231
    weight=640,
    explains=(Explains(("VC-224",), has_same_rail),),
    cases=(
        CauseCase(
            "rail-reverse-path",
            "rp_filter=1 with a route to the peers by another interface",
            by=RECORDED,
        ),
    ),
)
