"""Cases of DG-140."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import (
    Break,
    Change,
    add_neighbor,
    block_links,
    block_reply_links,
    combine,
    get_node,
    get_survey,
    make_neighbor_learned,
    set_survey_part,
)
from causes.faults import ALL, BARE, OUTSIDE, Fault, make_step


def answer_for_peer(has_address: bool) -> Break:
    """Let el1 answer for ubuntu1's address. *held*: el1 has that address."""

    def change(world: World) -> None:
        (mac,) = [c["mac"] for c in get_survey(world, EL)["interfaces"] if c["name"] == "eth1"]
        get_survey(world)["duplicates"] = [mac]
        if has_address:
            address = world["plan"]["nodes"][UB]["address"]
            get_node(world, EL)["node"]["facts"]["addresses"][address] = "lo"

    return change


def skip_duplicate_check(world: World) -> None:
    """Let el1 fail to check its address for duplicates."""
    get_survey(world, EL).pop("duplicates", None)


CHANGES = {
    "duplicate": Change(UB, set_survey_part("duplicates", ["02:00:00:00:00:99"])),
    "duplicate of a node": Change(EL, combine(block_links(), answer_for_peer(has_address=True))),
    "duplicate by a proxy": Change(EL, combine(block_links(), answer_for_peer(has_address=False))),
    "neighbour of before, or a machine that only ubuntu1 hears": Change(
        EL,
        combine(
            block_reply_links("dropped"), add_neighbor, make_neighbor_learned, skip_duplicate_check
        ),
    ),
}
FAULTS = (
    Fault(
        "duplicate",
        BARE,
        # Undone last: the peer may have learned the other machine's hardware address, and keeps using it.
        make_step(ALL, "true", "ip neigh flush dev eth1")
        + make_step(
            OUTSIDE,
            "ip netns add fault$INDEX\n"
            "ip link add fault$INDEX type veth peer name eth1 netns fault$INDEX\n"
            "ip link set fault$INDEX master $BRIDGE up\n"
            "ip -n fault$INDEX link set eth1 up; ip -n fault$INDEX addr add $V_ADDR/24 dev eth1",
            # delete the cable first, because the kernel removes a deleted namespace with a delay
            "ip link del fault$INDEX; ip netns del fault$INDEX",
        ),
        expect={"peer": "{peer}"},
    ),
)
