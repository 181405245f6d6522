"""Links that are open and bad: loss, rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from fullmesh.diagnose.model import Look
from fullmesh.diagnose.packet_filter import Stop, answer, suspects, tcp
from fullmesh.diagnose.rates import Blame, Way, blame
from fullmesh.observed.ladder import BY_CHANCE
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.verify.model import Finding, in_words

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


def lost(look: Look, source: str, target: str) -> tuple[int, int, int]:
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


def hurt(look: Look, source: str, target: str) -> tuple[int, int]:
    """Of the connections of a link that came through: those that had to send something again, and all."""
    good = [r for r in look.records(source) if r["node"] == target and r["verdict"] == "open"]
    return sum(bool(r.get("lost")) for r in good), len(good)


def by_chance(look: Look, source: str, target: str) -> bool:
    """What passes on a link at one time is lost at another, so two tries of which one passed say nothing."""
    held = [r for r in look.records(source) if r["node"] == target]
    bad, tried = hurt(look, source, target)
    repeated = sum(r.get("lost", 0) for r in held if r["verdict"] == "open")
    again = any(r["remark"].startswith(BY_CHANCE) for r in held)
    return again or (repeated >= HURT_LEAST and bad >= HURT_SHARE * tried)


def thrown_away(look: Look, source: str, target: str) -> tuple[str, Stop] | None:
    """The rule of one of two nodes that may throw away some of what they send to each other, and where it is."""
    for near, far in ((source, target), (target, source)):
        port = next((r["port"] for r in look.records(near) if r["node"] == far), 0)
        cards = look.cluster_card(near), look.cluster_card(far)
        asked = tcp(look.address(near), look.address(far), port, cards[1])
        left = tcp(look.address(near), look.address(far), port, cards[0], outgoing=True)
        back = KERNEL_RANGE.last
        for node, packet in (
            (far, asked),
            (near, left),
            (far, answer(asked, back)),
            (near, answer(left, back)),
        ):
            for stop in suspects(look.ruleset(node), packet):
                return node, stop
    return None


def that_lost(look: Look) -> list[tuple[str, str]]:
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


def rule_loss(look: Look) -> Iterator[Finding]:
    """Nothing is lost between two nodes."""
    # Who is slow to everybody loses what does not fit through: that is one finding, of the rate.
    slow = {frozenset(way) for one in blamed(look) if one.kind in NODES for way in one.ways}
    for source, target in that_lost(look):
        there, back = lost(look, source, target), lost(look, target, source)
        again, total = there[0] + back[0], there[1] + back[1]
        bad, tried = max(
            (hurt(look, source, target), hurt(look, target, source)), key=lambda one: one[0]
        )
        often = bad >= OFTEN_LEAST and bad >= HURT_SHARE * tried
        much = again >= LOST_LEAST and again >= LOST_SHARE * total
        if not total or not (often or much):
            continue
        culprit = thrown_away(look, source, target)
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


def measured(look: Look) -> dict[Way, float]:
    """The rates that were measured, in Mbit/s."""
    return {
        (name, rate["node"]): rate["mbit_s"]
        for name in look.nodes
        for rate in look.seen.nodes[name].get("links", {}).get("bandwidth", [])
    }


def least_of(look: Look, rates: Mapping[Way, float]) -> dict[Way, float]:
    """The rate below which each way is slow."""
    usual = median(rates.values()) if rates else 0.0
    return {way: floor(look, way[0], usual, len(rates)) for way in rates}


def blamed(look: Look) -> list[Blame]:
    """Who makes ways slow."""
    rates = measured(look)
    least = least_of(look, rates)
    return blame(rates, [way for way, rate in rates.items() if rate < least[way]])


def rule_rate(look: Look) -> Iterator[Finding]:
    """No link is far slower than its card or than the others; of slow ones the card, node or link is named."""
    rates = measured(look)
    for one in blamed(look):
        yield slow_finding(look, one, rates, least_of(look, rates))


def slow_finding(
    look: Look, one: Blame, rates: Mapping[Way, float], least: Mapping[Way, float]
) -> Finding:
    """Slow ways that have one reason."""
    # Both directions are measured at once, and what is slow one way delays the acknowledgements of the other.
    ways = one.ways[:1] if one.kind == "link" else one.ways
    worst = min(ways, key=lambda way: rates[way])
    node = one.node or look.master
    side = {"out": 0, "in": 1}.get(one.kind)
    felt = [way for way in ways if side is None or way[side] == node]
    peers = in_words(sorted({end for way in ways for end in way} - {node}))
    card, best = look.cluster_card(node) or "INTERFACE", max(rates[way] for way in felt)
    words = {
        "all": f"every link is slow: at best {best:.0f} Mbit/s",
        "node": f"{node} sends and receives at most {best:.0f} Mbit/s, whoever the peer is: its card, cable or switch"
        f" port{of_card(look, node)}",
        "out": f"{node} sends at most {best:.0f} Mbit/s, whoever the peer is{of_card(look, node)}",
        "in": f"{node} receives at most {best:.0f} Mbit/s, whoever the peer is{of_card(look, node)}",
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


def of_card(look: Look, name: str) -> str:
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
        said.append(f"{own['name']} counts {in_words(wrong)}")
    return f" ({'; '.join(said)})" if said else ""


def floor(look: Look, name: str, usual: float, count: int) -> float:
    """The rate below which a link is called slow."""
    card = look.card(name, look.cluster_card(name))
    speed = float(card["speed"]) if card and card["physical"] else 0.0
    among = SLOW_SHARE * usual if count > 2 else 0.0  # noqa: PLR2004 (two nodes have two links, and no usual)
    # A card that says nothing true of itself (a virtual one) counts for nothing here.
    return max(SLOW_MBIT, min(SLOW_SHARE * speed, 1000.0), among)


RULES = (rule_loss, rule_rate)
