"""Sends a packet through the nftables rules that a node has, on paper: which rule stops it, in which chain.

Written after the documented order of evaluation (nft(8), "Chains"): base chains of a hook by priority; ``accept`` ends
a base chain and the next one goes on, ``drop`` and ``reject`` end everything. What cannot be decided from the
rules alone (a rate limit, a mark, a random number) counts as "does not match", and is remembered as a doubt.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACCEPT, DROP, REJECT = "accept", "drop", "reject"
STEPS_MOST = 20000
HOOKS = {"input": ("ingress", "prerouting", "input"), "output": ("output", "postrouting", "egress")}
PRIORITIES = {
    "raw": -300,
    "mangle": -150,
    "dstnat": -100,
    "filter": 0,
    "security": 50,
    "srcnat": 100,
}
IGNORED = {
    "counter",
    "log",
    "mangle",
    "notrack",
    "set",
    "meter",
    "tproxy",
    "flow",
    "ct helper",
    "comment",
}
VERDICTS = (ACCEPT, DROP, REJECT, "jump", "goto", "return", "queue")
DOUBTS = ("limit", "quota", "xt", "numgen")
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
class Packet:
    """The first packet of a TCP connection, or of the answer to it.

    Attributes:
        source: address.
        target: address.
        port: where it goes.
        interface: of the node whose rules it meets.
        hook: input or output of that node.
        state: what connection tracking says: new or established.
        origin: the port that it comes from, 0 when that is not known.
    """

    source: str
    target: str
    port: int
    interface: str
    hook: str = "input"
    state: str = "new"
    origin: int = 0

    @property
    def family(self) -> str:
        """ip or ip6."""
        return "ip6" if ":" in self.target else "ip"


@dataclass(frozen=True)
class Stop:
    """What became of a packet.

    Attributes:
        verdict: accept, drop or reject.
        table: with its family, ``inet firewalld``; "" when nothing stopped it.
        chain: where.
        handle: of the rule; 0 for a chain's policy.
        text: the rule in words near to nft's.
        reset: it is rejected by a TCP reset.
        doubts: rules that would stop some packets, of which the paper cannot tell which.
        zone: the firewalld zone whose chain the packet came through.
    """

    verdict: str
    table: str = ""
    chain: str = ""
    handle: int = 0
    text: str = ""
    reset: bool = False
    doubts: tuple[str, ...] = ()
    zone: str = ""


@dataclass
class Walk:
    """One packet on its way."""

    packet: Packet
    rules: Mapping[Key, Sequence[Mapping[str, Any]]]
    sets: Mapping[Key, Sequence[Any]]
    doubts: list[str] = field(default_factory=list)
    zone: str = ""
    steps: int = 0


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
        "payload": f"{inner.get('protocol')} {inner.get('field')}",
        "meta": f"meta {inner.get('key')}",
        "ct": f"ct {inner.get('key')}",
        "numgen": f"numgen {inner.get('mode')} mod {inner.get('mod')}",
    }
    return shown.get(kind, json.dumps(inner)[:60])


def in_words(rule: Mapping[str, Any]) -> str:
    """A rule in one line."""
    found = []
    for part in expressions(rule):
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
            elif name not in IGNORED:
                found.append(name)
    return " ".join(found)[:SHOWN]


def expressions(rule: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The statements of a rule."""
    held = rule.get("expr")
    for part in held if isinstance(held, list) else []:
        if isinstance(part, Mapping):
            yield part


def same_address(one: str, other: Any) -> bool:
    """Whether an address is another, or in it."""
    try:
        address = ipaddress.ip_address(one)
        if isinstance(other, Mapping) and isinstance(other.get("prefix"), Mapping):
            inner = other["prefix"]
            return address in ipaddress.ip_network(f"{inner['addr']}/{inner['len']}", strict=False)
        if isinstance(other, Mapping) and isinstance(other.get("range"), list):
            low, high = (ipaddress.ip_address(str(end)) for end in other["range"])
            return low.version == address.version and int(low) <= int(address) <= int(high)
        return address == ipaddress.ip_address(str(other))
    except (ValueError, KeyError, TypeError):
        return False


def same_value(value: Any, wanted: Any) -> bool:
    """Whether a port, a name or a state is what a rule wants."""
    if isinstance(wanted, Mapping) and isinstance(wanted.get("range"), list):
        ends = wanted["range"]
        numbers = [end for end in ends if isinstance(end, int)]
        return isinstance(value, int) and len(numbers) == 2 and numbers[0] <= value <= numbers[1]  # noqa: PLR2004 (two ends)
    if isinstance(wanted, str) and wanted.endswith("*"):
        return str(value).startswith(wanted[:-1])
    return str(value) == str(wanted)


def known_port(packet: Packet, name: str) -> tuple[str, Any]:
    """A port or the flags of the packet."""
    if name == "dport":
        return "value", packet.port
    if name == "sport" and packet.origin:
        return "value", packet.origin
    return "unknown", None


def known_payload(packet: Packet, protocol: str, name: str) -> tuple[str, Any]:
    """A field of a header."""
    if protocol in ("tcp", "th"):
        return known_port(packet, name)
    if protocol != packet.family:
        return "never", None
    ends = {
        "saddr": ("address", packet.source),
        "daddr": ("address", packet.target),
        "protocol": ("value", "tcp"),
        "nexthdr": ("value", "tcp"),
    }
    return ends.get(name, ("unknown", None))


def known_about(packet: Packet) -> dict[tuple[str, str], Any]:
    """What nft calls meta and ct, as far as the packet has it."""
    into = packet.hook == "input"
    return {
        ("meta", "l4proto"): "tcp",
        ("meta", "nfproto"): "ipv6" if packet.family == "ip6" else "ipv4",
        ("meta", "protocol"): packet.family,
        ("meta", "pkttype"): "host",
        ("meta", "iifname" if into else "oifname"): packet.interface,
        ("meta", "iif" if into else "oif"): packet.interface,
        ("ct", "state"): packet.state,
        ("ct", "status"): "",
        ("ct", "direction"): "original" if packet.state == "new" else "reply",
    }


def known(walk: Walk, left: Any) -> tuple[str, Any]:
    """What the packet has where a rule looks: ``address``, ``value``, ``never`` or ``unknown``, and the value."""
    if not isinstance(left, Mapping):
        return "unknown", None
    payload = left.get("payload")
    if isinstance(payload, Mapping):
        return known_payload(walk.packet, str(payload.get("protocol")), str(payload.get("field")))
    held = known_about(walk.packet)
    for kind in ("meta", "ct"):
        inner = left.get(kind)
        if isinstance(inner, Mapping) and (kind, str(inner.get("key"))) in held:
            return "value", held[(kind, str(inner["key"]))]
    return "unknown", None


def elements(walk: Walk, right: Any, scope: Key) -> list[Any] | None:
    """What a rule compares with, as a list; None when it is a set that is not known."""
    if isinstance(right, str) and right.startswith("@"):
        held = walk.sets.get((scope[0], scope[1], right[1:]))
        if held is None:
            return None
        return [
            e["elem"]["val"]
            if isinstance(e, Mapping) and isinstance(e.get("elem"), Mapping) and "val" in e["elem"]
            else e
            for e in held
        ]
    if isinstance(right, Mapping) and isinstance(right.get("set"), list):
        return list(right["set"])
    return list(right) if isinstance(right, list) else [right]


def matches(walk: Walk, inner: Any, scope: Key) -> bool | None:
    """Whether the packet is what a match wants; None when the paper cannot tell."""
    if not isinstance(inner, Mapping):
        return None
    kind, value = known(walk, inner.get("left"))
    if kind == "never":
        return False
    wanted = elements(walk, inner.get("right"), scope)
    if kind == "unknown" or wanted is None:
        return None
    op = inner.get("op", "==")
    if op in ("<", ">", "<=", ">=") and isinstance(value, int) and isinstance(wanted[:1], list):
        edge = wanted[0] if wanted and isinstance(wanted[0], int) else None
        if edge is None:
            return None
        return {"<": value < edge, ">": value > edge, "<=": value <= edge, ">=": value >= edge}[op]
    test = same_address if kind == "address" else same_value
    hit = any(test(value, one) for one in wanted)
    return not hit if op == "!=" else hit


def stopped(walk: Walk, rule: Mapping[str, Any], verdict: str, how: Any) -> Stop:
    """A rule that ends the packet's way."""
    reset = isinstance(how, Mapping) and how.get("type") == "tcp reset"
    return Stop(
        verdict,
        f"{rule.get('family')} {rule.get('table')}",
        str(rule.get("chain")),
        int(rule["handle"]) if isinstance(rule.get("handle"), int) else 0,
        in_words(rule),
        reset,
        tuple(walk.doubts),
        walk.zone,
    )


def mapped(walk: Walk, inner: Any, scope: Key) -> Mapping[str, Any] | None:
    """The statement that a verdict map has for the packet."""
    if not isinstance(inner, Mapping):
        return None
    pairs = elements(walk, inner.get("data"), scope) or []
    for pair in pairs:
        if isinstance(pair, list) and len(pair) == 2:  # noqa: PLR2004 (key and verdict)
            match = {"op": "==", "left": inner.get("key"), "right": pair[0]}
            if matches(walk, match, scope):
                return pair[1] if isinstance(pair[1], Mapping) else {str(pair[1]): None}
    return None


def run_rule(walk: Walk, rule: Mapping[str, Any], scope: Key, depth: int) -> Stop | str | None:
    """A final stop, ``accept`` or ``return`` for the chain, None to go on with the next rule."""
    doubtful = False
    for part in expressions(rule):
        for name, inner in part.items():
            if name == "match":
                hit = matches(walk, inner, scope)
                if hit is False:
                    return None
                doubtful = doubtful or hit is None
            elif name in DOUBTS:
                doubtful = True
            else:
                said = (mapped(walk, inner, scope) or {}) if name == "vmap" else {name: inner}
                verdict = next((one for one in said if one in VERDICTS), "")
                if verdict and doubtful:
                    walk.doubts += [in_words(rule)] if verdict in (DROP, REJECT) else []
                    return None
                if verdict:
                    return decided(walk, rule, (verdict, said[verdict]), (scope, depth))
    return None


def decided(
    walk: Walk, rule: Mapping[str, Any], said: tuple[str, Any], place: tuple[Key, int]
) -> Stop | str | None:
    """What a verdict statement means for the packet's way."""
    (name, inner), (scope, depth) = said, place
    if name in (DROP, REJECT):
        return stopped(walk, rule, name, inner)
    if name in ("jump", "goto"):
        target = str(inner.get("target")) if isinstance(inner, Mapping) else ""
        end = run_chain(walk, (scope[0], scope[1], target), depth + 1)
        if end is not None and end != "return":
            return end
        return "return" if name == "goto" else None
    return ACCEPT if name in (ACCEPT, "queue") else "return"


def run_chain(walk: Walk, scope: Key, depth: int = 0) -> Stop | str | None:
    """Go through a chain."""
    if depth > 64 or walk.steps > STEPS_MOST:  # noqa: PLR2004 (nft allows 16 jumps)
        return None
    name = scope[2]
    if name.startswith(ZONE) and not name.startswith(POLICY) and not name.endswith(ZONE_PARTS):
        walk.zone = name[len(ZONE) :]
    for rule in walk.rules.get(scope, ()):
        walk.steps += 1
        end = run_rule(walk, rule, scope, depth)
        if end is not None:
            return end
    return None


def text_of(item: Mapping[str, Any], key: str) -> str:
    """A field as text."""
    return str(item.get(key, ""))


def priority(chain: Mapping[str, Any]) -> int:
    """A chain's place among those of its hook."""
    value = chain.get("prio", 0)
    return value if isinstance(value, int) else PRIORITIES.get(str(value), 0)


def base_chains(ruleset: Mapping[str, Any], packet: Packet) -> list[Mapping[str, Any]]:
    """The chains that the packet comes through, in order."""
    hooks = HOOKS[packet.hook]
    found = []
    for chain in ruleset.get("chains", []):
        if (
            not isinstance(chain, Mapping)
            or chain.get("hook") not in hooks
            or chain.get("type") == "nat"
        ):
            continue
        if chain.get("family") not in ("inet", "netdev", packet.family):
            continue
        device = chain.get("dev")
        devices = device if isinstance(device, list) else [device]
        if device and packet.interface not in devices:
            continue
        found.append(chain)
    return sorted(found, key=lambda c: (hooks.index(c["hook"]), priority(c)))


def send(ruleset: Mapping[str, Any], packet: Packet) -> Stop:
    """What becomes of the packet. An accepting end has the last chain whose rule accepted, "" when none minded."""
    by_chain: dict[Key, list[Mapping[str, Any]]] = {}
    for rule in ruleset.get("rules", []):
        if isinstance(rule, Mapping):
            key = (text_of(rule, "family"), text_of(rule, "table"), text_of(rule, "chain"))
            by_chain.setdefault(key, []).append(rule)
    sets = {
        (text_of(s, "family"), text_of(s, "table"), text_of(s, "name")): s.get("elem") or []
        for s in ruleset.get("sets", [])
        if isinstance(s, Mapping) and isinstance(s.get("elem") or [], list)
    }
    walk = Walk(packet, by_chain, sets)
    by = ""
    for chain in base_chains(ruleset, packet):
        scope = (text_of(chain, "family"), text_of(chain, "table"), text_of(chain, "name"))
        end = run_chain(walk, scope)
        if isinstance(end, Stop):
            return end
        if end == ACCEPT and chain.get("hook") == packet.hook:
            by = scope[2]
        if (end is None or end == "return") and chain.get("policy") == DROP:
            table, doubts = f"{scope[0]} {scope[1]}", tuple(walk.doubts)
            return Stop(DROP, table, scope[2], 0, "policy drop", False, doubts, walk.zone)
    return Stop(ACCEPT, chain=by, doubts=tuple(walk.doubts), zone=walk.zone)


def part_of(ruleset: Mapping[str, Any], table: str) -> dict[str, Any]:
    """The rules with the chains of one table alone."""
    chains = [
        chain
        for chain in ruleset.get("chains", [])
        if isinstance(chain, Mapping) and f"{chain.get('family')} {chain.get('table')}" == table
    ]
    return {**ruleset, "chains": chains}


def accepts(ruleset: Mapping[str, Any], packet: Packet, table: str) -> bool:
    """Whether a rule of the table accepts the packet, rather than that none minds it."""
    end = send(part_of(ruleset, table), packet)
    return end.verdict == ACCEPT and end.chain != ""


def tables(ruleset: Mapping[str, Any], packet: Packet) -> list[str]:
    """The tables that have a say about the packet: with a chain at its hooks that has rules or a policy of drop."""
    with_rules = {
        (text_of(r, "family"), text_of(r, "table"), text_of(r, "chain"))
        for r in ruleset.get("rules", [])
        if isinstance(r, Mapping)
    }
    found = []
    for chain in base_chains(ruleset, packet):
        key = (text_of(chain, "family"), text_of(chain, "table"), text_of(chain, "name"))
        name = f"{key[0]} {key[1]}"
        wanted = chain.get("hook") == packet.hook
        if wanted and (key in with_rules or chain.get("policy") == DROP) and name not in found:
            found.append(name)
    return found
