"""Cases of DG-105."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, node
from causes.faults import BARE, LINK_IN, MASTER, Fault, wall


def store_shut(world: World) -> None:
    """ubuntu1 does not get through to the master's ports."""
    for name in (EL, UB):
        node(world, name)["node"]["tapped"] = False
    for record in node(world, UB)["links"]["links"]:
        if record["kind"] in ("master", "rendezvous"):
            record.update(verdict="dropped", reached="asked")


CHANGES = {
    "store shut": Change(EL, store_shut),
}
FAULTS = (
    Fault(
        "store-drop",
        BARE,
        wall("iifname eth1 tcp dport { 29400, 29500 } drop"),
        "both",
        MASTER,
        expect={**LINK_IN, "port": "29500"},
    ),
    Fault(
        "store-drop",
        BARE,
        wall("iifname eth1 tcp dport 29500 drop"),
        "store",
        MASTER,
        expect={**LINK_IN, "port": "29500"},
    ),
)
