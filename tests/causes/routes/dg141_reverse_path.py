"""Cases of DG-141."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, node, shut, survey
from causes.faults import BARE, VICTIM, Fault, at, sysctl


def reverse_path(world: World) -> None:
    shut()(world)
    for card in survey(world)["interfaces"]:
        card["rp_filter"] = "1"
    survey(world)["routes"]["10.78.5.11"]["dev"] = "eth0"
    node(world)["started"]["listeners"]["counters"]["TcpExt.IPReversePathFilter"] = 9


CHANGES = {
    "rp filter": Change(UB, reverse_path),
}
RECORDED = {"rp-filter": UB}
FAULTS = (
    Fault(
        "rp-filter",
        BARE,
        sysctl("net.ipv4.conf.eth1.rp_filter=1")
        + at(
            VICTIM,
            "ip route add $P_ADDR via $P_MGMT dev eth0 src $V_ADDR",
            "ip route del $P_ADDR via $P_MGMT dev eth0",
        ),
    ),
)
