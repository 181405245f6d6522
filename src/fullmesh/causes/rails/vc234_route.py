"""Packets of a rail leave by another interface

If several rails share a network, each needs a routing table and a rule for its own address. Without
them, the kernel sends all packets by the first interface. Then one NIC carries the traffic of all
rails, or the packets never arrive. RDMA needs a route by the rail's own interface.

**Prove:** ip route get PEER from ADDRESS && ip rule

**Fix:** Run site.yml with --tags network, which adds table and rule of each rail.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.rails.ends import has_same_rail

CAUSE = Cause(
    "VC-234",
    __doc__,
    # found by VC-231
    weight=650,
    explains=(Explains(("VC-223", "VC-224"), has_same_rail),),
    cases=(CauseCase("rail-route", "ip rule del of a rail's rule", by=RECORDED),),
)
