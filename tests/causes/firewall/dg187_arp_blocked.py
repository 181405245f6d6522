"""Cases of DG-187."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import ARP_TYPE, Change, add_interface_chain, combine, remove_neighbors
from causes.faults import BARE, PEER, VICTIM, Fault, make_step

CHANGES = {
    "arp dropped at the card": Change(
        UB, combine(remove_neighbors, add_interface_chain(ARP_TYPE, {"drop": None}))
    ),
    "arp dropped with all else": Change(
        UB, combine(remove_neighbors, add_interface_chain(policy="drop"))
    ),
}
FAULTS = (
    Fault(
        "arp-drop",
        BARE,
        make_step(
            VICTIM,
            "nft 'add table netdev fault; add chain netdev fault in"
            " { type filter hook ingress device eth1 priority 0; }'; nft add rule netdev fault in ether type arp drop\n"
            "ip neigh flush dev eth1",
            "nft delete table netdev fault",
        )
        + make_step(PEER, "ip neigh flush dev eth1", "true"),
        expect={"direction": "{victim} <-> {peer}", "peer": "{peer}"},
    ),
)
