"""Cases of DG-156."""

from __future__ import annotations

from records import DIAGNOSED, World
from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, block_links, block_reply_links, change_route, combine, get_survey
from causes.faults import BARE, LINK_OUT, MASTER, TUNED, VICTIM, WORKER, Fault, make_step
from fullmesh.verify.model import ClusterObservations

UB_ADDRESS = DIAGNOSED + "12"
TABLE_RULE = f"rule 32765: from {UB_ADDRESS} lookup 209"


def set_host_address(world: World) -> None:
    """Give ubuntu1's cluster address its full length, so that no network belongs to its interface."""
    for card in get_survey(world)["interfaces"]:
        card["addresses"] = [
            one.replace(f"{UB_ADDRESS}/24", f"{UB_ADDRESS}/32") for one in card["addresses"]
        ]


CHANGES = {
    "astray": Change(UB, combine(block_links(), change_route("answer", dev="tun0"))),
    "detour": Change(UB, change_route("answer", dev="eth0", rule=TABLE_RULE)),
    "detour out": Change(UB, change_route(dev="eth0", source=UB_ADDRESS)),
    "next hop": Change(
        UB, combine(block_reply_links("no_route"), change_route(dev="eth1", via="10.78.5.250"))
    ),
}


def pass_all_checks(seen: ClusterObservations) -> None:
    """Let all checks of a verification pass."""
    world: World = {"nodes": seen.nodes}
    peer = seen.plan["nodes"][EL]["address"]
    change_route("answer", peer=peer, dev="eth0", rule=TABLE_RULE)(world)


VERIFICATION = {"detour of a verification": pass_all_checks}
QUIET = {
    "a rule that leads to the same interface": change_route("answer", dev="eth1", rule=TABLE_RULE),
    "a next hop on a link that works": change_route(
        dev="eth1", via="10.78.5.250", source=UB_ADDRESS
    ),
    "another interface for a mark that no rule sets": change_route(dev="eth0", mark=16),
    "an address of full length": combine(set_host_address, change_route(dev="eth0")),
}
FAULTS = (
    *(
        Fault(
            "detour",
            lab,
            make_step(
                VICTIM,
                "ip route add default dev eth0 table 209; ip rule add from $V_ADDR lookup 209",
                "ip rule del from $V_ADDR lookup 209; ip route flush table 209",
            ),
            severity="" if lab == TUNED else "warning",
            victim=victim,
            expect=LINK_OUT,
        )
        for lab, victim in ((TUNED, WORKER), (BARE, MASTER))
    ),
    Fault(
        "detour",
        TUNED,
        make_step(
            VICTIM,
            "ip route add $P_ADDR via $P_MGMT dev eth0 src $V_ADDR",
            "ip route del $P_ADDR via $P_MGMT dev eth0",
        ),
        "route",
        MASTER,
        expect=LINK_OUT,
    ),
    Fault(
        "astray",
        BARE,
        make_step(
            VICTIM,
            "ip link add fault type veth peer name fault1; ip link set fault up; ip link set fault1 up\n"
            "ip rule add pref 99 from $V_ADDR to $P_ADDR lookup 99; ip route add default dev fault table 99",
            "ip rule del pref 99; ip link del fault",
        ),
        expect=LINK_OUT,
    ),
)
