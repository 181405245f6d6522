"""Cases of DG-141."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, block_links, get_node, get_survey
from causes.faults import BARE, VICTIM, Fault, make_step, set_sysctl


def filter_reverse_path(world: World) -> None:
    block_links()(world)
    for card in get_survey(world)["interfaces"]:
        card["rp_filter"] = "1"
    get_survey(world)["routes"]["10.78.5.11"]["dev"] = "eth0"
    get_node(world)["started"]["listeners"]["counters"]["TcpExt.IPReversePathFilter"] = 9


CHANGES = {
    "rp filter": Change(UB, filter_reverse_path),
}
RECORDED = {"rp-filter": UB}
FAULTS = (
    Fault(
        "rp-filter",
        BARE,
        set_sysctl("net.ipv4.conf.eth1.rp_filter=1")
        + make_step(
            VICTIM,
            "ip route add $P_ADDR via $P_MGMT dev eth0 src $V_ADDR",
            "ip route del $P_ADDR via $P_MGMT dev eth0",
        ),
    ),
)
