"""Find links that lose large packets: the direction, and the path MTU that the ends assume."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.quality.link_quality import find_dropping_rule
from fullmesh.observed.ladder import Verdict
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.blocked import CODES_OF, DATA_KINDS

HOLE: Verdict = "mtu_black_hole"


FROM_THERE = "from there"  # in the remark of a record: the listener's packets were lost


HEADERS = {"ipv4": 28, "ipv6": 48}  # bytes of IP and ICMP around ping's


def find_mtu_holes(evidence: ClusterEvidence) -> set[tuple[str, str]]:
    """Find ordered pairs between which large packets do not arrive."""
    found = {
        (r["node"], name) if FROM_THERE in r["remark"] else (name, r["node"])
        for name in evidence.nodes
        for r in evidence.records(name)
        if r["verdict"] == HOLE
    }
    return {pair for pair in found if not is_dropped_by_rule(evidence, *pair)}


def is_dropped_by_rule(evidence: ClusterEvidence, source: str, target: str) -> bool:
    """Return whether a rule of one of its nodes makes a link lose small packets as well, so that size does not matter.

    Seen with a rule that lets three packets a second pass. The blocked ports of such a link name the rule.
    """
    first = any(
        r["verdict"] == "dropped"
        for near, far in ((source, target), (target, source))
        for r in evidence.records(near)
        if r["node"] == far
    )
    return first and find_dropping_rule(evidence, source, target) is not None


def get_interface_mtu(evidence: ClusterEvidence, name: str) -> int:
    """Return the MTU of a node's cluster interface, 0 if it is not known."""
    nic = evidence.find_nic(name, evidence.get_cluster_interface(name))
    return (
        int(nic["mtu"])
        if nic
        else int(evidence.seen.facts(name).get("interface", {}).get("mtu", 0))
    )


def group_mtu_holes(evidence: ClusterEvidence) -> Iterator[tuple[str, list[str], bool]]:
    """Yield target, sources, and whether both directions lose large packets. Each pair occurs once."""
    broken = find_mtu_holes(evidence)
    both = {pair for pair in broken if pair[::-1] in broken}
    for target in sorted({pair[1] for pair in broken}):
        mutual = sorted(s for s, t in both if t == target and s < t)
        one_way = sorted(s for s, t in broken - both if t == target)
        if mutual:
            yield target, mutual, True
        if one_way:
            yield target, one_way, False


def rule_mtu_holes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find links on which packets of the interface's full size do not arrive, in either direction."""
    for target, sources, mutual in group_mtu_holes(evidence):
        direction = f"{join_names(sources)} {'<->' if mutual else '->'} {target}"
        sizes = {name: get_interface_mtu(evidence, name) for name in (*sources, target)}
        shown = ", ".join(f"mtu {size} on {name}" for name, size in sizes.items() if size)
        size = (
            min((s for s in sizes.values() if s), default=1500) - HEADERS[evidence.plan["family"]]
        )
        yield Finding(
            CODES_OF[HOLE],
            "L2",
            f"{direction} gets small packets through and loses large ones (MTU)",
            node=target,
            peer=join_names(sources),
            port=f"{evidence.plan['data_ports']['firewalld']}/tcp",
            direction=direction,
            seen=f"no answer to a full-size segment. {shown or 'mtu not known'}",
            expected="64 KiB there and back",
            check=f"on {sources[0]}: ping -M do -s {size} {evidence.address(target)}",
            fix="set one MTU on both ends and the switches between them",
            pairs=tuple(sorted({p for s in sources for p in ((s, target), (target, s))})),
            kinds=(*DATA_KINDS, "master", "rendezvous"),
        )
