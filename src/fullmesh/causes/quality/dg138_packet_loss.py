"""Packets are lost on a link

Each lost segment delays a connection by 200 ms or more until TCP sends it again. With a few per
cent of loss, collectives are very slow. With 40 %, they fail.

**Prove:** nstat -az TcpRetransSegs && ip -s link && ethtool -S INTERFACE

**Fix:** Replace the cable or optics, correct the duplex mode, or change the switch queues.

**Source:** TCP_INFO, without needless repetitions (DSACK), measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.quality.link_quality import (
    HURT_SHARE,
    OFTEN_LEAST,
    SLOW_MBIT,
    count_lossy_connections,
    find_dropping_rule,
    find_rate_culprits,
)
from fullmesh.causes.relations import SHUT, WALLS, is_return_path
from fullmesh.result.findings import Finding

LOST_LEAST, LOST_SHARE = (
    5,
    0.01,
)  # segments, and their share: a healthy network loses none between two nodes


NODES = ("node", "out", "in")


def count_retransmits(evidence: ClusterEvidence, source: str, target: str) -> tuple[int, int, int]:
    """Count retransmitted segments, all segments (both ways) and connections, of the connections that opened."""
    good = [r for r in evidence.records(source) if r["node"] == target and r["verdict"] == "open"]
    back = (
        evidence.seen.nodes.get(target, {})
        .get("started", {})
        .get("listeners", {})
        .get("lost", {})
        .get(source, [])
    )
    again = sum(r.get("lost", 0) for r in good) + (back[0] if len(back) == 2 else 0)  # noqa: PLR2004 (lost and sent)
    total = sum(r.get("segments", 0) for r in good) + (back[1] if len(back) == 2 else 0)  # noqa: PLR2004 (as above)
    return again, total, len(good)


def list_lossy_pairs(evidence: ClusterEvidence) -> list[tuple[str, str]]:
    """List the pairs of nodes with retransmitted segments, each once, in the plan's order."""
    place = {name: number for number, name in enumerate(evidence.nodes)}
    found: set[tuple[int, int]] = set()
    for name in evidence.nodes:
        seen: Mapping[str, Sequence[int]] = (
            evidence.seen.nodes.get(name, {})
            .get("started", {})
            .get("listeners", {})
            .get("lost", {})
        )
        peers = [r["node"] for r in evidence.records(name) if r.get("lost")]
        peers += [peer for peer, held in seen.items() if held and held[0]]
        for peer in peers:
            if peer in place and peer != name:
                low, high = sorted((place[name], place[peer]))
                found.add((low, high))
    return [(evidence.nodes[low], evidence.nodes[high]) for low, high in sorted(found)]


def is_rate_limited(evidence: ClusterEvidence, source: str, target: str) -> bool:
    """Return whether one connection alone is slow and loses nothing: only many at once overflow the queue."""
    return any(
        rate["mbit_s"] < SLOW_MBIT and rate["bytes"] and not rate.get("lost")
        for name, peer in ((source, target), (target, source))
        for rate in evidence.seen.nodes[name].get("links", {}).get("bandwidth", [])
        if rate["node"] == peer
    )


def rule_packet_loss(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report packet loss between two nodes."""
    # A node that is slow to all peers also loses packets. One finding about its rate is enough.
    slow = {
        frozenset(way)
        for one in find_rate_culprits(evidence)
        if one.kind in NODES
        for way in one.ways
    }
    for source, target in list_lossy_pairs(evidence):
        there, back = (
            count_retransmits(evidence, source, target),
            count_retransmits(evidence, target, source),
        )
        again, total = there[0] + back[0], there[1] + back[1]
        bad, tried = max(
            (
                count_lossy_connections(evidence, source, target),
                count_lossy_connections(evidence, target, source),
            ),
            key=lambda one: one[0],
        )
        often = bad >= OFTEN_LEAST and bad >= HURT_SHARE * tried
        much = again >= LOST_LEAST and again >= LOST_SHARE * total
        if not total or not (often or much):
            continue
        culprit = find_dropping_rule(evidence, source, target)
        if not culprit and frozenset((source, target)) in slow:
            continue
        if not culprit and is_rate_limited(evidence, source, target):
            continue
        node, by = (culprit[0], culprit[1]) if culprit else (source, None)
        where = (
            f", a rule in chain {by.chain} of table {by.table} on {node} stops some" if by else ""
        )
        shown = f", table {by.table} chain {by.chain}: {by.text}" if by else ""
        yield Finding(
            "DG-138",
            "L2",
            f"packets are lost between {source} and {target}: {again / total:.1%} of segments are resent{where}",
            node=node,
            peer=target if node == source else source,
            port="all",
            direction=f"{source} <-> {target}",
            seen=f"{again} of {total} segments sent again, on {bad} of {tried} connections one way{shown}",
            expected="none",
            check=f"on {node}: nft list chain {by.table} {by.chain}"
            if by
            else f"on both: ip -s link show {evidence.get_cluster_interface(source) or 'INTERFACE'}; ethtool -S",
            fix=f"on {node}: remove that rule"
            if by
            else "replace the cable, correct the switch port, or remove a rule with a rate or a random number",
            pairs=((source, target), (target, source)),
            kinds=("sample", "range", "master", "rendezvous"),
        )


CAUSE = Cause(
    "DG-138",
    __doc__,
    find=rule_packet_loss,
    weight=870,
    explains=(Explains((*SHUT, "VC-207", "VC-208", "VC-209", *WALLS, "DG-139"), is_return_path),),
    cases=(CauseCase("loss", "nft numgen random mod 100 < 20 drop, both directions", fields=LINK),),
)
