"""A node has a wrong hardware address for a peer on a rail

Packets go to the wrong NIC. By default, Linux answers ARP requests for all its addresses on all
interfaces, so with two rails at one switch the wrong NIC may answer first (arp_ignore=1 prevents
it). Hardware drops RDMA packets for an address that is not its own. A static entry stays wrong
after a NIC was replaced.

**Prove:** ip neigh show PEER nud all, and on the peer: ip -br link

**Fix:** Run site.yml with --tags tuning. Delete static entries: ip neigh del PEER dev INTERFACE.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.rails.ends import has_same_rail

CAUSE = Cause(
    "VC-236",
    __doc__,
    # found by VC-231
    weight=645,
    explains=(Explains(("VC-223", "VC-224"), has_same_rail),),
    cases=(
        CauseCase(
            "rail-neighbour",
            "a static neighbour entry, or arp_ignore=0 with rails at one switch",
            by=RECORDED,
        ),
    ),
)
