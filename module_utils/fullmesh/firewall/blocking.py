# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the rules that keep peers from the plan's ports, by evaluating possible packets.

Standard library only.

All packets between two bounds in the rules are alike, so one of each stretch is enough.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from ..netfilter.evaluator import (
    FAMILIES,
    FORWARDED,
    Packet,
    PacketWalk,
    is_about_packet,
    order_base_chains,
)
from ..netfilter.ruleset import parse_interval
from ..schema.ports import parse_port_range

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..netfilter.ruleset import NftRule, Ruleset
    from .types import BlockerQuery, PeerBlocker

    Key = tuple[str, str, str]
    Spans = Iterator[tuple[str, int, int]]


def collect_bounds(ruleset: Ruleset, chains: list[Key]) -> dict[str, list[int]]:
    """Collect every bound of an address or number in the rules. All packets between two bounds are alike."""
    cuts: dict[str, set[int]] = {"4": set(), "6": set(), "n": set()}

    def note(spans: Any) -> None:
        for kind, low, high in spans:
            cuts[kind].update((low, high + 1))

    for key in chains:
        for rule in ruleset["chains"][key]["rules"]:
            for part in rule["expr"]:
                note(find_intervals(part))
    for values in ruleset["sets"].values():
        note((kind, low, high) for kind in values.spans for low, high in values.spans[kind])
        if values.odd:  # a map's pairs
            note(find_intervals(values.items))
    return {kind: sorted(cuts[kind]) for kind in cuts}


def find_intervals(item: Any) -> Spans:
    """Yield every interval in an expression, at any depth."""
    span = parse_interval(item)
    if span:
        yield span
        return
    inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
    for one in inner:
        yield from find_intervals(one)


def pick_sample_ports(port: str, cuts: list[int]) -> list[int]:
    """Return one port of each stretch of ``50000-54095`` that the rules distinguish.

    Raises:
        ValueError: it is not a range of ports. A result without it would mean that the peers are not blocked.
    """
    span = parse_port_range(port)
    if span is None:
        raise ValueError(f"{port!r} is not a range of ports")
    inside = cuts[bisect.bisect_right(cuts, span.first) : bisect.bisect_right(cuts, span.last)]
    return [span.first, *inside]


def pick_sample_senders(peers: list[str], cuts: list[int]) -> list[str]:
    """Return one address of each stretch that the rules distinguish."""
    chosen: dict[int, str] = {}
    for peer in peers:
        span = parse_interval(peer)
        if span:
            chosen.setdefault(bisect.bisect_right(cuts, span[1]), peer)
    return list(chosen.values())


# --- the answer ---------------------------------------------------------------------------------


def build_sample_packets(
    want: BlockerQuery, family: str, cuts: dict[str, list[int]]
) -> list[Packet]:
    """Build the first packets that peers may send to this node.

    *want*: peers ({"4": [...], "6": [...]}), ports (``29500/tcp``), own ({"4": address}), interface.
    """
    found = []
    own = want["own"].get(family, "")
    for port in want["ports"]:
        numbers, _, protocol = port.partition("/")
        for number in pick_sample_ports(numbers, cuts["n"]):
            for sender in pick_sample_senders(want["peers"].get(family, []), cuts[family]):
                found.append(Packet(family, sender, own, protocol, number, want["interface"]))
    return found


def find_peer_blockers(ruleset: Ruleset, want: BlockerQuery) -> list[PeerBlocker]:
    """Return the rules that keep peers from the plan's ports, one entry per rule with an example.

    Each has table, chain, hook, handle, line, word (``drop``, ``divert``), sure, port, sender, and family.
    """
    found: dict[Any, PeerBlocker] = {}
    for family in sorted(FAMILIES):
        reach = [key for key in ruleset["chains"] if key[0] in FAMILIES[family]]
        cuts = collect_bounds(ruleset, reach)
        for packet in build_sample_packets(want, family, cuts):
            for base, key, rule, word in find_packet_blockers(ruleset, packet):
                record_blocker(found, (ruleset["chains"][base]["hook"], key, rule), word, packet)
    return list(found.values())


def find_packet_blockers(
    ruleset: Ruleset, packet: Packet
) -> Iterator[tuple[Key, Key, NftRule, tuple[str, bool]]]:
    """Yield the rules that block a packet, or may block it: (base chain, chain, rule, (word, sure))."""
    walk = PacketWalk(ruleset, packet)
    for base in order_base_chains(ruleset, packet, FORWARDED):
        end = walk.base(base)
        if end.word in ("", "accept") or end.rule is None:
            continue
        if end.sure:
            yield base, end.key, end.rule, ("divert" if end.word == "divert" else "drop", True)
        else:
            yield end.key, end.key, end.rule, ("drop", False)
    for key, rule in walk.maybe:
        if is_about_packet(key, rule, walk):
            yield key, key, rule, ("drop", False)


def record_blocker(
    found: dict[Any, PeerBlocker],
    where: tuple[str | None, Key, NftRule],
    verdict: tuple[str, bool],
    packet: Packet,
) -> None:
    """Keep the first example for each rule."""
    hook, key, rule = where
    identity = (key, id(rule) if rule["expr"] else "policy", verdict[1])
    if identity in found:
        return
    found[identity] = {
        "family": key[0],
        "table": key[1],
        "chain": key[2],
        "hook": hook,
        "handle": rule["handle"],
        "line": rule["line"],
        "word": verdict[0],
        "sure": verdict[1],
        "port": f"{packet.dport}/{packet.protocol}",
        "sender": packet.saddr,
    }
