# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What the rules beside firewalld do with a peer's first packet. Stdlib only.

A packet is ``{"family": "4", "saddr": ..., "daddr": ..., "protocol": "tcp", "dport": 29500, "interface": "eth1"}``. An
accept in one base chain does not save it from a drop in another (measured), so every chain is asked. A rule is only
said to drop when each of its conditions is known to hold; what is not known (marks, rates) is kept apart.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from ..schema.ports import parse_span
from .ruleset import PROTOCOLS, Values, interval

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Entry = dict[str, Any]
    Key = tuple[str, str, str]
    Result = tuple[str, Entry | None, bool]
    Spans = Iterator[tuple[str, int, int]]

HOOKS = ("ingress", "prerouting", "input", "forward")
STOPS = {
    "drop": "drop",
    "reject": "drop",
    "dnat": "divert",
    "redirect": "divert",
    "tproxy": "divert",
}
# A rate, a counter of connections, a queue to a program: nobody can say what it does with one packet.
UNSURE = frozenset(["limit", "quota", "meter", "unknown", "ct count", "queue", "osf", "socket"])
FAMILIES = {"4": ("ip", "inet", "netdev"), "6": ("ip6", "inet", "netdev")}
FLAGS = frozenset(["syn"])
DEPTH = 32
UNKNOWN = object()
NEVER = object()


class Walk:
    """One packet through one rule set."""

    def __init__(self, ruleset: Entry, packet: Entry) -> None:
        self.ruleset = ruleset
        self.packet = packet
        self.maybe: list[tuple[Key, Entry]] = []
        self.key: Key = ("", "", "")

    def base(self, key: Key) -> tuple[str, Key, Entry | None]:
        """Say what a base chain does: ``drop`` or ``divert`` with the rule that does it, or nothing."""
        word, rule, sure = self.chain(key, True, 0)
        policy = self.ruleset["chains"][key]["policy"]
        if not word and policy == "drop":
            word, rule = "drop", {"expr": [], "handle": None, "line": "policy drop"}
            self.key = key
        if word not in ("drop", "divert") or rule is None:
            return "", key, None
        if not sure:
            self.maybe.append((self.key, rule))
            return "", key, None
        return word, self.key, rule

    def chain(self, key: Key, sure: bool, depth: int) -> Result:
        """Go through one chain: (how it ends, by which rule, for sure)."""
        chain = self.ruleset["chains"].get(key)
        for rule in chain["rules"] if chain and depth < DEPTH else ():
            holds, verdict, target = self.rule(key, rule)
            if holds is False or not verdict:
                continue
            word, by, kept, ends = self.follow((key, rule), (verdict, target), sure, depth)
            if holds is None:
                if word in ("drop", "divert") and by is not None and speaks(by, self):
                    self.maybe.append((self.key, by))
                # What may end here is not sure to come further.
                sure = sure and kept and word != "accept" and verdict != "return"
                continue
            if ends:
                return word, by, kept
            sure = kept
        return "", None, sure

    def follow(
        self, where: tuple[Key, Entry], verdict: tuple[str, str], sure: bool, depth: int
    ) -> tuple[str, Entry | None, bool, bool]:
        """Carry out a verdict: (word, rule, sure, ends this chain)."""
        key, rule = where
        word, target = verdict
        if word in ("jump", "goto"):
            end, by, kept = self.chain((key[0], key[1], target), sure, depth + 1)
            return end, by, kept, bool(end) or word == "goto"
        if word == "return":
            return "", None, sure, True
        self.key = key
        return STOPS.get(word, word), rule, sure, True

    def rule(self, key: Key, rule: Entry) -> tuple[bool | None, str, str]:
        """Say whether a rule's conditions hold (nothing: cannot be known), and its verdict."""
        holds: bool | None = True
        for part in rule["expr"]:
            kind = next(iter(part), "")
            if kind == "match":
                answer = self.matches(key, part["match"])
            elif kind in UNSURE or (kind == "xt" and xt_kind(part) == "match"):
                answer = None
            elif kind == "never":
                answer = False
            elif kind == "vmap":
                found = self.vmap(key, part["vmap"])
                if found:
                    return (None if found[0] == "?" else holds), found[0].strip("?"), found[1]
                continue
            else:
                verdict = verdict_of(part)
                if verdict[0]:
                    return holds, verdict[0], verdict[1]
                continue
            if answer is False:
                return False, "", ""
            holds = None if answer is None else holds
        return holds, "", ""

    def matches(self, key: Key, one: Entry) -> bool | None:
        """Compare one field of the packet."""
        value = self.value(one["left"])
        if value is NEVER:
            return False
        if value is UNKNOWN:
            return None
        right, op = one["right"], one["op"]
        if isinstance(value, frozenset):
            wanted = set(flat(right))
            return (value == wanted) == (op == "==") if op in ("==", "!=") else bool(value & wanted)
        if op in ("<", ">", "<=", ">="):
            return compare(value, op, right)
        if value in PROTOCOLS.values() and isinstance(right, int):
            right = PROTOCOLS.get(right, "another")
        values = self.values(key, right)
        found = None if values is None else values.holds(value)
        return found if found is None or op != "!=" else not found

    def values(self, key: Key, right: Any) -> Values | None:
        """Resolve the right side; named sets come from the same table."""
        if isinstance(right, str) and right[:1] == "@":
            found = self.ruleset["sets"].get((key[0], key[1], right[1:]))
            return found if isinstance(found, Values) else None
        if isinstance(right, dict) and "set" in right:
            right = right["set"]
        return Values(right if isinstance(right, list) else [right])

    def vmap(self, key: Key, one: Entry) -> tuple[str, str] | None:
        """Look the packet up in a verdict map; ``?`` where that cannot be known."""
        value, data = self.value(one["key"]), one["data"]
        if isinstance(data, str):
            data = self.ruleset["sets"].get((key[0], key[1], data[1:]), {}).get("elem", [])
        else:
            data = data.get("set", [])
        for left, verdict in data:
            held = None if value is UNKNOWN else self.values(key, left).holds(value)  # type: ignore[union-attr]
            if held is not False and value is not NEVER:
                word, target = verdict_of(verdict)
                return ("?" + word if held is None else word), target
        return None

    def value(self, left: Any) -> Any:
        """Return what the packet has in a field; UNKNOWN, or NEVER where it has no such field."""
        readers: Entry = {"meta": self.meta, "payload": self.payload, "ct": conntrack, "fib": route}
        readers["&"] = self.masked
        kind = next(iter(left), "") if isinstance(left, dict) else ""
        return readers[kind](left[kind]) if kind in readers else UNKNOWN

    def masked(self, one: list[Any]) -> Any:
        """Return a field's bits under a mask; only tcp's flags are known by their bits."""
        value = self.value(one[0])
        return frozenset(value & set(flat(one[1:]))) if isinstance(value, frozenset) else UNKNOWN

    def meta(self, field: Entry) -> Any:
        """Return what the kernel knows about the packet."""
        version = self.packet["family"]
        told = {
            "l4proto": self.packet["protocol"],
            "nfproto": "ipv" + version,
            "protocol": {"4": "ip", "6": "ip6"}[version],
            "iifname": self.packet["interface"] or UNKNOWN,
            "iif": self.packet["interface"] or UNKNOWN,
            "pkttype": "host",
        }
        return told.get(str(field.get("key")), UNKNOWN)

    def payload(self, field: Entry) -> Any:
        """Return what stands in the packet's headers."""
        protocol, name = field.get("protocol"), str(field.get("field"))
        packet = self.packet
        if protocol in ("ip", "ip6"):
            if protocol != {"4": "ip", "6": "ip6"}[packet["family"]]:
                return NEVER
            told = {"saddr": packet["saddr"], "daddr": packet["daddr"] or UNKNOWN}
            told.update(protocol=packet["protocol"], nexthdr=packet["protocol"])
            return told.get(name, UNKNOWN)
        if protocol not in ("th", "tcp", "udp"):
            return NEVER if protocol in ("icmp", "icmpv6", "sctp", "dccp", "esp", "ah") else UNKNOWN
        if protocol not in ("th", packet["protocol"]):
            return NEVER
        if name == "flags":
            return FLAGS
        return packet["dport"] if name == "dport" else UNKNOWN


def conntrack(field: Entry) -> Any:
    """Return what connection tracking says of a first packet."""
    told = {"state": "new", "direction": "original", "status": "confirmed"}
    return told.get(str(field.get("key")), UNKNOWN)


def route(field: Entry) -> Any:
    """Return what the routing table says of the packet: it is for this node."""
    asked = field.get("result") == "type" and field.get("flags") in ("daddr", ["daddr"])
    return "local" if asked else UNKNOWN


def xt_kind(part: Entry) -> str:
    """Return what an expression of iptables is; old libnftables print nothing about it."""
    return str((part["xt"] or {}).get("type", "match"))


def verdict_of(part: Any) -> tuple[str, str]:
    """Return a statement's verdict and where it leads."""
    kind = next(iter(part), "") if isinstance(part, dict) else str(part)
    if kind in ("jump", "goto"):
        return kind, str(part[kind]["target"])
    if kind == "xt":
        name = str((part["xt"] or {}).get("name", ""))
        return {"REJECT": ("reject", ""), "DROP": ("drop", ""), "DNAT": ("dnat", "")}.get(
            name, ("", "")
        )
    if kind in STOPS or kind in ("accept", "return"):
        return kind, ""
    return "", ""


def flat(item: Any) -> list[str]:
    """Return the words of a list, a set or ``a | b``."""
    if isinstance(item, dict):
        return [word for value in item.values() for word in flat(value)]
    if isinstance(item, list):
        return [word for value in item for word in flat(value)]
    return [str(item)]


def compare(value: Any, op: str, right: Any) -> bool | None:
    """Compare two numbers."""
    if not (isinstance(value, int) and isinstance(right, int)):
        return None
    return {"<": value < right, ">": value > right, "<=": value <= right, ">=": value >= right}[op]


def speaks(rule: Entry, walk: Walk) -> bool:
    """Say whether a rule names the packet's port or sender: only then is a perhaps worth a word."""
    for part in rule["expr"]:
        left = part.get("match", {}).get("left", {}) if isinstance(part, dict) else {}
        field = left.get("payload", {}).get("field") if isinstance(left, dict) else ""
        if field in ("saddr", "dport") and walk.matches(walk.key, part["match"]) is True:
            return True
    return False


# --- which packets ------------------------------------------------------------------------------


def spans_of(ruleset: Entry, chains: list[Key]) -> dict[str, list[int]]:
    """Collect every bound of an address or number that the rules know: between two of them all packets are alike."""
    cuts: dict[str, set[int]] = {"4": set(), "6": set(), "n": set()}

    def note(spans: Any) -> None:
        for kind, low, high in spans:
            cuts[kind].update((low, high + 1))

    for key in chains:
        for rule in ruleset["chains"][key]["rules"]:
            for part in rule["expr"]:
                note(all_intervals(part))
    for values in ruleset["sets"].values():
        if isinstance(values, Values):
            note((kind, low, high) for kind in values.spans for low, high in values.spans[kind])
        else:
            note(all_intervals(values.get("elem", [])))
    return {kind: sorted(cuts[kind]) for kind in cuts}


def all_intervals(item: Any) -> Spans:
    """Find every interval in an expression, however deep."""
    span = interval(item)
    if span:
        yield span
        return
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    for one in inner:
        yield from all_intervals(one)


def ports_to_try(port: str, cuts: list[int]) -> list[int]:
    """Return one port out of each stretch of ``50000-54095`` that the rules tell apart.

    Raises:
        ValueError: no range of ports; an answer without it would say that nothing stops the peers.
    """
    span = parse_span(port)
    if span is None:
        raise ValueError(f"{port!r} is no range of ports")
    inside = cuts[bisect.bisect_right(cuts, span.first) : bisect.bisect_right(cuts, span.last)]
    return [span.first, *inside]


def senders_to_try(peers: list[str], cuts: list[int]) -> list[str]:
    """Return one address out of each stretch that the rules tell apart."""
    chosen: dict[int, str] = {}
    for peer in peers:
        span = interval(peer)
        if span:
            chosen.setdefault(bisect.bisect_right(cuts, span[1]), peer)
    return list(chosen.values())


# --- the answer ---------------------------------------------------------------------------------


def base_chains(ruleset: Entry, family: str, interface: str) -> list[Key]:
    """Name the base chains that a packet of a family meets, in the order in which it meets them."""
    found = []
    for key, chain in ruleset["chains"].items():
        met = chain["hook"] in HOOKS and key[0] in FAMILIES[family]
        if met and key[0] == "netdev":
            devices = chain["dev"] if isinstance(chain["dev"], list) else [chain["dev"]]
            met = interface in devices
        if met:
            found.append((HOOKS.index(chain["hook"]), chain["prio"] or 0, key))
    return [key for _, _, key in sorted(found)]


def packets(want: Entry, family: str, cuts: dict[str, list[int]]) -> list[Entry]:
    """Make the first packets that peers may send to this node.

    *want*: peers ({"4": [...], "6": [...]}), ports (``29500/tcp``), own ({"4": address}), interface.
    """
    found = []
    for port in want["ports"]:
        numbers, _, protocol = port.partition("/")
        for number in ports_to_try(numbers, cuts["n"]):
            for sender in senders_to_try(want["peers"].get(family, []), cuts[family]):
                packet = {"family": family, "saddr": sender, "daddr": want["own"].get(family, "")}
                packet.update(protocol=protocol, dport=number, interface=want["interface"])
                found.append(packet)
    return found


def findings(ruleset: Entry, want: Entry) -> list[Entry]:
    """Say which rules keep peers from the ports of the plan: one entry a rule, with an example.

    Each has table, chain, hook, handle, line, word (``drop``, ``divert``), sure, port, sender, and family.
    """
    found: dict[Any, Entry] = {}
    for family in sorted(FAMILIES):
        chains = base_chains(ruleset, family, want["interface"])
        reach = [key for key in ruleset["chains"] if key[0] in FAMILIES[family]]
        cuts = spans_of(ruleset, reach)
        for packet in packets(want, family, cuts) if chains else ():
            walk = Walk(ruleset, packet)
            for key in chains:
                word, where, rule = walk.base(key)
                if rule is not None:
                    note(found, (key, where, rule), (word, True), packet, ruleset)
            for where, rule in walk.maybe:
                note(found, (where, where, rule), ("drop", False), packet, ruleset)
    return list(found.values())


def note(
    found: dict[Any, Entry],
    where: tuple[Key, Key, Entry],
    verdict: tuple[str, bool],
    packet: Entry,
    ruleset: Entry,
) -> None:
    """Keep the first example for each rule."""
    base, key, rule = where
    identity = (key, id(rule) if rule["expr"] else "policy", verdict[1])
    if identity in found:
        return
    found[identity] = {
        "family": key[0],
        "table": key[1],
        "chain": key[2],
        "hook": ruleset["chains"][base]["hook"],
        "handle": rule["handle"],
        "line": rule["line"],
        "word": verdict[0],
        "sure": verdict[1],
        "port": "{}/{}".format(packet["dport"], packet["protocol"]),
        "sender": packet["saddr"],
    }
