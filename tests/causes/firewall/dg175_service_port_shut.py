"""Cases of DG-175."""

from __future__ import annotations

from records import EL1 as EL

from causes.changes import Change, block_service
from causes.faults import BARE, LINK_IN, MASTER, Fault, add_firewall

CHANGES = {
    "service shut": Change(EL, block_service("dropped", "service")),
    "service that runs shut": Change(EL, block_service("rejected", "held")),
}
FAULTS = (
    Fault(
        "service-drop",
        BARE,
        add_firewall("iifname eth1 tcp dport 6379 drop"),
        "ray",
        MASTER,
        expect={**LINK_IN, "port": "6379"},
        variables={"fullmesh_services": ["ray"]},
    ),
)
