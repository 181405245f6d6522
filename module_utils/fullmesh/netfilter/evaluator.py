# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Evaluate a rule set for the first packet of a connection, or for the answer to it.

Standard library only.

Base chains of a hook are evaluated by priority, as in nft(8) ("Chains"). An accept in one base chain does not prevent a
drop in another (measured), so every chain is evaluated. A rule only ends the evaluation if all its conditions are known
to hold. Unknown ones (marks, rates, queues to a program) are kept separately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .ruleset import PROTOCOLS, MatchValues

if TYPE_CHECKING:
    from typing import Any

    from .ruleset import NftChain, NftRule, Ruleset

    # libnftables-json(5): the tool's own JSON
    Json = dict[str, Any]
    Key = tuple[str, str, str]

# The hooks of an incoming or outgoing packet. With the forward hook: those of a packet to a container.
INPUT = ("ingress", "prerouting", "input")
OUTPUT = ("output", "postrouting", "egress")
FORWARDED = (*INPUT, "forward")
STOPS = {"drop": "drop", "reject": "reject"}
STOPS.update({"dnat": "divert", "redirect": "divert", "tproxy": "divert"})
STOPPING = frozenset(STOPS.values())
# Rates and connection counters: the result for a single packet is unknown.
UNSURE = frozenset(["limit", "quota", "meter", "unknown", "ct count", "osf", "socket"])
FAMILIES = {"4": ("ip", "inet", "netdev"), "6": ("ip6", "inet", "netdev")}
ARP = "arp"
MET_BY = {**FAMILIES, ARP: ("arp", "netdev")}
FLAGS = {"new": frozenset(["syn"]), "established": frozenset(["syn", "ack"])}
DEPTH = 32  # nft allows 16 jumps
# The limit of rules for one packet: each rule of the set counts several times, since chains are reached from several
# places. A set with more has cyclic chains, which the kernel rejects, so its result is uncertain.
TIMES, STEPS_LEAST = 16, 20000
UNKNOWN = object()
NEVER = object()


class Packet(NamedTuple):
    """One packet at a node.

    Attributes:
        family: ``4``, ``6`` or ``arp`` (request or reply, without protocol and ports).
        saddr: its source address.
        daddr: its destination address, "" if unknown.
        protocol: ``tcp`` or ``udp``.
        dport: its destination port.
        interface: the incoming or outgoing interface, "" if unknown.
        outgoing: whether it leaves the node.
        sport: its source port, 0 if unknown.
        state: its connection tracking state: ``new``, or ``established`` for an answer.
    """

    family: str
    saddr: str
    daddr: str
    protocol: str
    dport: int
    interface: str
    outgoing: bool = False
    sport: int = 0
    state: str = "new"


class ChainEnd(NamedTuple):
    """The result of a base chain for a packet.

    Attributes:
        word: ``drop``, ``reject``, ``divert``, ``accept``, or "" if no rule applies.
        key: the chain of the rule, or the base chain itself.
        rule: the deciding rule, or None.
        sure: whether no earlier rule may have accepted the packet.
    """

    word: str
    key: Key
    rule: NftRule | None
    sure: bool


class PacketWalk:
    """The way of one packet through one rule set.

    Attributes:
        maybe: rules that would block some packets, perhaps this one.
        entered: chains that the packet certainly passed, in order.
    """

    def __init__(self, ruleset: Ruleset, packet: Packet) -> None:
        self.ruleset = ruleset
        self.packet = packet
        self.maybe: list[tuple[Key, NftRule]] = []
        self.entered: list[Key] = []
        self.guesses = 0  # rules on the path to this one whose conditions may not hold
        every = sum(len(chain["rules"]) for chain in ruleset["chains"].values())
        self.steps = max(STEPS_LEAST, TIMES * every)

    def base(self, key: Key) -> ChainEnd:
        """Evaluate a base chain, including its policy."""
        end = self.chain(key, True, 0)
        if not end.word and self.ruleset["chains"][key]["policy"] == "drop":
            return ChainEnd(
                "drop", key, {"expr": [], "handle": None, "line": "policy drop"}, end.sure
            )
        return end

    def chain(self, key: Key, sure: bool, depth: int) -> ChainEnd:
        """Evaluate one chain."""
        chain = self.ruleset["chains"].get(key)
        if chain and not self.guesses:
            self.entered.append(key)
        for rule in chain["rules"] if chain and depth < DEPTH else ():
            self.steps -= 1
            if self.steps < 0:
                return ChainEnd("", key, None, False)
            holds, verdict, target = self.rule(key, rule)
            if holds is False or not verdict:
                continue
            if has_queue(rule):
                self.maybe.append((key, rule))
            self.guesses += holds is None
            end, ends = self.follow((key, rule), (verdict, target), sure, depth)
            self.guesses -= holds is None
            if holds is None:
                if end.word in STOPPING and end.rule is not None:
                    self.maybe.append((end.key, end.rule))
                # After a rule that may end the evaluation, later results are not certain.
                sure = sure and end.sure and end.word != "accept" and verdict != "return"
                continue
            if ends:
                return end
            sure = end.sure
        return ChainEnd("", key, None, sure)

    def follow(
        self, where: tuple[Key, NftRule], verdict: tuple[str, str], sure: bool, depth: int
    ) -> tuple[ChainEnd, bool]:
        """Apply a verdict. Return the result, and whether it ends this chain."""
        key, rule = where
        word, target = verdict
        if word in ("jump", "goto"):
            end = self.chain((key[0], key[1], target), sure, depth + 1)
            return end, bool(end.word) or word == "goto"
        if word == "return":
            return ChainEnd("", key, None, sure), True
        return ChainEnd(STOPS.get(word, word), key, rule, sure), True

    def rule(self, key: Key, rule: NftRule) -> tuple[bool | None, str, str]:
        """Return whether a rule's conditions hold (None: unknown), and its verdict."""
        holds: bool | None = True
        for part in rule["expr"]:
            kind = next(iter(part), "")
            if kind == "match":
                answer = self.matches(key, part["match"])
            elif kind in UNSURE or (kind == "xt" and read_xt_kind(part) == "match"):
                answer = None
            elif kind == "never":
                answer = False
            elif kind == "queue":
                return None, "accept", ""  # a program decides
            elif kind == "vmap":
                found = self.vmap(key, part["vmap"])
                if found:
                    return (None if found[0] == "?" else holds), found[0].strip("?"), found[1]
                continue
            else:
                verdict = parse_verdict(part)
                if verdict[0]:
                    return holds, verdict[0], verdict[1]
                continue
            if answer is False:
                return False, "", ""
            holds = None if answer is None else holds
        return holds, "", ""

    def matches(self, key: Key, one: Json) -> bool | None:
        """Compare one field with the packet."""
        value, right, op = self.value(one.get("left")), one.get("right"), one.get("op", "==")
        if value is NEVER:
            return False
        if value is UNKNOWN:
            return None
        if isinstance(value, frozenset):
            wanted = set(flatten_words(right))
            return (value == wanted) == (op == "==") if op in ("==", "!=") else bool(value & wanted)
        if op in ("<", ">", "<=", ">="):
            return compare_numbers(value, op, right)
        if value in PROTOCOLS.values() and isinstance(right, int):
            right = PROTOCOLS.get(right, "another")
        values = self.values(key, right)
        found = None if values is None else values.holds(value)
        return found if found is None or op != "!=" else not found

    def values(self, key: Key, right: Any) -> MatchValues | None:
        """Resolve the right side. Named sets come from the same table."""
        if isinstance(right, str) and right[:1] == "@":
            return self.ruleset["sets"].get((key[0], key[1], right[1:]))
        if isinstance(right, dict) and "set" in right:
            right = right["set"]
        return MatchValues(right if isinstance(right, list) else [right])

    def vmap(self, key: Key, one: Json) -> tuple[str, str] | None:
        """Look the packet up in a verdict map. ``?`` if the result is unknown."""
        value, data = self.value(one.get("key")), one.get("data")
        if isinstance(data, str):
            held = self.ruleset["sets"].get((key[0], key[1], data[1:]))
            pairs = held.items if held else []
        else:
            pairs = data.get("set", []) if isinstance(data, dict) else []
        for left, verdict in (pair for pair in pairs if isinstance(pair, list)):
            values = self.values(key, left)
            found = None if value is UNKNOWN or values is None else values.holds(value)
            if found is not False and value is not NEVER:
                word, target = parse_verdict(verdict)
                return ("?" + word if found is None else word), target
        return None

    def value(self, left: Any) -> Any:
        """Return the packet's value of a field: UNKNOWN, or NEVER if it has no such field."""
        readers: Json = {"meta": self.meta, "payload": self.payload, "ct": self.conntrack}
        readers.update({"fib": self.fib, "&": self.masked})
        kind = next(iter(left), "") if isinstance(left, dict) else ""
        return readers[kind](left[kind]) if kind in readers else UNKNOWN

    def masked(self, one: list[Any]) -> Any:
        """Return a field's bits under a mask. Only the bits of TCP flags are known."""
        value = self.value(one[0])
        return (
            frozenset(value & set(flatten_words(one[1:])))
            if isinstance(value, frozenset)
            else UNKNOWN
        )

    def meta(self, field: Json) -> Any:
        """Return the packet's value of a meta field."""
        packet = self.packet
        if packet.family == ARP and field.get("key") in ("l4proto", "nfproto"):
            return NEVER
        values = {
            "l4proto": packet.protocol,
            "nfproto": "ipv" + packet.family,
            "protocol": format_nft_family(packet),
            "pkttype": "host",
        }
        side = "o" if packet.outgoing else "i"
        values[side + "ifname"] = values[side + "if"] = packet.interface
        return values.get(str(field.get("key"))) or UNKNOWN

    def payload(self, field: Json) -> Any:
        """Return the value of a header field."""
        protocol, name = field.get("protocol"), str(field.get("field"))
        packet = self.packet
        if (protocol, name) == ("ether", "type"):
            return format_nft_family(packet)
        if protocol in ("ip", "ip6"):
            if protocol != format_nft_family(packet):
                return NEVER
            values = {"saddr": packet.saddr, "daddr": packet.daddr}
            values.update(protocol=packet.protocol, nexthdr=packet.protocol)
            return values.get(name) or UNKNOWN
        if protocol not in ("th", "tcp", "udp"):
            return NEVER if protocol in ("icmp", "icmpv6", "sctp", "dccp", "esp", "ah") else UNKNOWN
        if packet.family == ARP or protocol not in ("th", packet.protocol):
            return NEVER
        known = {"flags": FLAGS[packet.state], "dport": packet.dport, "sport": packet.sport}
        return known.get(name) or UNKNOWN

    def conntrack(self, field: Json) -> Any:
        """Return the packet's value of a connection tracking field."""
        direction = "original" if self.packet.state == "new" else "reply"
        values = {"state": self.packet.state, "direction": direction, "status": "confirmed"}
        return values.get(str(field.get("key")), UNKNOWN)

    def fib(self, field: Json) -> Any:
        """Return the type of the target address: incoming packets are for this node, outgoing ones for another."""
        if field.get("result") != "type" or field.get("flags") not in ("daddr", ["daddr"]):
            return UNKNOWN
        return "unicast" if self.packet.outgoing else "local"


def format_nft_family(packet: Packet) -> str:
    """Return the packet's family by nft's name."""
    return {"4": "ip", "6": "ip6", ARP: "arp"}[packet.family]


def read_xt_kind(part: Json) -> str:
    """Return the kind of an iptables expression. Old libnftables print nothing about it."""
    return str((part["xt"] or {}).get("type", "match"))


def parse_verdict(part: Any) -> tuple[str, str]:
    """Return a statement's verdict and the target of a jump."""
    kind = next(iter(part), "") if isinstance(part, dict) else str(part)
    if kind in ("jump", "goto"):
        return kind, str(part[kind].get("target", ""))
    if kind == "xt":
        name = str((part["xt"] or {}).get("name", ""))
        return {"REJECT": ("reject", ""), "DROP": ("drop", ""), "DNAT": ("dnat", "")}.get(
            name, ("", "")
        )
    if kind in STOPS or kind in ("accept", "return"):
        return kind, ""
    return "", ""


def has_queue(rule: NftRule) -> bool:
    """Return whether the rule passes packets to a program.

    Without the program the kernel drops them (nft(8), queue).
    """
    return any("queue" in part for part in rule["expr"])


def flatten_words(item: Any) -> list[str]:
    """Return the words of a list, a set or ``a | b``."""
    if isinstance(item, dict):
        return [word for value in item.values() for word in flatten_words(value)]
    if isinstance(item, list):
        return [word for value in item for word in flatten_words(value)]
    return [str(item)]


def compare_numbers(value: Any, op: str, right: Any) -> bool | None:
    """Compare two numbers."""
    if not (isinstance(value, int) and isinstance(right, int)):
        return None
    return {"<": value < right, ">": value > right, "<=": value <= right, ">=": value >= right}[op]


def is_about_packet(key: Key, rule: NftRule, walk: PacketWalk) -> bool:
    """Return whether a rule names the packet's port or sender. Only then is an uncertain match reported."""
    for part in rule["expr"]:
        left = part.get("match", {}).get("left", {})
        field = left.get("payload", {}).get("field") if isinstance(left, dict) else ""
        if field in ("saddr", "dport") and walk.matches(key, part["match"]) is True:
            return True
    return False


def order_base_chains(ruleset: Ruleset, packet: Packet, hooks: tuple[str, ...]) -> list[Key]:
    """Return the base chains of these hooks that a packet passes, in order.

    Chains of type nat only see the first packet of a connection (nft(8)).
    """
    found = []
    for key, chain in ruleset["chains"].items():
        if chain["hook"] not in hooks or key[0] not in MET_BY[packet.family]:
            continue
        first = chain["type"] != "nat" or packet.state == "new"
        if first and (key[0] != "netdev" or packet.interface in list_chain_devices(chain)):
            found.append((hooks.index(chain["hook"]), chain["prio"] or 0, key))
    return [key for _, _, key in sorted(found)]


def list_chain_devices(chain: NftChain) -> list[Any]:
    """Return the interfaces of a chain of family netdev."""
    return chain["dev"] if isinstance(chain["dev"], list) else [chain["dev"]]
