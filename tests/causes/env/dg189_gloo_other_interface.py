"""Cases of DG-189."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, combine, get_survey, set_variable
from causes.faults import BARE, VICTIM, Fault, make_step, set_login_variable
from fullmesh.result.findings import ERROR, WARNING


def add_own_network(world: World) -> None:
    """Add an interface to ubuntu1, in a network that no other node has."""
    cards = get_survey(world)["interfaces"]
    cards.append({**cards[-1], "name": "storage0", "index": 99, "addresses": ["10.99.0.1/24"]})


CHANGES = {
    "gloo on the management network": Change(
        UB, set_variable("GLOO_SOCKET_IFNAME", "eth0"), severity=WARNING
    ),
    "gloo on an own network": Change(
        UB, combine(add_own_network, set_variable("GLOO_SOCKET_IFNAME", "storage0")), severity=ERROR
    ),
}
FAULTS = (
    Fault(
        "gloo-other-interface",
        BARE,
        set_login_variable("GLOO_SOCKET_IFNAME=eth0"),
        severity=WARNING,
    ),
    Fault(
        "gloo-unreachable",
        BARE,
        make_step(
            VICTIM,
            "ip link add storage0 type bridge; ip addr add 10.99.0.1/24 dev storage0; ip link set storage0 up",
            "ip link del storage0",
        )
        + set_login_variable("GLOO_SOCKET_IFNAME=storage0"),
    ),
)
