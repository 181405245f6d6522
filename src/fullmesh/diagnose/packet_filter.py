"""What the packet filter of a node does with a packet of a connection that failed: which rule, in which chain and zone.

The rules are evaluated by ``fullmesh.netfilter``, as on the nodes. What cannot be decided from the rules alone (a rate
limit, a mark, a random number) counts as "does not match", and is remembered as a doubt.
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
    Walk,
    base_chains,
    verdict_of,
)
from fullmesh.netfilter.ruleset import Rule, Ruleset

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
# Of a policy, which a zone's chain calls in passing: the packet's zone stays what it is.
POLICY = ZONE + "policy_"
SHOWN = 200
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Stop:
    """What became of a packet.

    Attributes:
        verdict: accept, drop, reject, or divert (sent elsewhere).
        table: with its family, ``inet firewalld``; "" when nothing stopped it.
        chain: where.
        handle: of the rule; 0 for a chain's policy.
        text: the rule in words near to nft's.
        reset: it is rejected by a TCP reset.
        doubts: rules that would stop some packets, of which the rules alone cannot tell which.
        zone: the firewalld zone whose chain the packet came through.
        sure: the rule stops the packet; else it may, and the packet was stopped.
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


def tcp(source: str, target: str, port: int, interface: str, *, outgoing: bool = False) -> Packet:
    """The first packet of a TCP connection.

    Args:
        source: address that it comes from.
        target: address that it goes to.
        port: where it goes.
        interface: of the node whose rules it meets.
        outgoing: it leaves that node.
    """
    family = "6" if ":" in target else "4"
    return Packet(family, source, target, "tcp", port, interface, outgoing)


def answer(packet: Packet, port: int) -> Packet:
    """The answer to a packet, which leaves over the interface that it came in by; *port*: where it had come from."""
    return packet._replace(
        saddr=packet.daddr,
        daddr=packet.saddr,
        dport=port,
        sport=packet.dport,
        outgoing=not packet.outgoing,
        state="established",
    )


def words(value: Any) -> str:
    """A value of an expression, near to nft's own words."""
    if isinstance(value, list):
        return ", ".join(words(one) for one in value[:8])
    if not isinstance(value, Mapping):
        return str(value)
    kind, inner = next(iter(value.items()), ("", None))
    if kind == "range" and isinstance(inner, list):
        return "-".join(words(one) for one in inner)
    if kind == "set":
        return "{ " + words(inner) + " }"
    return mapping_words(kind, inner) if isinstance(inner, Mapping) else json.dumps(value)[:60]


def mapping_words(kind: str, inner: Mapping[str, Any]) -> str:
    """An expression that has parts."""
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


def in_words(rule: Rule) -> str:
    """A rule in one line."""
    found = [rule["line"]] if rule["line"] else []
    for part in rule["expr"]:
        for name, inner in part.items():
            if name == "match" and isinstance(inner, Mapping):
                op = inner.get("op", "==")
                shown = "" if op in ("==", "in") else f"{op} "
                found.append(f"{words(inner.get('left'))} {shown}{words(inner.get('right'))}")
            elif name == "reject":
                how = inner if isinstance(inner, Mapping) else {}
                found.append(" ".join(["reject", *(str(v) for v in how.values())]))
            elif name in ("jump", "goto") and isinstance(inner, Mapping):
                found.append(f"{name} {inner.get('target')}")
            elif name not in SILENT:
                found.append(name)
    return " ".join(found)[:SHOWN]


def zone_of(walk: Walk) -> str:
    """The firewalld zone that the packet came through last."""
    names = [key[2] for key in walk.entered]
    zones = [
        name[len(ZONE) :]
        for name in names
        if name.startswith(ZONE) and not name.startswith(POLICY) and not name.endswith(ZONE_PARTS)
    ]
    return zones[-1] if zones else ""


def is_reset(rule: Rule) -> bool:
    """Whether a rule rejects by a TCP reset."""
    held = [part["reject"] for part in rule["expr"] if "reject" in part]
    return any(isinstance(how, Mapping) and how.get("type") == "tcp reset" for how in held)


def met(ruleset: Ruleset, packet: Packet) -> list[Key]:
    """The base chains that the packet comes through, in order."""
    return base_chains(ruleset, packet, OUTPUT if packet.outgoing else INPUT)


def send(ruleset: Ruleset, packet: Packet) -> Stop:
    """What becomes of the packet. An accepting end has the last chain whose rule accepted, "" when none minded."""
    walk = Walk(ruleset, packet)
    by = ""
    for base in met(ruleset, packet):
        end = walk.base(base)
        if end.word in STOPPING and end.rule is not None:
            family, table, chain = end.key
            return Stop(
                end.word,
                f"{family} {table}",
                chain,
                end.rule["handle"] or 0,
                in_words(end.rule),
                is_reset(end.rule),
                doubts_of(walk),
                zone_of(walk),
            )
        if end.word == ACCEPT and at_its_hook(ruleset, base, packet):
            by = base[2]
    return Stop(ACCEPT, chain=by, doubts=doubts_of(walk), zone=zone_of(walk))


def suspects(ruleset: Ruleset, packet: Packet) -> list[Stop]:
    """The rules that may stop the packet: by a rate, a mark, an account, bytes of it, a program that is asked."""
    walk = Walk(ruleset, packet)
    for base in met(ruleset, packet):
        walk.base(base)
    found = []
    for key, rule in walk.maybe:
        word = next((w for part in rule["expr"] if (w := verdict_of(part)[0]) in STOPS), "drop")
        found.append(
            Stop(
                STOPS.get(word, word),
                f"{key[0]} {key[1]}",
                key[2],
                rule["handle"] or 0,
                in_words(rule),
                is_reset(rule),
                zone=zone_of(walk),
                sure=False,
            )
        )
    return found


def doubts_of(walk: Walk) -> tuple[str, ...]:
    """The rules of which nobody can say whether they stop the packet, in words."""
    return tuple(in_words(rule) for _, rule in walk.maybe)


def at_its_hook(ruleset: Ruleset, key: Key, packet: Packet) -> bool:
    """Whether a base chain is at the hook where a host's firewall decides, rather than before or behind it."""
    return ruleset["chains"][key]["hook"] == ("output" if packet.outgoing else "input")


def accepts(ruleset: Ruleset, packet: Packet, table: str) -> bool:
    """Whether a rule of the table accepts the packet, rather than that none minds it."""
    chains = {
        key: chain for key, chain in ruleset["chains"].items() if f"{key[0]} {key[1]}" == table
    }
    end = send({"chains": chains, "sets": ruleset["sets"]}, packet)
    return end.verdict == ACCEPT and end.chain != ""


def tables(ruleset: Ruleset, packet: Packet) -> list[str]:
    """The tables that have a say about the packet: with a chain at its hook that has rules or a policy of drop."""
    found = []
    for key in met(ruleset, packet):
        chain, name = ruleset["chains"][key], f"{key[0]} {key[1]}"
        says = chain["rules"] or chain["policy"] == DROP
        if says and at_its_hook(ruleset, key, packet) and name not in found:
            found.append(name)
    return found
