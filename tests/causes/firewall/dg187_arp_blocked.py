"""Cases of DG-187."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import ARP_TYPE, Change, add_interface_chain, together, unanswered
from causes.faults import BARE, PEER, VICTIM, Fault, at

CHANGES = {
    "arp dropped at the card": Change(
        UB, together(unanswered, add_interface_chain(ARP_TYPE, {"drop": None}))
    ),
    "arp dropped with all else": Change(
        UB, together(unanswered, add_interface_chain(policy="drop"))
    ),
}
FAULTS = (
    Fault(
        "arp-drop",
        BARE,
        at(
            VICTIM,
            "nft 'add table netdev fault; add chain netdev fault in"
            " { type filter hook ingress device eth1 priority 0; }'; nft add rule netdev fault in ether type arp drop\n"
            "ip neigh flush dev eth1",
            "nft delete table netdev fault",
        )
        + at(PEER, "ip neigh flush dev eth1", "true"),
        expect={"direction": "{victim} <-> {peer}", "peer": "{peer}"},
    ),
)
