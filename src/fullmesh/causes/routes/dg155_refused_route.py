"""A route or a routing rule of a node refuses to send to a peer

The node has a blackhole, prohibit or unreachable entry in a routing table or among its routing
rules. connect() then fails at once with EINVAL, EACCES or EHOSTUNREACH, and replies to the peer are
silently dropped. No packet filter shows this. The diagnosis asks the kernel for the route, as ip
route get does, for each port.

**Prove:** ip route get PEER ; ip route show table all | grep -E 'blackhole|prohibit|unreachable' ;
ip rule

**Fix:** Remove the entry and find the program that sets it: a VPN client, fail2ban's route action
or a boot script.

**Source:** measured: errno of connect() and of RTM_GETROUTE for each kind
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path
from fullmesh.causes.routes.decisions import ALL_KINDS, find_address_owner, group_route_decisions
from fullmesh.observed.ladder import PacketRoute
from fullmesh.result.findings import Finding, join_names

# What connect() and `ip route get` answer for a route of that kind: ip-route(8).
KINDS = {
    "EINVAL": "blackhole",
    "EACCES": "prohibit",
    "EHOSTUNREACH": "unreachable",
    "ENETUNREACH": "no route at all",
}


def rule_refused_routes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report blackhole, prohibit and unreachable routes or rules to a peer."""
    for name in evidence.nodes:
        for (error, rule), held in group_route_decisions(evidence, name, True).items():
            peers = sorted({find_address_owner(evidence, way["peer"]) for way, _ in held})
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
                expected=f"a route over {evidence.get_cluster_interface(name)}",
                fix=f"on {name}: {suggest_route_fix(rule, first['peer'])}",
                pairs=tuple(sorted({pair for _, pairs in held for pair in pairs})),
                kinds=ALL_KINDS,
            )


def describe_mark(way: PacketRoute) -> str:
    """Return the words for a mark."""
    return f" mark {way['mark']:#x}, which nftables gives" if way["mark"] else ""


def suggest_route_fix(rule: str, peer: str) -> str:
    """Return the command that removes a refusal, or shows it."""
    if rule.startswith("rule "):
        return f"ip rule del pref {rule.split()[1].rstrip(':')}"
    if rule:
        return f"ip route del {rule}"
    return f"ip route show table all; ip rule; ip route get {peer}"


CAUSE = Cause(
    "DG-155",
    __doc__,
    find=rule_refused_routes,
    weight=980,
    explains=(
        Explains(
            (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-156", "DG-158"),
            is_return_path,
        ),
    ),
    cases=(
        CauseCase("no-route", "ip route replace unreachable PEER on the node", fields=LINK),
        CauseCase(
            "refused",
            "ip route add blackhole or prohibit PEER, or ip rule add to PEER prohibit",
            fields=LINK,
        ),
    ),
)
