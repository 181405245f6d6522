"""What the kernel of a node decides about its peers: routes that refuse or lead astray, neighbours typed in by hand.

The kernel was asked in so many words (probe/ways.py), so a cause is said only where its answer shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fullmesh.diagnose.model import Look
from fullmesh.diagnose.packet_filter import Stop, suspects, tcp
from fullmesh.observed.ladder import Way
from fullmesh.observed.survey import Neighbour
from fullmesh.verify.model import ERROR, WARNING, Finding, in_words

# What connect() and `ip route get` answer for a route of that kind: ip-route(8).
KINDS = {
    "EINVAL": "blackhole",
    "EACCES": "prohibit",
    "EHOSTUNREACH": "unreachable",
    "ENETUNREACH": "no route at all",
}
ANYBODY = -1
ACCOUNTS = ("skuid", "skgid")
ALL_KINDS = ("sample", "range", "master", "rendezvous")


@dataclass(frozen=True)
class Broken:
    """Links between two nodes that are not whole.

    Attributes:
        pairs: directions.
        ports: of the listeners that were not reached, by direction.
    """

    pairs: tuple[tuple[str, str], ...]
    ports: dict[tuple[str, str], frozenset[int]]


def broken_between(look: Look, one: str, other: str) -> Broken:
    """The directions between two nodes in which something did not get through."""
    ports = {}
    for source, target in ((one, other), (other, one)):
        shut = frozenset(
            r["port"]
            for r in look.records(source)
            if r["node"] == target and r["verdict"] != "open" and r["kind"] != "outside"
        )
        if shut:
            ports[(source, target)] = shut
    return Broken(tuple(ports), ports)


def ways(look: Look, name: str) -> list[Way]:
    """The odd decisions of a node's kernel."""
    return look.seen.nodes.get(name, {}).get("links", {}).get("ways", [])


def owner(look: Look, address: str) -> str:
    """The node that has an address of the plan, "" when none has."""
    return next((n for n in look.nodes if look.address(n) == address), "")


def hit(look: Look, name: str, way: Way) -> tuple[tuple[str, str], ...]:
    """The directions that a decision breaks: what the node asks, or what it would have to answer."""
    peer = owner(look, way["peer"])
    if not peer:
        return ()
    found = broken_between(look, name, peer)
    if way["direction"] == "out":
        return tuple(pair for pair in found.pairs if pair == (name, peer))
    if way["direction"] == "answer":
        return tuple(pair for pair in found.pairs if pair == (peer, name))
    return found.pairs


def marks(look: Look, name: str) -> set[int]:
    """The marks that a node's packet filter gives to packets."""
    found = set()
    for chain in look.ruleset(name)["chains"].values():
        for rule in chain["rules"]:
            for part in rule["expr"]:
                held = part.get("mangle")
                if isinstance(held, Mapping) and held.get("key") == {"meta": {"key": "mark"}}:
                    found |= {held["value"]} if isinstance(held.get("value"), int) else set()
    return found


def by_decision(
    look: Look, name: str, wanted: bool
) -> dict[tuple[str, str], list[tuple[Way, tuple[tuple[str, str], ...]]]]:
    """The decisions that break something, those of one refusal or one card together; *wanted*: that refuse."""
    found: dict[tuple[str, str], list[tuple[Way, tuple[tuple[str, str], ...]]]] = {}
    odd = ways(look, name)
    marked = marks(look, name) if odd else set()
    for way in odd:
        if way["mark"] and way["mark"] not in marked:
            continue  # nobody is seen to mark packets so
        if way["uid"] != ANYBODY or bool(way["error"]) != wanted:
            continue
        if way["direction"] == "in" and not (wanted and way["rule"]):
            continue  # rp_filter's doing: DG-141
        pairs = hit(look, name, way)
        if pairs:
            key = (way["error"], way["rule"]) if wanted else (way["dev"], way["via"])
            found.setdefault(key, []).append((way, pairs))
    return found


def rule_refused(look: Look) -> Iterator[Finding]:
    """A node's kernel refuses to send to a peer: blackhole, prohibit, unreachable, as a route or as a rule."""
    for name in look.nodes:
        for (error, rule), held in by_decision(look, name, True).items():
            peers = sorted({owner(look, way["peer"]) for way, _ in held})
            kind = KINDS.get(error, error)
            first = held[0][0]
            ports = (
                "all"
                if "port" not in rule
                else in_words(sorted({str(p) for w, _ in held for p in w["ports"]}))
            )
            yield Finding(
                "DG-155",
                "L2",
                f"the kernel of {name} refuses to send to {in_words(peers)}: {rule or kind}",
                node=name,
                peer=in_words(peers),
                port=ports,
                direction=f"{name} -> {in_words(peers)}",
                seen=f"ip route get {first['peer']}{with_mark(first)}: {error} ({kind})",
                expected=f"a way over {look.cluster_card(name)}",
                fix=f"on {name}: {remedy(rule, first['peer'])}",
                pairs=tuple(sorted({pair for _, pairs in held for pair in pairs})),
                kinds=ALL_KINDS,
            )


def with_mark(way: Way) -> str:
    """The words that ask for a mark."""
    return f" mark {way['mark']:#x}, which nftables gives" if way["mark"] else ""


def remedy(rule: str, peer: str) -> str:
    """The command that takes a refusal away, or shows it."""
    if rule.startswith("rule "):
        return f"ip rule del pref {rule.split()[1].rstrip(':')}"
    if rule:
        return f"ip route del {rule}"
    return f"ip route show table all; ip rule; ip route get {peer}"


def works(look: Look, pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether all connections of these links come through, only from another address than the cluster's."""
    return all(
        r["verdict"] == "open"
        or (r["verdict"] == "wrong_source" and r["remark"].startswith("open"))
        for source, target in pairs
        for r in look.records(source)
        if r["node"] == target and r["kind"] != "outside"
    )


def rule_astray(look: Look) -> Iterator[Finding]:
    """A node sends to a peer over another card than the one of the cluster."""
    for name in look.nodes:
        for (card, via), held in by_decision(look, name, False).items():
            own = look.cluster_card(name)
            if not card or (card == own and not via):
                continue  # another source address over the same card: VC-206
            peers = sorted({owner(look, way["peer"]) for way, _ in held})
            asked = {way["direction"] for way, _ in held}
            what = "answers" if asked == {"answer"} else "packets"
            over = f"{card} to {via}" if via else card
            pairs = tuple(sorted({pair for _, found in held for pair in found}))
            rather = f"not over {own}" if card != own else "although they are next door"
            yield Finding(
                "DG-156",
                "L2",
                f"{what} of {name} to {in_words(peers)} leave over {over}, {rather}",
                node=name,
                peer=in_words(peers),
                port="all",
                direction=f"{name} -> {in_words(peers)}",
                seen=f"ip route get {held[0][0]['peer']} from {look.address(name)}: dev {over}",
                expected=f"dev {own} without a next hop" if card == own else f"dev {own}",
                fix=f"on {name}: ip rule; ip route show table all | grep -w {card}; take the rule or"
                " route away that leads there",
                severity=WARNING if works(look, pairs) else ERROR,
                pairs=pairs,
                kinds=ALL_KINDS,
            )


def rule_accounts(look: Look) -> Iterator[Finding]:
    """The kernel refuses, or leads astray, the processes of some accounts only: the probe's own get through."""
    for name in look.nodes:
        ordinary = {(w["peer"], w["direction"]) for w in ways(look, name) if w["uid"] == ANYBODY}
        told: dict[tuple[int, str], list[Way]] = {}
        for way in ways(look, name):
            if way["uid"] != ANYBODY and (way["peer"], way["direction"]) not in ordinary:
                told.setdefault((way["uid"], way["rule"] or way["dev"]), []).append(way)
        for (uid, what), held in told.items():
            peers = sorted({n for way in held if (n := owner(look, way["peer"]))})
            if not peers:
                continue
            verb = "refuses" if held[0]["error"] else f"sends over {what}"
            yield Finding(
                "DG-255",
                "L2",
                f"the kernel of {name} {verb} what account {uid} and its neighbours send to {in_words(peers)}",
                node=name,
                peer=in_words(peers),
                port="all",
                direction=f"{name} -> {in_words(peers)}",
                seen=f"uid {uid}: {held[0]['error'] or 'dev ' + held[0]['dev']}; {what}",
                expected="the same way for all",
                fix=f"on {name}: ip rule | grep uidrange",
                severity=WARNING,
            )


def by_account(look: Look, name: str, table: str) -> bool:
    """Whether a table of a node's packet filter asks whose a packet is (nft(8), skuid and skgid)."""
    texts = [
        json.dumps(rule["expr"])
        for (family, held, _), chain in look.ruleset(name)["chains"].items()
        if f"{family} {held}" == table
        for rule in chain["rules"]
    ]
    return any(f'"{key}"' in text for text in texts for key in ACCOUNTS)


def asks_for_accounts(look: Look, name: str) -> bool:
    """Whether any rule of a node does; its rules are not taken apart for it."""
    text = json.dumps(look.survey(name).get("nft", {}).get("rules", []))
    return any(f'"{key}"' in text for key in ACCOUNTS)


def rule_filtered_accounts(look: Look) -> Iterator[Finding]:
    """A rule of the packet filter stops what some accounts send, and the probe, which is of another, got through."""
    for name in look.nodes:
        told: dict[tuple[str, str], tuple[Stop, list[str]]] = {}
        if not asks_for_accounts(look, name):
            continue
        for peer in look.peers(name):
            ports = [r["port"] for r in look.records(name) if r["node"] == peer]
            if not ports or broken_between(look, name, peer).pairs:
                continue
            card = look.cluster_card(name)
            packet = tcp(look.address(name), look.address(peer), ports[0], card, outgoing=True)
            for stop in suspects(look.ruleset(name), packet):
                if by_account(look, name, stop.table):
                    told.setdefault((stop.table, stop.chain), (stop, []))[1].append(peer)
        for stop, peers in told.values():
            yield Finding(
                "DG-255",
                "L2",
                f"a rule in chain {stop.chain} of table {stop.table} on {name} stops what some accounts send to"
                f" {in_words(peers)}; the probe's is none of them",
                node=name,
                peer=in_words(peers),
                port="all",
                direction=f"{name} -> {in_words(peers)}",
                seen=f"table {stop.table} chain {stop.chain}: {stop.text}; the table asks for skuid or skgid",
                expected="the same for all accounts",
                fix=f"on {name}: nft list table {stop.table}",
                severity=WARNING,
            )


def of_cluster(look: Look, name: str, entry: Neighbour) -> bool:
    """Whether an entry is on the cluster's card."""
    return entry["dev"] in ("", look.cluster_card(name))


def rule_neighbours(look: Look) -> Iterator[Finding]:
    """A neighbour entry has another hardware address than the peer's own, and the kernel will not ask again."""
    owners = {look.address(name): name for name in look.nodes}
    place = {name: number for number, name in enumerate(look.nodes)}
    for name in look.nodes:
        entries = look.seen.nodes[name].get("links", {}).get("neighbours", {}).get("entries", {})
        held = {owners[one]: entry for one, entry in entries.items() if one in owners}
        for peer in sorted(held.keys() - {name}, key=place.__getitem__):
            entry = held[peer]
            own = {card["mac"] for card in look.cards(peer)}
            if not own or entry["mac"] in own or not of_cluster(look, name, entry):
                continue
            found = broken_between(look, name, peer)
            if not found.pairs or not entry.get("by_hand"):
                continue
            yield Finding(
                "DG-157",
                "L2",
                f"{name} sends what is for {peer} to {entry['mac'] or 'nobody'}, which is not {peer}'s card: a"
                " neighbour entry made by hand",
                node=name,
                peer=peer,
                port="all",
                direction=f"{name} -> {peer}",
                seen=f"{look.address(peer)} lladdr {entry['mac']} {entry.get('nud') or 'PERMANENT or NOARP'}: the"
                " kernel never asks anew",
                expected=in_words(
                    [c["mac"] for c in look.cards(peer) if c["name"] == look.cluster_card(peer)]
                ),
                fix=f"on {name}: ip neigh del {look.address(peer)} dev {entry['dev']}; find who sets it: ip neigh in"
                " boot scripts, NetworkManager's dispatcher.d, /etc/ethers",
                pairs=found.pairs,
                kinds=ALL_KINDS,
            )


RULES = (rule_refused, rule_astray, rule_accounts, rule_filtered_accounts, rule_neighbours)
