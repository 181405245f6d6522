"""Cases of DG-156."""

from __future__ import annotations

from records import DIAGNOSED, World
from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, decided, ends, shut, survey, together
from causes.faults import BARE, LINK_OUT, MASTER, TUNED, VICTIM, WORKER, Fault, at
from fullmesh.verify.model import ClusterObservations

UB_ADDRESS = DIAGNOSED + "12"
TABLE_RULE = f"rule 32765: from {UB_ADDRESS} lookup 209"


def host_address(world: World) -> None:
    """The cluster address of ubuntu1 has full length, so its interface is attached to no network."""
    for card in survey(world)["interfaces"]:
        card["addresses"] = [
            one.replace(f"{UB_ADDRESS}/24", f"{UB_ADDRESS}/32") for one in card["addresses"]
        ]


CHANGES = {
    "astray": Change(UB, together(shut(), decided("answer", dev="tun0"))),
    "detour": Change(UB, decided("answer", dev="eth0", rule=TABLE_RULE)),
    "detour out": Change(UB, decided(dev="eth0", source=UB_ADDRESS)),
    "next hop": Change(UB, together(ends("no_route"), decided(dev="eth1", via="10.78.5.250"))),
}


def verify_detour(seen: ClusterObservations) -> None:
    """Every check of a verification passes."""
    world: World = {"nodes": seen.nodes}
    peer = seen.plan["nodes"][EL]["address"]
    decided("answer", peer=peer, dev="eth0", rule=TABLE_RULE)(world)


VERIFICATION = {"detour of a verification": verify_detour}
QUIET = {
    "a rule that leads to the same interface": decided("answer", dev="eth1", rule=TABLE_RULE),
    "a next hop on a link that works": decided(dev="eth1", via="10.78.5.250", source=UB_ADDRESS),
    "another interface for a mark that no rule sets": decided(dev="eth0", mark=16),
    "an address of full length": together(host_address, decided(dev="eth0")),
}
FAULTS = (
    *(
        Fault(
            "detour",
            lab,
            at(
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
        at(
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
        at(
            VICTIM,
            "ip link add fault type veth peer name fault1; ip link set fault up; ip link set fault1 up\n"
            "ip rule add pref 99 from $V_ADDR to $P_ADDR lookup 99; ip route add default dev fault table 99",
            "ip rule del pref 99; ip link del fault",
        ),
        expect=LINK_OUT,
    ),
)
