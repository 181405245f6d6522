"""Cases of DG-189."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, survey, together, variable
from causes.faults import BARE, VICTIM, Fault, at, login_variable
from fullmesh.result.findings import ERROR, WARNING


def own_network(world: World) -> None:
    """ubuntu1 has an interface with a network that no other node has."""
    cards = survey(world)["interfaces"]
    cards.append({**cards[-1], "name": "storage0", "index": 99, "addresses": ["10.99.0.1/24"]})


CHANGES = {
    "gloo on the management network": Change(
        UB, variable("GLOO_SOCKET_IFNAME", "eth0"), severity=WARNING
    ),
    "gloo on an own network": Change(
        UB, together(own_network, variable("GLOO_SOCKET_IFNAME", "storage0")), severity=ERROR
    ),
}
FAULTS = (
    Fault(
        "gloo-other-interface", BARE, login_variable("GLOO_SOCKET_IFNAME=eth0"), severity=WARNING
    ),
    Fault(
        "gloo-unreachable",
        BARE,
        at(
            VICTIM,
            "ip link add storage0 type bridge; ip addr add 10.99.0.1/24 dev storage0; ip link set storage0 up",
            "ip link del storage0",
        )
        + login_variable("GLOO_SOCKET_IFNAME=storage0"),
    ),
)
