"""Cases of DG-192."""

from __future__ import annotations

from typing import Any

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World
from verify_changes import verdict

from causes.changes import (
    EL_ADDRESS,
    Break,
    Change,
    block_reply_links,
    combine,
    get_node,
    get_survey,
    set_survey_part,
)
from causes.faults import BARE, LINK_IN, LINK_OUT, MASTER, TUNED, VICTIM, Fault, make_step
from fullmesh.verify.model import ClusterObservations


def add_nat_rule(*expr: dict[str, Any], hook: str = "postrouting", name: str = UB) -> Break:
    """Add a chain of type nat with one rule."""

    def change(world: World) -> None:
        nft = get_survey(world, name)["nft"]
        place = {"family": "ip", "table": "nat", "handle": 1}
        kind = {"type": "nat", "hook": hook, "prio": 100, "policy": "accept"}
        nft["chains"].append({**place, "name": "c", **kind})
        nft["rules"].append({**place, "chain": "c", "handle": 7, "expr": list(expr)})

    return change


def match_field(field: str, value: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "ip", "field": field}}
    return {"match": {"op": "==", "left": left, "right": value}}


def make_prefix(address: str, length: int) -> dict[str, Any]:
    return {"prefix": {"addr": address, "len": length}}


def change_seen_source(address: str) -> Break:
    """Let el1 see another source address in ubuntu1's connections."""

    def change(world: World) -> None:
        for record in get_node(world)["links"]["links"]:
            record.update(
                verdict="wrong_source",
                source=address,
                remark=f"open, the source address was {address}",
            )

    return change


SNAT = {"snat": {"addr": "10.78.99.99"}}
MASQUERADE = {"masquerade": None}
DOCKER = (
    match_field("saddr", make_prefix("172.17.0.0", 16)),
    {"counter": {"packets": 0, "bytes": 0}},
)
OLD = [
    "*nat",
    ":PREROUTING ACCEPT [0:0]",
    ":INPUT ACCEPT [0:0]",
    ":OUTPUT ACCEPT [0:0]",
    ":POSTROUTING ACCEPT [0:0]",
    "-A POSTROUTING -d 10.78.0.0/16 -o eth1 -j SNAT --to-source 10.78.99.99",
]
CHANGES = {
    "snat": Change(UB, combine(add_nat_rule(SNAT), block_reply_links("dropped"))),
    "snat to an own address": Change(
        UB,
        combine(add_nat_rule({"snat": {"addr": "10.77.1.12"}}), change_seen_source("10.77.1.12")),
    ),
    "snat of some networks": Change(
        UB,
        combine(
            add_nat_rule(match_field("daddr", make_prefix("10.78.0.0", 16)), SNAT),
            block_reply_links("dropped"),
        ),
    ),
    "snat of incoming packets": Change(
        EL, combine(add_nat_rule(SNAT, hook="input", name=EL), change_seen_source("10.78.99.99"))
    ),
    "snat of the old iptables": Change(
        UB, combine(set_survey_part("legacy_rules", {"ip": OLD}), block_reply_links("dropped"))
    ),
}


def drop_verified_replies(seen: ClusterObservations) -> None:
    """Leave the packets of ubuntu1 unanswered."""
    add_nat_rule(SNAT)({"nodes": seen.nodes})
    verdict("dropped", UB, EL)(seen)


VERIFICATION = {"snat of a verification": drop_verified_replies}
QUIET = {
    "masquerade of containers": add_nat_rule(*DOCKER, MASQUERADE),
    "snat to other networks": add_nat_rule(
        match_field("daddr", make_prefix("192.0.2.0", 24)), SNAT
    ),
    "masquerade of everything, to the same address": add_nat_rule(MASQUERADE),
    "old tables without rules": set_survey_part("legacy_rules", {"ip": OLD[:-1]}),
    "snat after an exception for the peers": combine(
        add_nat_rule(match_field("daddr", EL_ADDRESS), {"accept": None}),
        add_nat_rule(SNAT, hook="input"),
    ),
}


NFT = (
    'nft "add table ip fault; add chain ip fault c {{ type nat hook {hook} priority {prio}; }};'
    ' add rule ip fault c {rule}"'
)
GONE = "nft delete table ip fault"


def make_nat_step(rule: str, hook: str = "postrouting", prio: int = 100) -> Any:
    """Add such a chain with one rule on the victim."""
    return make_step(VICTIM, NFT.format(hook=hook, prio=prio, rule=rule), GONE)


FAULTS = (
    Fault("snat", TUNED, make_nat_step("oifname eth1 snat to 192.0.2.7"), expect=LINK_OUT),
    Fault("snat", TUNED, make_nat_step("snat to $V_MGMT"), "own", expect=LINK_OUT),
    Fault(
        "snat",
        BARE,
        make_nat_step("ip daddr $P_ADDR snat to 192.0.2.7"),
        victim=MASTER,
        expect=LINK_OUT,
    ),
    Fault(
        "snat",
        BARE,
        make_nat_step("ip daddr $P_ADDR tcp dport $FIRST-$LAST snat to $V_MGMT"),
        "own",
        expect=LINK_OUT,
    ),
    Fault("snat-in", BARE, make_nat_step("snat to 192.0.2.7", "input"), expect=LINK_IN),
)
