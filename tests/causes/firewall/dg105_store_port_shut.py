"""Cases of DG-105."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_node
from causes.faults import BARE, LINK_IN, MASTER, Fault, add_firewall


def block_store(world: World) -> None:
    """Block ubuntu1's connections to the master's ports."""
    for name in (EL, UB):
        get_node(world, name)["node"]["tapped"] = False
    for record in get_node(world, UB)["links"]["links"]:
        if record["kind"] in ("master", "rendezvous"):
            record.update(verdict="dropped", reached="asked")


CHANGES = {
    "store shut": Change(EL, block_store),
}
FAULTS = (
    Fault(
        "store-drop",
        BARE,
        add_firewall("iifname eth1 tcp dport { 29400, 29500 } drop"),
        "both",
        MASTER,
        expect={**LINK_IN, "port": "29500"},
    ),
    Fault(
        "store-drop",
        BARE,
        add_firewall("iifname eth1 tcp dport 29500 drop"),
        "store",
        MASTER,
        expect={**LINK_IN, "port": "29500"},
    ),
)
