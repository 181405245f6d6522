"""Routes: what comes in by another way than it would go out."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose.rules import decisions
from fullmesh.result.findings import Finding, join_names

REVERSE_PATH = "TcpExt.IPReversePathFilter"


def is_rp_filter_strict(look: ClusterEvidence, name: str) -> bool:
    """Whether rp_filter is strict on the cluster interface: the larger of 'all' and its own counts, ip-sysctl.rst."""
    card = look.card(name, look.cluster_card(name))
    own = str(card["rp_filter"]) if card else ""
    everywhere = look.sysctl(name, "net.ipv4.conf.all.rp_filter")
    return max(own or "0", everywhere or "0") == "1"


def rule_reverse_path(look: ClusterEvidence) -> Iterator[Finding]:
    """A strict rp_filter drops packets whose answer would leave by another interface.

    It ignores ARP requests as well (arp_process asks for the route back), so on a link that was silent for a minute
    not one packet comes to be counted: then the route alone tells.
    """
    for name in look.nodes:
        dropped = look.counter(name, REVERSE_PATH)
        if not is_rp_filter_strict(look, name):
            continue
        broken = {
            pair
            for source in look.nodes
            for r in look.records(source)
            if r["verdict"] != "open" and name in (pair := (source, r["node"]))
        }
        if not broken:
            continue
        card = look.cluster_card(name)
        routes = {to: one["dev"] for to, one in look.survey(name).get("routes", {}).items()}
        peers = sorted({end for pair in broken for end in pair} - {name})
        refused = {
            w["peer"] for w in decisions.list_odd_decisions(look, name) if w["direction"] == "in"
        }
        astray = [
            p
            for p in peers
            if routes.get(look.address(p), card) != card or look.address(p) in refused
        ]
        if not dropped and not astray:
            continue
        shown = astray or peers
        counted = f"{dropped} packets dropped" if dropped else "no packets let in"
        device = routes.get(look.address(shown[0]), "")
        yield Finding(
            "DG-141",
            "L2",
            f"{name} drops what {join_names(shown)} sends: it comes in on {card} and {name} would answer over"
            f" {device or 'another interface'} (rp_filter)",
            node=name,
            peer=join_names(shown),
            port="all",
            direction=f"{join_names(shown)} -> {name}",
            seen=f"rp_filter=1, {counted} during the probe; the way to "
            f"{look.address(shown[0])}: {device}",
            expected=f"the way to the peers over {card}, or rp_filter=2",
            fix=f"on {name}: ip route get {look.address(shown[0])}; take the wrong route away, or sysctl -w"
            f" net.ipv4.conf.{card}.rp_filter=2",
            pairs=tuple(sorted(broken if dropped else {p for p in broken if {*p} & {*astray}})),
            kinds=("sample", "range", "master", "rendezvous"),
        )


RULES = (rule_reverse_path,)
