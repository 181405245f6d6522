"""a node sends to a peer over another card than the cluster's

A rule or a more specific route sends what is for the peer, or only the answers to it, over another card. The peer
drops what comes from there, or it never arrives: both ends look healthy, no firewall counts anything.

**Prove:** ip route get PEER from OWN; ip rule; ip route show table all

**Fix:** Take the rule or the route away, or give the other network a way to the peer as well.

**Source:** measured: ip rule from OWN lookup TABLE
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-156",
    __doc__,
    weight=960,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase(
            "astray",
            "ip rule from the node's own address to a table whose route leaves over another card",
            fields=LINK,
        ),
    ),
)
