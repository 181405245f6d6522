"""Cases of DG-275."""

from __future__ import annotations

from records import EL1 as EL

from causes.changes import Change, block_service
from causes.faults import BARE, LINK_IN, Fault, make_python_command, run_service

CHANGES = {
    "service elsewhere": Change(EL, block_service("refused", "held")),
}
FAULTS = (
    Fault(
        "service-loopback",
        BARE,
        run_service(make_python_command("s = socket.create_server(('127.0.0.1', 8000))")),
        expect={**LINK_IN, "port": "8000"},
        variables={"fullmesh_services": [{"name": "api", "ports": [8000]}]},
    ),
)
