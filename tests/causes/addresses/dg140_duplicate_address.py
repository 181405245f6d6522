"""Cases of DG-140."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import (
    Break,
    Change,
    by_hand,
    ends,
    learnt_once,
    node,
    put,
    shut,
    survey,
    together,
)
from causes.faults import ALL, BARE, OUTSIDE, Fault, at


def taken(held: bool) -> Break:
    """el1 answers for ubuntu1's address; *held*: because it has it, else for some other reason."""

    def change(world: World) -> None:
        (mac,) = [c["mac"] for c in survey(world, EL)["interfaces"] if c["name"] == "eth1"]
        survey(world)["duplicates"] = [mac]
        if held:
            address = world["plan"]["nodes"][UB]["address"]
            node(world, EL)["node"]["facts"]["addresses"][address] = "lo"

    return change


def not_asked_for_duplicates(world: World) -> None:
    """el1 could not ask the wire who else has its address."""
    survey(world, EL).pop("duplicates", None)


CHANGES = {
    "duplicate": Change(UB, put("duplicates", ["02:00:00:00:00:99"])),
    "duplicate of a node": Change(EL, together(shut(), taken(held=True))),
    "duplicate by a proxy": Change(EL, together(shut(), taken(held=False))),
    "neighbour of before, or a machine that only ubuntu1 hears": Change(
        EL, together(ends("dropped"), by_hand, learnt_once, not_asked_for_duplicates)
    ),
}
FAULTS = (
    Fault(
        "duplicate",
        BARE,
        # Undone last: the peer may have learnt the other machine's address for the victim's, and keeps to it.
        at(ALL, "true", "ip neigh flush dev eth1")
        + at(
            OUTSIDE,
            "ip netns add fault$INDEX\n"
            "ip link add fault$INDEX type veth peer name eth1 netns fault$INDEX\n"
            "ip link set fault$INDEX master $BRIDGE up\n"
            "ip -n fault$INDEX link set eth1 up; ip -n fault$INDEX addr add $V_ADDR/24 dev eth1",
            # the cable at once: the kernel clears a namespace some time after it was deleted
            "ip link del fault$INDEX; ip netns del fault$INDEX",
        ),
        expect={"peer": "{peer}"},
    ),
)
