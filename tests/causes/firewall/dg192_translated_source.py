"""Cases of DG-192."""

from __future__ import annotations

from typing import Any

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World
from verify_changes import verdict

from causes.changes import EL_ADDRESS, Break, Change, ends, node, put, survey, together
from causes.faults import BARE, LINK_IN, LINK_OUT, MASTER, TUNED, VICTIM, Fault, at
from fullmesh.verify.model import ClusterObservations


def nat(*expr: dict[str, Any], hook: str = "postrouting", name: str = UB) -> Break:
    """A chain of type nat with one rule."""

    def change(world: World) -> None:
        nft = survey(world, name)["nft"]
        place = {"family": "ip", "table": "nat", "handle": 1}
        kind = {"type": "nat", "hook": hook, "prio": 100, "policy": "accept"}
        nft["chains"].append({**place, "name": "c", **kind})
        nft["rules"].append({**place, "chain": "c", "handle": 7, "expr": list(expr)})

    return change


def match(field: str, value: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "ip", "field": field}}
    return {"match": {"op": "==", "left": left, "right": value}}


def prefix(address: str, length: int) -> dict[str, Any]:
    return {"prefix": {"addr": address, "len": length}}


def seen_as(address: str) -> Break:
    """el1 sees connections of ubuntu1 with another source address."""

    def change(world: World) -> None:
        for record in node(world)["links"]["links"]:
            record.update(
                verdict="wrong_source",
                source=address,
                remark=f"open, the source address was {address}",
            )

    return change


SNAT = {"snat": {"addr": "10.78.99.99"}}
MASQUERADE = {"masquerade": None}
DOCKER = (match("saddr", prefix("172.17.0.0", 16)), {"counter": {"packets": 0, "bytes": 0}})
OLD = [
    "*nat",
    ":PREROUTING ACCEPT [0:0]",
    ":INPUT ACCEPT [0:0]",
    ":OUTPUT ACCEPT [0:0]",
    ":POSTROUTING ACCEPT [0:0]",
    "-A POSTROUTING -d 10.78.0.0/16 -o eth1 -j SNAT --to-source 10.78.99.99",
]
CHANGES = {
    "snat": Change(UB, together(nat(SNAT), ends("dropped"))),
    "snat to an own address": Change(
        UB, together(nat({"snat": {"addr": "10.77.1.12"}}), seen_as("10.77.1.12"))
    ),
    "snat of some networks": Change(
        UB, together(nat(match("daddr", prefix("10.78.0.0", 16)), SNAT), ends("dropped"))
    ),
    "snat of incoming packets": Change(
        EL, together(nat(SNAT, hook="input", name=EL), seen_as("10.78.99.99"))
    ),
    "snat of the old iptables": Change(
        UB, together(put("legacy_rules", {"ip": OLD}), ends("dropped"))
    ),
}


def verify_snat(seen: ClusterObservations) -> None:
    """The packets of ubuntu1 get no answer."""
    nat(SNAT)({"nodes": seen.nodes})
    verdict("dropped", UB, EL)(seen)


VERIFICATION = {"snat of a verification": verify_snat}
QUIET = {
    "masquerade of containers": nat(*DOCKER, MASQUERADE),
    "snat to other networks": nat(match("daddr", prefix("192.0.2.0", 24)), SNAT),
    "masquerade of everything, to the same address": nat(MASQUERADE),
    "old tables without rules": put("legacy_rules", {"ip": OLD[:-1]}),
    "snat after an exception for the peers": together(
        nat(match("daddr", EL_ADDRESS), {"accept": None}), nat(SNAT, hook="input")
    ),
}


NFT = (
    'nft "add table ip fault; add chain ip fault c {{ type nat hook {hook} priority {prio}; }};'
    ' add rule ip fault c {rule}"'
)
GONE = "nft delete table ip fault"


def snat(rule: str, hook: str = "postrouting", prio: int = 100) -> Any:
    """Such a chain with one rule on the victim."""
    return at(VICTIM, NFT.format(hook=hook, prio=prio, rule=rule), GONE)


FAULTS = (
    Fault("snat", TUNED, snat("oifname eth1 snat to 192.0.2.7"), expect=LINK_OUT),
    Fault("snat", TUNED, snat("snat to $V_MGMT"), "own", expect=LINK_OUT),
    Fault("snat", BARE, snat("ip daddr $P_ADDR snat to 192.0.2.7"), victim=MASTER, expect=LINK_OUT),
    Fault(
        "snat",
        BARE,
        snat("ip daddr $P_ADDR tcp dport $FIRST-$LAST snat to $V_MGMT"),
        "own",
        expect=LINK_OUT,
    ),
    Fault("snat-in", BARE, snat("snat to 192.0.2.7", "input"), expect=LINK_IN),
)
