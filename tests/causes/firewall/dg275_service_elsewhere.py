"""Cases of DG-275."""

from __future__ import annotations

from records import EL1 as EL

from causes.changes import Change, served
from causes.faults import BARE, LINK_IN, Fault, python, service

CHANGES = {
    "service elsewhere": Change(EL, served("refused", "held")),
}
FAULTS = (
    Fault(
        "service-loopback",
        BARE,
        service(python("s = socket.create_server(('127.0.0.1', 8000))")),
        expect={**LINK_IN, "port": "8000"},
        variables={"fullmesh_services": [{"name": "api", "ports": [8000]}]},
    ),
)
