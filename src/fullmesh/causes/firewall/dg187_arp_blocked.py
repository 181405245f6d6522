"""a rule of a node's packet filter stops ARP

Before the first packet a node asks who has the peer's address (ARP, RFC 826). Chains of the family netdev, at the
card, and of the family arp see that; those for IP and TCP do not. Where nobody answers, both ends' rules are asked
what they do with it.

**Prove:** nft list tables; ip neigh show; arping -c 1 -I CARD PEER

**Fix:** Take the rule away, or let ARP through before it (netdev: ether type arp accept).

**Source:** nft(8), ARP ADDRESS FAMILY and NETDEV ADDRESS FAMILY
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path

CAUSE = Cause(
    "DG-187",
    __doc__,
    weight=940,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase(
            "arp-drop",
            "a chain of family netdev at the card drops ether type arp",
            fields=("node", "peer", "direction", "seen"),
        ),
    ),
)
