"""Cases of DG-159."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, node
from causes.faults import ALL, BARE, Fault, at, login_variable


def one_name(world: World) -> None:
    """ubuntu1 calls itself as el1 does, on one machine."""
    names = node(world, EL)["node"]["facts"]["names"]
    node(world)["node"]["facts"]["names"]["hostname"] = names["hostname"]
    for name in (EL, UB):
        node(world, name)["node"]["facts"]["boot"] = "one"


CHANGES = {
    "one host name": Change(UB, one_name),
}
FAULTS = (
    Fault(
        "one-name",
        BARE,
        # Gloo is told its card, so that where the name leads does not matter.
        login_variable("GLOO_SOCKET_IFNAME=eth1", ALL)
        + at(
            ALL,
            "hostname > /run/fault.name; hostname twins",
            "hostname $(cat /run/fault.name); rm /run/fault.name",
        ),
        expect={"peer": "{peer}"},
    ),
)
