"""Cases of DG-159."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_node
from causes.faults import ALL, BARE, Fault, make_step, set_login_variable


def copy_host_name(world: World) -> None:
    """Give ubuntu1 the host name of el1."""
    names = get_node(world, EL)["node"]["facts"]["names"]
    get_node(world)["node"]["facts"]["names"]["hostname"] = names["hostname"]
    for name in (EL, UB):
        get_node(world, name)["node"]["facts"]["boot"] = "one"


CHANGES = {
    "one host name": Change(UB, copy_host_name),
}
FAULTS = (
    Fault(
        "one-name",
        BARE,
        # Gloo's interface is set, so that the address of the name does not matter.
        set_login_variable("GLOO_SOCKET_IFNAME=eth1", ALL)
        + make_step(
            ALL,
            "hostname > /run/fault.name; hostname twins",
            "hostname $(cat /run/fault.name); rm /run/fault.name",
        ),
        expect={"peer": "{peer}"},
    ),
)
