"""What the kernel of a node decides about its peers: routes that refuse or lead astray, neighbours typed in by hand.

The kernel was asked in so many words (probe/ways.py), so a cause is said only where its answer shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose.packet_filter import PacketVerdict, find_possible_stops, make_tcp_packet
from fullmesh.observed.ladder import PacketRoute
from fullmesh.observed.survey import Neighbour
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names

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
class BrokenLinks:
    """Links between two nodes that are not whole.

    Attributes:
        pairs: directions.
        ports: of the listeners that were not reached, by direction.
    """

    pairs: tuple[tuple[str, str], ...]
    ports: dict[tuple[str, str], frozenset[int]]


def find_broken_links(look: ClusterEvidence, one: str, other: str) -> BrokenLinks:
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
    return BrokenLinks(tuple(ports), ports)


def list_odd_decisions(look: ClusterEvidence, name: str) -> list[PacketRoute]:
    """The odd decisions of a node's kernel."""
    return look.seen.nodes.get(name, {}).get("links", {}).get("ways", [])


def find_address_owner(look: ClusterEvidence, address: str) -> str:
    """The node that has an address of the plan, "" when none has."""
    return next((n for n in look.nodes if look.address(n) == address), "")


def list_affected_links(
    look: ClusterEvidence, name: str, way: PacketRoute
) -> tuple[tuple[str, str], ...]:
    """The directions that a decision breaks: what the node asks, or what it would have to answer."""
    peer = find_address_owner(look, way["peer"])
    if not peer:
        return ()
    found = find_broken_links(look, name, peer)
    if way["direction"] == "out":
        return tuple(pair for pair in found.pairs if pair == (name, peer))
    if way["direction"] == "answer":
        return tuple(pair for pair in found.pairs if pair == (peer, name))
    return found.pairs


def list_packet_marks(look: ClusterEvidence, name: str) -> set[int]:
    """The marks that a node's packet filter gives to packets."""
    found = set()
    for chain in look.ruleset(name)["chains"].values():
        for rule in chain["rules"]:
            for part in rule["expr"]:
                held = part.get("mangle")
                if isinstance(held, Mapping) and held.get("key") == {"meta": {"key": "mark"}}:
                    found |= {held["value"]} if isinstance(held.get("value"), int) else set()
    return found


def group_route_decisions(
    look: ClusterEvidence, name: str, wanted: bool
) -> dict[tuple[str, str], list[tuple[PacketRoute, tuple[tuple[str, str], ...]]]]:
    """The decisions that break something, those of one refusal or one card together; *wanted*: that refuse."""
    found: dict[tuple[str, str], list[tuple[PacketRoute, tuple[tuple[str, str], ...]]]] = {}
    odd = list_odd_decisions(look, name)
    marked = list_packet_marks(look, name) if odd else set()
    for way in odd:
        if way["mark"] and way["mark"] not in marked:
            continue  # nobody is seen to mark packets so
        if way["uid"] != ANYBODY or bool(way["error"]) != wanted:
            continue
        if way["direction"] == "in" and not (wanted and way["rule"]):
            continue  # rp_filter's doing: DG-141
        pairs = list_affected_links(look, name, way)
        if pairs:
            key = (way["error"], way["rule"]) if wanted else (way["dev"], way["via"])
            found.setdefault(key, []).append((way, pairs))
    return found


def rule_refused_routes(look: ClusterEvidence) -> Iterator[Finding]:
    """A node's kernel refuses to send to a peer: blackhole, prohibit, unreachable, as a route or as a rule."""
    for name in look.nodes:
        for (error, rule), held in group_route_decisions(look, name, True).items():
            peers = sorted({find_address_owner(look, way["peer"]) for way, _ in held})
            kind = KINDS.get(error, error)
            first = held[0][0]
            ports = (
                "all"
                if "port" not in rule
                else join_names(sorted({str(p) for w, _ in held for p in w["ports"]}))
            )
            yield Finding(
                "DG-155",
                "L2",
                f"the kernel of {name} refuses to send to {join_names(peers)}: {rule or kind}",
                node=name,
                peer=join_names(peers),
                port=ports,
                direction=f"{name} -> {join_names(peers)}",
                seen=f"ip route get {first['peer']}{describe_mark(first)}: {error} ({kind})",
                expected=f"a way over {look.cluster_card(name)}",
                fix=f"on {name}: {suggest_route_fix(rule, first['peer'])}",
                pairs=tuple(sorted({pair for _, pairs in held for pair in pairs})),
                kinds=ALL_KINDS,
            )


def describe_mark(way: PacketRoute) -> str:
    """The words that ask for a mark."""
    return f" mark {way['mark']:#x}, which nftables gives" if way["mark"] else ""


def suggest_route_fix(rule: str, peer: str) -> str:
    """The command that takes a refusal away, or shows it."""
    if rule.startswith("rule "):
        return f"ip rule del pref {rule.split()[1].rstrip(':')}"
    if rule:
        return f"ip route del {rule}"
    return f"ip route show table all; ip rule; ip route get {peer}"


def has_working_links(look: ClusterEvidence, pairs: Iterable[tuple[str, str]]) -> bool:
    """Whether all connections of these links come through, only from another address than the cluster's."""
    return all(
        r["verdict"] == "open"
        or (r["verdict"] == "wrong_source" and r["remark"].startswith("open"))
        for source, target in pairs
        for r in look.records(source)
        if r["node"] == target and r["kind"] != "outside"
    )


def rule_wrong_interface(look: ClusterEvidence) -> Iterator[Finding]:
    """A node sends to a peer over another card than the one of the cluster."""
    for name in look.nodes:
        for (card, via), held in group_route_decisions(look, name, False).items():
            own = look.cluster_card(name)
            if not card or (card == own and not via):
                continue  # another source address over the same card: VC-206
            peers = sorted({find_address_owner(look, way["peer"]) for way, _ in held})
            asked = {way["direction"] for way, _ in held}
            what = "answers" if asked == {"answer"} else "packets"
            over = f"{card} to {via}" if via else card
            pairs = tuple(sorted({pair for _, found in held for pair in found}))
            rather = f"not over {own}" if card != own else "although they are next door"
            yield Finding(
                "DG-156",
                "L2",
                f"{what} of {name} to {join_names(peers)} leave over {over}, {rather}",
                node=name,
                peer=join_names(peers),
                port="all",
                direction=f"{name} -> {join_names(peers)}",
                seen=f"ip route get {held[0][0]['peer']} from {look.address(name)}: dev {over}",
                expected=f"dev {own} without a next hop" if card == own else f"dev {own}",
                fix=f"on {name}: ip rule; ip route show table all | grep -w {card}; take the rule or"
                " route away that leads there",
                severity=WARNING if has_working_links(look, pairs) else ERROR,
                pairs=pairs,
                kinds=ALL_KINDS,
            )


def rule_account_routes(look: ClusterEvidence) -> Iterator[Finding]:
    """The kernel refuses, or leads astray, the processes of some accounts only: the probe's own get through."""
    for name in look.nodes:
        ordinary = {
            (w["peer"], w["direction"])
            for w in list_odd_decisions(look, name)
            if w["uid"] == ANYBODY
        }
        told: dict[tuple[int, str], list[PacketRoute]] = {}
        for way in list_odd_decisions(look, name):
            if way["uid"] != ANYBODY and (way["peer"], way["direction"]) not in ordinary:
                told.setdefault((way["uid"], way["rule"] or way["dev"]), []).append(way)
        for (uid, what), held in told.items():
            peers = sorted({n for way in held if (n := find_address_owner(look, way["peer"]))})
            if not peers:
                continue
            verb = "refuses" if held[0]["error"] else f"sends over {what}"
            yield Finding(
                "DG-255",
                "L2",
                f"the kernel of {name} {verb} what account {uid} and its neighbours send to {join_names(peers)}",
                node=name,
                peer=join_names(peers),
                port="all",
                direction=f"{name} -> {join_names(peers)}",
                seen=f"uid {uid}: {held[0]['error'] or 'dev ' + held[0]['dev']}; {what}",
                expected="the same way for all",
                fix=f"on {name}: ip rule | grep uidrange",
                severity=WARNING,
            )


def has_account_rule(look: ClusterEvidence, name: str, table: str) -> bool:
    """Whether a table of a node's packet filter asks whose a packet is (nft(8), skuid and skgid)."""
    texts = [
        json.dumps(rule["expr"])
        for (family, held, _), chain in look.ruleset(name)["chains"].items()
        if f"{family} {held}" == table
        for rule in chain["rules"]
    ]
    return any(f'"{key}"' in text for text in texts for key in ACCOUNTS)


def has_any_account_rule(look: ClusterEvidence, name: str) -> bool:
    """Whether any rule of a node does; its rules are not taken apart for it."""
    text = json.dumps(look.survey(name).get("nft", {}).get("rules", []))
    return any(f'"{key}"' in text for key in ACCOUNTS)


def rule_filtered_accounts(look: ClusterEvidence) -> Iterator[Finding]:
    """A rule of the packet filter stops what some accounts send, and the probe, which is of another, got through."""
    for name in look.nodes:
        told: dict[tuple[str, str], tuple[PacketVerdict, list[str]]] = {}
        if not has_any_account_rule(look, name):
            continue
        for peer in look.peers(name):
            ports = [r["port"] for r in look.records(name) if r["node"] == peer]
            if not ports or find_broken_links(look, name, peer).pairs:
                continue
            card = look.cluster_card(name)
            packet = make_tcp_packet(
                look.address(name), look.address(peer), ports[0], card, outgoing=True
            )
            for stop in find_possible_stops(look.ruleset(name), packet):
                if has_account_rule(look, name, stop.table):
                    told.setdefault((stop.table, stop.chain), (stop, []))[1].append(peer)
        for stop, peers in told.values():
            yield Finding(
                "DG-255",
                "L2",
                f"a rule in chain {stop.chain} of table {stop.table} on {name} stops what some accounts send to"
                f" {join_names(peers)}; the probe's is none of them",
                node=name,
                peer=join_names(peers),
                port="all",
                direction=f"{name} -> {join_names(peers)}",
                seen=f"table {stop.table} chain {stop.chain}: {stop.text}; the table asks for skuid or skgid",
                expected="the same for all accounts",
                fix=f"on {name}: nft list table {stop.table}",
                severity=WARNING,
            )


def is_cluster_neighbour(look: ClusterEvidence, name: str, entry: Neighbour) -> bool:
    """Whether an entry is on the cluster's card."""
    return entry["dev"] in ("", look.cluster_card(name))


def rule_stale_neighbours(look: ClusterEvidence) -> Iterator[Finding]:
    """A neighbour entry has another hardware address than the peer's own, and the kernel will not ask again."""
    owners = {look.address(name): name for name in look.nodes}
    place = {name: number for number, name in enumerate(look.nodes)}
    for name in look.nodes:
        entries = look.seen.nodes[name].get("links", {}).get("neighbours", {}).get("entries", {})
        held = {owners[one]: entry for one, entry in entries.items() if one in owners}
        for peer in sorted(held.keys() - {name}, key=place.__getitem__):
            entry = held[peer]
            own = {card["mac"] for card in look.cards(peer)}
            if not own or entry["mac"] in own or not is_cluster_neighbour(look, name, entry):
                continue
            found = find_broken_links(look, name, peer)
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
                expected=join_names(
                    [c["mac"] for c in look.cards(peer) if c["name"] == look.cluster_card(peer)]
                ),
                fix=f"on {name}: ip neigh del {look.address(peer)} dev {entry['dev']}; find who sets it: ip neigh in"
                " boot scripts, NetworkManager's dispatcher.d, /etc/ethers",
                pairs=found.pairs,
                kinds=ALL_KINDS,
            )


RULES = (
    rule_refused_routes,
    rule_wrong_interface,
    rule_account_routes,
    rule_filtered_accounts,
    rule_stale_neighbours,
)
