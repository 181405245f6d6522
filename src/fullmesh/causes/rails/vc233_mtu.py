"""The MTU of a rail's interface is not the planned one

RDMA takes its packet size from the interface's MTU (4200 or more for packets of 4096 bytes). With
different MTUs at both ends, the receiver drops packets that are too large for it. Firmware updates
and profiles of NetworkManager reset the MTU of single NICs to 1500.

**Prove:** ip -br link && ibv_devinfo | grep active_mtu

**Fix:** Run site.yml with --tags network on all nodes.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_links

CAUSE = Cause(
    "VC-233",
    __doc__,
    # found by VC-231
    weight=350,
    explains=(Explains(("VC-228",), has_same_links),),
    cases=(CauseCase("rail-mtu", "ip link set mtu 1500 on one interface of a rail", by=RECORDED),),
)
