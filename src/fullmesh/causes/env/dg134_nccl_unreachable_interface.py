"""NCCL would use an interface that the peers cannot reach

NCCL announces the first interface that its rules allow. This may be a container bridge or a VPN,
whose address other nodes cannot reach or have themselves. Ranks then cannot connect.

**Prove:** search the job's log for 'Bootstrap: Using' after you set NCCL_DEBUG=INFO

**Fix:** Set NCCL_SOCKET_IFNAME==INTERFACE. The second '=' means: exactly this name, not a prefix.

**Source:** NCCL 2.30, socket.cc; nccl#697
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.observed.survey import Nic
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.socket_interfaces import LOOPBACK, is_matched_by_nccl

UNREACHED = (
    "docker",
    "virbr",
    "br-",
    "veth",
    "cni",
    "flannel",
    "cali",
    "tailscale",
    "tun",
    "lxcbr",
    "podman",
)


def rule_nccl_interface(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes on which NCCL would choose an interface that the peers cannot reach."""
    for name in evidence.nodes:
        nics = evidence.list_nics(name)
        held = evidence.variable(name, "NCCL_SOCKET_IFNAME")
        if not nics or not held or not held[0]:
            continue
        taken = [
            nic
            for nic in nics
            if is_matched_by_nccl(held[0], nic["name"])
            and nic["running"]
            and nic["name"] != LOOPBACK
            and nic["addresses"]
        ]
        wanted = evidence.get_cluster_interface(name)
        if (
            not taken
            or taken[0]["name"] == wanted
            or not wanted
            or can_reach_peers(evidence, name, taken[0])
        ):
            continue
        yield Finding(
            "DG-134",
            "L1",
            f"NCCL on {name} would announce {taken[0]['name']}, and its peers cannot be reached over it",
            node=name,
            seen=f"NCCL_SOCKET_IFNAME={held[0]} from {held[1]}: {taken[0]['name']} {join_names(taken[0]['addresses'])}",
            expected=f"={wanted}",
            fix=f"set NCCL_SOCKET_IFNAME=={wanted} in {held[1]} on {name}"
            + ("" if evidence.assumed else f", or {evidence.seen.apply('launch')}"),
        )


def can_reach_peers(evidence: ClusterEvidence, name: str, nic: Nic) -> bool:
    """Return whether every other node has an address in an interface's network, and it is no bridge of containers."""
    if nic["name"].startswith(UNREACHED):
        return False
    for text in nic["addresses"]:
        try:
            network = ipaddress.ip_interface(text).network
        except ValueError:
            continue
        if network.is_link_local:
            continue
        others = [
            evidence.seen.facts(peer).get("addresses", {})
            for peer in evidence.nodes
            if peer != name
        ]
        if all(any(is_in_network(a, network) for a in held) for held in others):
            return True
    return False


def is_in_network(address: str, network: Any) -> bool:
    """Return whether an address is in a network."""
    try:
        return ipaddress.ip_address(address.split("%", maxsplit=1)[0]) in network
    except ValueError:
        return False


CAUSE = Cause(
    "DG-134",
    __doc__,
    find=rule_nccl_interface,
    needs=("environment", "interfaces"),
    weight=230,
    explains=(Explains(("VC-324",), has_same_node),),
    cases=(
        CauseCase("nccl-interface", "NCCL_SOCKET_IFNAME=docker0 with a dummy docker0 that is up"),
    ),
)
