"""A node translates the source address of packets to its peers (SNAT or MASQUERADE)

A rule in a nat chain replaces the cluster address of outgoing packets. Replies go to the new
address, or the peer's firewall drops the packets, because it accepts the cluster addresses only.
Rules for containers, VPNs and internet sharing do that if they match too much.

**Prove:** nft list ruleset | grep -E 'snat|masquerade', iptables-legacy -t nat -S POSTROUTING, and
conntrack -L --src-nat

**Fix:** Remove the rule, or exclude the peers' addresses from it. Then find the file that loads it.

**Source:** nft(8), measured: snat to another address in postrouting and in input
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import suggest_legacy_removal
from fullmesh.causes.firewall.packet_filter import make_tcp_packet
from fullmesh.causes.firewall.translations import (
    SourceTranslation,
    find_translation,
    has_translations,
)
from fullmesh.causes.relations import (
    KERNELS,
    LINKS,
    SHUT,
    WALLS,
    has_same_blocked_ports,
    is_return_path,
)
from fullmesh.observed.ladder import LinkResult
from fullmesh.result.findings import Finding, join_names

PORTS_TRIED = 6
EVERY_KIND = ("sample", "range", "master", "rendezvous", "service", "held")
Found = dict[tuple[str, SourceTranslation], list[tuple[str, str]]]


def list_affected_records(evidence: ClusterEvidence, source: str, target: str) -> list[LinkResult]:
    """List connections of a link that do not work, or that the peer saw with another source address."""
    return [
        r
        for r in evidence.records(source)
        if r["node"] == target and r["kind"] != "outside" and r["verdict"] != "open"
    ][:PORTS_TRIED]


def find_link_translation(
    evidence: ClusterEvidence, source: str, target: str
) -> tuple[str, SourceTranslation] | None:
    """Return the rule that translates the source of a link's packets, and its node. Certain rules come first."""
    ends = (evidence.address(source), evidence.address(target))
    found = []
    for record in list_affected_records(evidence, source, target):
        for name in (source, target):
            if not has_translations(evidence.ruleset(name)):
                continue
            interface = evidence.get_cluster_interface(name)
            packet = make_tcp_packet(*ends, record["port"], interface, outgoing=name == source)
            held = find_translation(evidence, name, packet)
            if held:
                found.append((name, held))
    return min(found, key=lambda one: not one[1].sure, default=None)


def rule_translated_sources(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report rules that translate the source address of packets between nodes."""
    held: Found = {}
    translating = dict.fromkeys(n for n in evidence.nodes if has_translations(evidence.ruleset(n)))
    for source in evidence.nodes:
        # most clusters have no such node, and many pairs
        for target in evidence.nodes if source in translating else translating:
            if source != target:
                one = find_link_translation(evidence, source, target)
                if one:
                    held.setdefault(one, []).append((source, target))
    for (name, rule), pairs in held.items():
        yield make_translation_finding(name, rule, pairs)


def make_translation_finding(
    name: str, rule: SourceTranslation, pairs: list[tuple[str, str]]
) -> Finding:
    """Make the finding about one rule and the links that it breaks."""
    sources, targets = (join_names(sorted({pair[end] for pair in pairs})) for end in (0, 1))
    peers = join_names(sorted({end for pair in pairs for end in pair} - {name}))
    verb = "translates" if rule.sure else "may translate"
    to = f" to {rule.address}" if rule.address else ""
    return Finding(
        "DG-192",
        "L2",
        f"{name} {verb} the source address of packets {sources} -> {targets}{to}: a rule in chain"
        f" {rule.chain} of table {rule.table}",
        node=name,
        peer=peers,
        port="all",
        direction=f"{sources} -> {targets}",
        seen=f"table {rule.table} chain {rule.chain}: {rule.text}",
        expected="the cluster address",
        check=f"on {name}: grep -rE 'snat|masquerade|SNAT|MASQUERADE' /etc",
        fix=suggest_translation_removal(name, rule),
        pairs=tuple(pairs),
        kinds=EVERY_KIND,
    )


def suggest_translation_removal(name: str, rule: SourceTranslation) -> str:
    """Return the command that removes a rule."""
    if rule.line:
        return suggest_legacy_removal(name, rule.table, rule.line)
    return (
        f"on {name}: nft delete rule {rule.table} {rule.chain} handle {rule.handle}, or exclude the peers"
        " from it"
    )


CAUSE = Cause(
    "DG-192",
    __doc__,
    find=rule_translated_sources,
    weight=975,
    explains=(
        Explains((*LINKS, *KERNELS, "DG-115", "DG-138", "DG-139"), is_return_path),
        Explains((*SHUT, *WALLS), has_same_blocked_ports),
    ),
    cases=(
        CauseCase("snat", "nft snat to another address in postrouting", fields=LINK),
        CauseCase("snat-in", "nft snat in a nat chain at the input hook", fields=LINK),
        CauseCase(
            "snat-legacy",
            "iptables-legacy -t nat -j SNAT in POSTROUTING",
            by=RECORDED,
            fields=LINK,
        ),
    ),
)
