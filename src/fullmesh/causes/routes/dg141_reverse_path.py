"""rp_filter drops what comes in by another way than it would go out

With rp_filter=1 the kernel drops a packet whose sender it would answer over another interface. Several NICs in one
network or a stray route are enough. It looks like a firewall that drops.

**Prove:** nstat -az TcpExtIPReversePathFilter; ip route get PEER

**Fix:** Fix the route, or set rp_filter=2 on the cluster interface.

**Source:** ip-sysctl.rst; measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-141",
    __doc__,
    weight=970,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-156"), is_return_path),),
    cases=(
        CauseCase(
            "rp-filter", "rp_filter=1 and a route to the peer over another interface", fields=LINK
        ),
    ),
)
