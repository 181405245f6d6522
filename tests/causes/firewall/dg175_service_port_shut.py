"""Cases of DG-175."""

from __future__ import annotations

from records import EL1 as EL

from causes.changes import Change, served
from causes.faults import BARE, LINK_IN, MASTER, Fault, wall

CHANGES = {
    "service shut": Change(EL, served("dropped", "service")),
    "service that runs shut": Change(EL, served("rejected", "held")),
}
FAULTS = (
    Fault(
        "service-drop",
        BARE,
        wall("iifname eth1 tcp dport 6379 drop"),
        "ray",
        MASTER,
        expect={**LINK_IN, "port": "6379"},
        variables={"fullmesh_services": ["ray"]},
    ),
)
