"""One node announces IPv4, another IPv6

Gloo can only connect 2 addresses of the same family. It stops with 'ss1.ss_family == ss2.ss_family.
2 vs 10'.

**Prove:** getent ahosts $(hostname) && ip -br address

**Fix:** Make all nodes announce the same family: on the interface in GLOO_SOCKET_IFNAME, or in
/etc/hosts.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding, join_names


def is_link_local(address: str) -> bool:
    """Return whether peers would need a scope to reach it."""
    return address.lower().startswith("fe80:")


def find_gloo_address(evidence: ClusterEvidence, name: str) -> str:
    """Return the address that Gloo on a node would announce, or "" if it is not known.

    Of the interface in GLOO_SOCKET_IFNAME, else the first of the node's own name that is on the node (gloo, device.cc).
    """
    held = evidence.variable(name, "GLOO_SOCKET_IFNAME")
    if held and held[0]:
        nic = evidence.find_nic(name, held[0].split(",")[0])
        listed = [a.split("/")[0] for a in nic["addresses"]] if nic else []
        return next((a for a in listed if not is_link_local(a)), "")
    # A link-local address needs a scope to be bound, so Gloo goes on to the next; nss-myhostname lists them first.
    answers = [a for a in evidence.survey(name).get("own_answers", []) if not is_link_local(a)]
    return next((a for a in answers if evidence.holds(name, a)), "")


def rule_address_families(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes that announce another address family: Gloo stops with 'ss1.ss_family == ss2.ss_family'."""
    spoken = {name: find_gloo_address(evidence, name) for name in evidence.nodes}
    families = {
        n: "IPv6" if ":" in a else "IPv4"
        for n, a in spoken.items()
        if a and not has_loopback_prefix(a)
    }
    counts = Counter(families.values())
    if len(counts) < 2:  # noqa: PLR2004 (two families)
        return
    (first, many), (second, few) = counts.most_common(2)
    planned = "IPv6" if evidence.plan["family"] == "ipv6" else "IPv4"
    usual = planned if many == few and planned in (first, second) else first
    odd = [name for name, family in families.items() if family != usual]
    yield Finding(
        "DG-136",
        "L1",
        f"{join_names(odd)} announces an {families[odd[0]]} address, the others {usual}",
        node=odd[0],
        peer=join_names([n for n in families if n not in odd]),
        seen=f"{odd[0]}: {spoken[odd[0]]}",
        expected=f"an {usual} address, such as {evidence.address(odd[0])}",
        fix=f"on {odd[0]}: set GLOO_SOCKET_IFNAME={evidence.get_cluster_interface(odd[0]) or 'INTERFACE'}, or give its"
        f" name {evidence.address(odd[0])} in /etc/hosts",
    )


CAUSE = Cause(
    "DG-136",
    __doc__,
    find=rule_address_families,
    weight=650,
    explains=(Explains(("VC-102", "VC-101"), has_same_node),),
    cases=(
        CauseCase(
            "families",
            "GLOO_SOCKET_IFNAME unset, and only an IPv6 address for the node's name in /etc/hosts",
        ),
    ),
)
