"""A node sends to a peer over a different interface than the cluster's

A routing rule or a more specific route sends packets for the peer, or only the replies to it, over
another interface. They are lost, or the peer drops them. Both ends look healthy, and no firewall
counts a drop. If they arrive, jobs share the other network with all its traffic, and a strict
rp_filter or a firewall of that network can stop them at any time.

**Prove:** ip route get PEER from OWN && ip rule && ip route show table all

**Fix:** Remove the rule or the route, or give the other network a route to the peer as well.

**Source:** measured: ip rule from OWN lookup TABLE
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path
from fullmesh.causes.routes.decisions import (
    ALL_KINDS,
    find_address_owner,
    group_route_decisions,
    has_working_links,
)
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names


def rule_wrong_interface(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a node that sends to a peer over a different interface than the cluster's."""
    for name in evidence.nodes:
        for (interface, via), held in group_route_decisions(evidence, name, False).items():
            own = evidence.get_cluster_interface(name)
            if not interface or (interface == own and not via):
                continue  # another source address on the same interface: VC-206
            peers = sorted({find_address_owner(evidence, way["peer"]) for way, _ in held})
            asked = {way["direction"] for way, _ in held}
            what = "answers" if asked == {"answer"} else "packets"
            over = f"{interface} to {via}" if via else interface
            pairs = tuple(sorted({pair for _, found in held for pair in found}))
            rule = next((way["rule"] for way, _ in held if way["rule"]), "")
            rather = f"not over {own}" if interface != own else "although they are next door"
            yield Finding(
                "DG-156",
                "L2",
                f"{what} of {name} to {join_names(peers)} leave over {over}, {rather}",
                node=name,
                peer=join_names(peers),
                port="all",
                direction=f"{name} -> {join_names(peers)}",
                seen=f"ip route get {held[0][0]['peer']} from {evidence.address(name)}: dev {over}"
                + (f", {rule}" if rule else ""),
                expected=f"dev {own} without a next hop" if interface == own else f"dev {own}",
                check=f"on {name}: ip rule; ip route show table all | grep -w {interface}",
                fix=f"on {name}: {suggest_removal(rule)}",
                severity=WARNING if is_harmless_detour(evidence, pairs) else ERROR,
                pairs=pairs,
                kinds=ALL_KINDS,
            )


def suggest_removal(rule: str) -> str:
    """Return the command that removes the rule, if it is known."""
    if rule:
        return f"ip rule del pref {rule.split()[1].rstrip(':')}"
    return "remove the rule or route to that interface"


def is_harmless_detour(evidence: ClusterEvidence, pairs: tuple[tuple[str, str], ...]) -> bool:
    """Return whether the links work, and no setting of Fullmesh says which network jobs use."""
    if not has_working_links(evidence, pairs):
        return False
    return evidence.assumed or any(
        r["verdict"] != "open"  # from another source address, which VC-206 judges
        for source, target in pairs
        for r in evidence.records(source)
        if r["node"] == target and r["kind"] != "outside"
    )


CAUSE = Cause(
    "DG-156",
    __doc__,
    find=rule_wrong_interface,
    weight=960,
    hidden=True,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase(
            "astray",
            "ip rule from the node's own address to a table whose route leaves over another interface",
            fields=LINK,
        ),
        CauseCase(
            "detour",
            "such a rule, and the packets arrive over the management network",
            fields=LINK,
        ),
    ),
)
