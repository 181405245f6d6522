"""GLOO_SOCKET_IFNAME names an existing interface that is not the cluster's

Gloo announces an address of that interface. If the peers cannot reach it, or their firewalls allow
only cluster addresses, the ranks cannot connect. If they can, the job works, but its data uses the
other network.

**Prove:** echo $GLOO_SOCKET_IFNAME && ip -br address

**Fix:** Name the interface of the cluster address, or remove the variable from the file.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.env.dg134_nccl_unreachable_interface import can_reach_peers
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.socket_interfaces import LOOPBACK, select_interfaces

GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


def find_other_interfaces(evidence: ClusterEvidence, name: str, value: str) -> list[str]:
    """Return the interfaces that Gloo would use, if none is in the plan. Loopback has its own cause."""
    taken = select_interfaces(value, GLOO_INTERFACE, evidence.list_nics(name))
    planned = {evidence.get_cluster_interface(name)}
    if "wireguard" not in evidence.plan:  # with a tunnel, all other interfaces are outside of it
        planned |= {link["interface"] for link in evidence.plan["nodes"][name]["links"]}
    return [] if planned.intersection(taken) or set(taken) <= {LOOPBACK} else taken


def is_same_everywhere(evidence: ClusterEvidence, value: str) -> bool:
    """Return whether all nodes have this value, which is then meant: without a plan, the cluster address is a guess."""
    values = [(evidence.variable(name, GLOO_INTERFACE) or ("",))[0] for name in evidence.nodes]
    return not evidence.seen.planned and set(values) == {value}


def rule_gloo_interface(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes on which Gloo would announce an address outside the cluster network."""
    for name in evidence.nodes:
        held, wanted = evidence.variable(name, GLOO_INTERFACE), evidence.get_cluster_interface(name)
        if not held or not wanted:
            continue
        taken = find_other_interfaces(evidence, name, held[0])
        nic = evidence.find_nic(name, taken[0]) if taken else None
        if not nic:
            continue
        reached = can_reach_peers(evidence, name, nic)
        if reached and is_same_everywhere(evidence, held[0]):
            continue
        effect = (
            "its data uses another network than planned"
            if reached
            else "the peers cannot reach its address"
        )
        yield Finding(
            "DG-189",
            "L1",
            f"Gloo on {name} would use {taken[0]} instead of {wanted}, the interface of {evidence.address(name)}:"
            f" {effect}",
            node=name,
            seen=f"{GLOO_INTERFACE}={held[0]} from {held[1]}: {taken[0]} has {join_names(nic['addresses']) or 'none'}",
            expected=wanted,
            fix=f"on {name}: set {GLOO_INTERFACE}={wanted} in {held[1]}"
            + ("" if evidence.assumed else f", or {evidence.seen.apply('launch')}"),
            severity=WARNING if reached else ERROR,
        )


CAUSE = Cause(
    "DG-189",
    __doc__,
    find=rule_gloo_interface,
    needs=("environment", "interfaces"),
    weight=225,
    explains=(Explains(("VC-324",), has_same_node),),
    cases=(
        CauseCase(
            "gloo-other-interface",
            "GLOO_SOCKET_IFNAME=eth0 in /etc/environment, the management network",
            severity=WARNING,
        ),
        CauseCase("gloo-unreachable", "GLOO_SOCKET_IFNAME=storage0, which has its own network"),
    ),
)
