"""Evaluate a node's packet filter for a packet of a failed connection: the verdict, rule, chain and zone.

The rules are evaluated by ``fullmesh.netfilter``, as on the nodes. A match that cannot be decided
from the rules alone (a rate limit, a mark, a random number) counts as "does not match", and is
recorded as a doubt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fullmesh.netfilter.evaluator import (
    INPUT,
    OUTPUT,
    STOPPING,
    STOPS,
    Packet,
    PacketWalk,
    order_base_chains,
    parse_verdict,
)
from fullmesh.netfilter.ruleset import NftRule, Ruleset

ACCEPT, DROP, REJECT = "accept", "drop", "reject"
# How a rule that stops a packet is said.
VERBS = {DROP: "drops", REJECT: "rejects", "divert": "redirects"}
# Statements that decide nothing and say nothing about a rule.
SILENT = {"counter", "log", "mangle", "notrack", "set", "meter", "flow", "ct helper", "comment"}
# firewalld's chain of a zone, and the chains below it.
ZONE, ZONE_PARTS = (
    "filter_IN_",
    ("_pre", "_log", "_deny", "_allow", "_post", "POLICIES_pre", "POLICIES_post"),
)
# Chains of a policy, which a zone's chain calls: the packet's zone does not change.
POLICY = ZONE + "policy_"
SHOWN = 200
Key = tuple[str, str, str]


@dataclass(frozen=True)
class PacketVerdict:
    """The packet filter's verdict on a packet.

    Attributes:
        verdict: accept, drop, reject, or divert (sent elsewhere).
        table: with its family, ``inet firewalld``. Empty if no rule stopped the packet.
        chain: the chain of the rule.
        handle: of the rule. 0 for a chain's policy.
        text: the rule in a form close to nft's.
        reset: the rule rejects with a TCP reset.
        doubts: rules that stop some packets, but the rules alone do not tell which.
        zone: the firewalld zone whose chain the packet came through.
        sure: the rule certainly stops the packet. Otherwise it may, and the packet was stopped.
    """

    verdict: str
    table: str = ""
    chain: str = ""
    handle: int = 0
    text: str = ""
    reset: bool = False
    doubts: tuple[str, ...] = ()
    zone: str = ""
    sure: bool = True


def make_tcp_packet(
    source: str, target: str, port: int, interface: str, *, outgoing: bool = False
) -> Packet:
    """Make the first packet of a TCP connection.

    Args:
        source: the source address.
        target: the destination address.
        port: the destination port.
        interface: of the node whose rules apply.
        outgoing: it leaves that node.
    """
    family = "6" if ":" in target else "4"
    return Packet(family, source, target, "tcp", port, interface, outgoing)


def make_reply_packet(packet: Packet, port: int) -> Packet:
    """Make the reply to a packet, which leaves by the packet's interface. *port*: the packet's source port."""
    return packet._replace(
        saddr=packet.daddr,
        daddr=packet.saddr,
        dport=port,
        sport=packet.dport,
        outgoing=not packet.outgoing,
        state="established",
    )


def format_nft_value(value: Any) -> str:
    """Format a value of an expression, close to nft's own syntax."""
    if isinstance(value, list):
        return ", ".join(format_nft_value(one) for one in value[:8])
    if not isinstance(value, Mapping):
        return str(value)
    kind, inner = next(iter(value.items()), ("", None))
    if kind == "range" and isinstance(inner, list):
        return "-".join(format_nft_value(one) for one in inner)
    if kind == "set":
        return "{ " + format_nft_value(inner) + " }"
    return format_nft_mapping(kind, inner) if isinstance(inner, Mapping) else json.dumps(value)[:60]


def format_nft_mapping(kind: str, inner: Mapping[str, Any]) -> str:
    """Format an expression that has parts."""
    shown = {
        "prefix": f"{inner.get('addr')}/{inner.get('len')}",
        "payload": f"{inner.get('protocol')} {inner.get('field')}"
        if "field" in inner
        else f"@{inner.get('base')},{inner.get('offset')},{inner.get('len')}",
        "meta": f"meta {inner.get('key')}",
        "ct": f"ct {inner.get('key')}",
        "numgen": f"numgen {inner.get('mode')} mod {inner.get('mod')}",
    }
    return shown.get(kind, json.dumps(inner)[:60])


def format_nft_rule(rule: NftRule) -> str:
    """Format a rule in one line: that of iptables, if it is one of its rules."""
    if rule["line"].startswith("-A "):
        return rule["line"][:SHOWN]
    found = [rule["line"]] if rule["line"] else []
    for part in rule["expr"]:
        for name, inner in part.items():
            if name == "match" and isinstance(inner, Mapping):
                op = inner.get("op", "==")
                shown = "" if op in ("==", "in") else f"{op} "
                found.append(
                    f"{format_nft_value(inner.get('left'))} {shown}{format_nft_value(inner.get('right'))}"
                )
            elif name == "reject":
                how = inner if isinstance(inner, Mapping) else {}
                found.append(" ".join(["reject", *(str(v) for v in how.values())]))
            elif name in ("jump", "goto") and isinstance(inner, Mapping):
                found.append(f"{name} {inner.get('target')}")
            elif name not in SILENT:
                found.append(name)
    return " ".join(found)[:SHOWN]


def find_packet_zone(walk: PacketWalk) -> str:
    """Return the firewalld zone that the packet came through last."""
    names = [key[2] for key in walk.entered]
    zones = [
        name[len(ZONE) :]
        for name in names
        if name.startswith(ZONE) and not name.startswith(POLICY) and not name.endswith(ZONE_PARTS)
    ]
    return zones[-1] if zones else ""


def is_tcp_reset_rule(rule: NftRule) -> bool:
    """Return whether a rule rejects by a TCP reset."""
    held = [part["reject"] for part in rule["expr"] if "reject" in part]
    return any(isinstance(how, Mapping) and how.get("type") == "tcp reset" for how in held)


def list_hook_chains(ruleset: Ruleset, packet: Packet) -> list[Key]:
    """List the base chains that the packet passes, in order."""
    return order_base_chains(ruleset, packet, OUTPUT if packet.outgoing else INPUT)


def evaluate_packet(ruleset: Ruleset, packet: Packet) -> PacketVerdict:
    """Return the verdict on a packet. An accept names the last chain whose rule accepted, or "" if no rule matched."""
    walk = PacketWalk(ruleset, packet)
    by = ""
    for base in list_hook_chains(ruleset, packet):
        end = walk.base(base)
        if end.word in STOPPING and end.rule is not None:
            family, table, chain = end.key
            return PacketVerdict(
                end.word,
                f"{family} {table}",
                chain,
                end.rule["handle"] or 0,
                format_nft_rule(end.rule),
                is_tcp_reset_rule(end.rule),
                describe_doubtful_rules(walk),
                find_packet_zone(walk),
            )
        if end.word == ACCEPT and is_filter_hook(ruleset, base, packet):
            by = base[2]
    return PacketVerdict(
        ACCEPT, chain=by, doubts=describe_doubtful_rules(walk), zone=find_packet_zone(walk)
    )


def find_possible_stops(ruleset: Ruleset, packet: Packet) -> list[PacketVerdict]:
    """Return the rules that may stop the packet: by a rate, a mark, an account, its bytes, or a program's decision."""
    walk = PacketWalk(ruleset, packet)
    for base in list_hook_chains(ruleset, packet):
        walk.base(base)
    found = []
    for key, rule in walk.maybe:
        word = next((w for part in rule["expr"] if (w := parse_verdict(part)[0]) in STOPS), "drop")
        found.append(
            PacketVerdict(
                STOPS.get(word, word),
                f"{key[0]} {key[1]}",
                key[2],
                rule["handle"] or 0,
                format_nft_rule(rule),
                is_tcp_reset_rule(rule),
                zone=find_packet_zone(walk),
                sure=False,
            )
        )
    return found


def describe_doubtful_rules(walk: PacketWalk) -> tuple[str, ...]:
    """Describe the rules that may or may not stop the packet."""
    return tuple(format_nft_rule(rule) for _, rule in walk.maybe)


def is_filter_hook(ruleset: Ruleset, key: Key, packet: Packet) -> bool:
    """Return whether a base chain is at the input or output hook, at which a host's firewall decides."""
    return ruleset["chains"][key]["hook"] == ("output" if packet.outgoing else "input")


def is_accepted_by_table(ruleset: Ruleset, packet: Packet, table: str) -> bool:
    """Return whether a rule of the table accepts the packet. False if no rule matches."""
    chains = {
        key: chain for key, chain in ruleset["chains"].items() if f"{key[0]} {key[1]}" == table
    }
    end = evaluate_packet({"chains": chains, "sets": ruleset["sets"]}, packet)
    return end.verdict == ACCEPT and end.chain != ""


def list_deciding_tables(ruleset: Ruleset, packet: Packet) -> list[str]:
    """List the tables with a chain at the packet's hook that has rules or drops by policy."""
    found = []
    for key in list_hook_chains(ruleset, packet):
        chain, name = ruleset["chains"][key], f"{key[0]} {key[1]}"
        says = chain["rules"] or chain["policy"] == DROP
        if says and is_filter_hook(ruleset, key, packet) and name not in found:
            found.append(name)
    return found
