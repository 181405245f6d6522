"""Cases of DG-180."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, node, shut, together


def thrown(reason: str, place: str, count: int = 12) -> Break:
    """The kernel of ubuntu1, which is no other node's, says why it threw packets away."""

    def change(world: World) -> None:
        node(world)["node"]["facts"]["boot"] = "its-own"
        held = node(world)["started"]["listeners"]
        held["drops"] = [{"reason": reason, "place": place, "count": count}]

    return change


CHANGES = {
    "the packet filter, by the kernel's word": Change(
        UB, together(shut(), thrown("NETFILTER_DROP", "nft_do_chain"))
    ),
    "frames for another card": Change(
        UB, together(shut(place="on_the_way"), thrown("OTHERHOST", "ip_rcv_core"))
    ),
}
