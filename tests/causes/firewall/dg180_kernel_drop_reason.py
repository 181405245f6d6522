"""Cases of DG-180."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, block_links, combine, get_node


def report_drops(reason: str, place: str, count: int = 12) -> Break:
    """Let ubuntu1's own kernel report the reason of dropped packets."""

    def change(world: World) -> None:
        get_node(world)["node"]["facts"]["boot"] = "its-own"
        held = get_node(world)["started"]["listeners"]
        held["drops"] = [{"reason": reason, "place": place, "count": count}]

    return change


CHANGES = {
    "the packet filter, by the kernel's word": Change(
        UB, combine(block_links(), report_drops("NETFILTER_DROP", "nft_do_chain"))
    ),
    "frames for another card": Change(
        UB, combine(block_links(place="on_the_way"), report_drops("OTHERHOST", "ip_rcv_core"))
    ),
}
