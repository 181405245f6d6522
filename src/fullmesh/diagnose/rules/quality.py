"""Links that are open and bad: loss, rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose.packet_filter import (
    PacketVerdict,
    find_possible_stops,
    make_reply_packet,
    make_tcp_packet,
)
from fullmesh.diagnose.rates import SlowCulprit, Way, find_slow_culprits
from fullmesh.observed.ladder import BY_CHANCE
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.result.findings import Finding, join_names

LOST_LEAST, LOST_SHARE = (
    5,
    0.01,
)  # segments, and share of all: a healthy network loses none between two nodes
# Of connections: where only first packets are lost, they are few among all that carry data.
HURT_LEAST, OFTEN_LEAST, HURT_SHARE = 2, 3, 0.2
SLOW_MBIT = 100.0  # no cluster network is slower than this; a Gloo job at it moves 12 MB/s
NODES = ("node", "out", "in")
CARD_ERRORS = ("rx_crc", "rx_errors", "rx_frame", "tx_errors", "tx_carrier")
SLOW_SHARE = 0.1  # of the card's speed, or of the other links' median


def count_retransmits(look: ClusterEvidence, source: str, target: str) -> tuple[int, int, int]:
    """Segments sent again and all segments, both ways, on connections that came through; and how many came through."""
    good = [r for r in look.records(source) if r["node"] == target and r["verdict"] == "open"]
    back = (
        look.seen.nodes.get(target, {})
        .get("started", {})
        .get("listeners", {})
        .get("lost", {})
        .get(source, [])
    )
    again = sum(r.get("lost", 0) for r in good) + (back[0] if len(back) == 2 else 0)  # noqa: PLR2004 (lost and sent)
    total = sum(r.get("segments", 0) for r in good) + (back[1] if len(back) == 2 else 0)  # noqa: PLR2004 (as above)
    return again, total, len(good)


def count_lossy_connections(look: ClusterEvidence, source: str, target: str) -> tuple[int, int]:
    """Of the connections of a link that came through: those that had to send something again, and all."""
    good = [r for r in look.records(source) if r["node"] == target and r["verdict"] == "open"]
    return sum(bool(r.get("lost")) for r in good), len(good)


def is_random_loss(look: ClusterEvidence, source: str, target: str) -> bool:
    """What passes on a link at one time is lost at another, so two tries of which one passed say nothing."""
    held = [r for r in look.records(source) if r["node"] == target]
    bad, tried = count_lossy_connections(look, source, target)
    repeated = sum(r.get("lost", 0) for r in held if r["verdict"] == "open")
    again = any(r["remark"].startswith(BY_CHANCE) for r in held)
    return again or (repeated >= HURT_LEAST and bad >= HURT_SHARE * tried)


def find_dropping_rule(
    look: ClusterEvidence, source: str, target: str
) -> tuple[str, PacketVerdict] | None:
    """The rule of one of two nodes that may throw away some of what they send to each other, and where it is."""
    for near, far in ((source, target), (target, source)):
        port = next((r["port"] for r in look.records(near) if r["node"] == far), 0)
        cards = look.cluster_card(near), look.cluster_card(far)
        asked = make_tcp_packet(look.address(near), look.address(far), port, cards[1])
        left = make_tcp_packet(look.address(near), look.address(far), port, cards[0], outgoing=True)
        back = KERNEL_RANGE.last
        for node, packet in (
            (far, asked),
            (near, left),
            (far, make_reply_packet(asked, back)),
            (near, make_reply_packet(left, back)),
        ):
            for stop in find_possible_stops(look.ruleset(node), packet):
                return node, stop
    return None


def list_lossy_pairs(look: ClusterEvidence) -> list[tuple[str, str]]:
    """The pairs of nodes between which anything had to be sent again, each once, in the plan's order."""
    place = {name: number for number, name in enumerate(look.nodes)}
    found: set[tuple[int, int]] = set()
    for name in look.nodes:
        seen: Mapping[str, Sequence[int]] = (
            look.seen.nodes.get(name, {}).get("started", {}).get("listeners", {}).get("lost", {})
        )
        peers = [r["node"] for r in look.records(name) if r.get("lost")]
        peers += [peer for peer, held in seen.items() if held and held[0]]
        for peer in peers:
            if peer in place and peer != name:
                low, high = sorted((place[name], place[peer]))
                found.add((low, high))
    return [(look.nodes[low], look.nodes[high]) for low, high in sorted(found)]


def rule_packet_loss(look: ClusterEvidence) -> Iterator[Finding]:
    """Nothing is lost between two nodes."""
    # Who is slow to everybody loses what does not fit through: that is one finding, of the rate.
    slow = {
        frozenset(way) for one in find_rate_culprits(look) if one.kind in NODES for way in one.ways
    }
    for source, target in list_lossy_pairs(look):
        there, back = (
            count_retransmits(look, source, target),
            count_retransmits(look, target, source),
        )
        again, total = there[0] + back[0], there[1] + back[1]
        bad, tried = max(
            (
                count_lossy_connections(look, source, target),
                count_lossy_connections(look, target, source),
            ),
            key=lambda one: one[0],
        )
        often = bad >= OFTEN_LEAST and bad >= HURT_SHARE * tried
        much = again >= LOST_LEAST and again >= LOST_SHARE * total
        if not total or not (often or much):
            continue
        culprit = find_dropping_rule(look, source, target)
        if not culprit and frozenset((source, target)) in slow:
            continue
        node, by = (culprit[0], culprit[1]) if culprit else (source, None)
        where = (
            f"; a rule in chain {by.chain} of table {by.table} on {node} stops some" if by else ""
        )
        shown = f"; table {by.table} chain {by.chain}: {by.text}" if by else ""
        yield Finding(
            "DG-138",
            "L2",
            f"packets are lost between {source} and {target}: {again / total:.1%} of all had to be sent again{where}",
            node=node,
            peer=target if node == source else source,
            port="all",
            direction=f"{source} <-> {target}",
            seen=f"{again} of {total} segments sent again, on {bad} of {tried} connections one way{shown}",
            expected="none",
            fix=f"on {node}: nft list chain {by.table} {by.chain}"
            if by
            else f"on both: ip -s link show {look.cluster_card(source) or 'INTERFACE'}; ethtool -S; look at cables,"
            " switch ports, and rules with a rate or a random number",
            pairs=((source, target), (target, source)),
            kinds=("sample", "range", "master", "rendezvous"),
        )


def read_measured_rates(look: ClusterEvidence) -> dict[Way, float]:
    """The rates that were measured, in Mbit/s."""
    return {
        (name, rate["node"]): rate["mbit_s"]
        for name in look.nodes
        for rate in look.seen.nodes[name].get("links", {}).get("bandwidth", [])
    }


def compute_rate_floors(look: ClusterEvidence, rates: Mapping[Way, float]) -> dict[Way, float]:
    """The rate below which each way is slow."""
    usual = median(rates.values()) if rates else 0.0
    return {way: compute_rate_floor(look, way[0], usual, len(rates)) for way in rates}


def find_rate_culprits(look: ClusterEvidence) -> list[SlowCulprit]:
    """Who makes ways slow."""
    rates = read_measured_rates(look)
    least = compute_rate_floors(look, rates)
    return find_slow_culprits(rates, [way for way, rate in rates.items() if rate < least[way]])


def rule_slow_rates(look: ClusterEvidence) -> Iterator[Finding]:
    """No link is far slower than its card or than the others; of slow ones the card, node or link is named."""
    rates = read_measured_rates(look)
    for one in find_rate_culprits(look):
        yield make_rate_finding(look, one, rates, compute_rate_floors(look, rates))


def make_rate_finding(
    look: ClusterEvidence, one: SlowCulprit, rates: Mapping[Way, float], least: Mapping[Way, float]
) -> Finding:
    """Slow ways that have one reason."""
    # Both directions are measured at once, and what is slow one way delays the acknowledgements of the other.
    ways = one.ways[:1] if one.kind == "link" else one.ways
    worst = min(ways, key=lambda way: rates[way])
    node = one.node or look.master
    side = {"out": 0, "in": 1}.get(one.kind)
    felt = [way for way in ways if side is None or way[side] == node]
    peers = join_names(sorted({end for way in ways for end in way} - {node}))
    card, best = look.cluster_card(node) or "INTERFACE", max(rates[way] for way in felt)
    words = {
        "all": f"every link is slow: at best {best:.0f} Mbit/s",
        "node": f"{node} sends and receives at most {best:.0f} Mbit/s, whoever the peer is: its card, cable or switch"
        f" port{describe_interface_fault(look, node)}",
        "out": f"{node} sends at most {best:.0f} Mbit/s, whoever the peer is{describe_interface_fault(look, node)}",
        "in": f"{node} receives at most {best:.0f} Mbit/s, whoever the peer is{describe_interface_fault(look, node)}",
        "link": f"{worst[0]} sends {rates[worst]:.0f} Mbit/s to {worst[1]}, which is far too slow",
    }
    arrow = {
        "in": f"{peers} -> {node}",
        "node": f"{node} <-> {peers}",
        "all": f"{node} <-> {peers}",
    }
    also = f"; and the same on {worst[1]}" if one.kind == "link" else ""
    return Finding(
        "DG-139",
        "L2",
        words[one.kind],
        node=node,
        peer=peers,
        port="all",
        direction=arrow.get(one.kind, f"{node} -> {peers}"),
        seen=f"{rates[worst]:.1f} Mbit/s",
        expected=f"at least {least[worst]:.0f} Mbit/s",
        fix="look at the switch, and at what all nodes have alike"
        if one.kind == "all"
        else f"on {node}: tc qdisc show; ethtool {card}; ip -s link show {card}{also}",
        pairs=tuple(ways),
    )


def describe_interface_fault(look: ClusterEvidence, name: str) -> str:
    """What a node's card says of itself that the others' do not."""
    cards = {one: look.card(one, look.cluster_card(one)) for one in look.nodes}
    own, others = cards.get(name), [card for one, card in cards.items() if card and one != name]
    if not own:
        return ""
    speed = max((card["speed"] for card in others), default=0)
    said = []
    if 0 < own["speed"] < speed:
        said.append(f"{own['name']} runs at {own['speed']} Mbit/s, others' at {speed}")
    if own["duplex"] == "half":
        said.append(f"{own['name']} is half duplex")
    wrong = [key for key, count in own["errors"].items() if count and key.startswith(CARD_ERRORS)]
    if wrong:
        said.append(f"{own['name']} counts {join_names(wrong)}")
    return f" ({'; '.join(said)})" if said else ""


def compute_rate_floor(look: ClusterEvidence, name: str, usual: float, count: int) -> float:
    """The rate below which a link is called slow."""
    card = look.card(name, look.cluster_card(name))
    speed = float(card["speed"]) if card and card["physical"] else 0.0
    among = SLOW_SHARE * usual if count > 2 else 0.0  # noqa: PLR2004 (two nodes have two links, and no usual)
    # A card that says nothing true of itself (a virtual one) counts for nothing here.
    return max(SLOW_MBIT, min(SLOW_SHARE * speed, 1000.0), among)


RULES = (rule_packet_loss, rule_slow_rates)
