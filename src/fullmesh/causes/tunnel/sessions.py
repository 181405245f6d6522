"""Find the sessions between nodes in the tunnel of role wireguard. Shared by its causes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.model.wireguard import get_link_address
from fullmesh.observed.links import TUNNEL_SESSION_SECONDS
from fullmesh.observed.survey import TunnelPeerState, TunnelState


class TunnelEnd(NamedTuple):
    """A node, another one, and the entry that the first has for the other (None: no entry with its address)."""

    name: str
    other: str
    own: TunnelState
    theirs: TunnelState
    entry: TunnelPeerState | None


def get_tunnel(evidence: ClusterEvidence, name: str) -> TunnelState | None:
    """Return the state of a node's tunnel, if the plan has one and the node was surveyed."""
    return evidence.survey(name).get("tunnel") if "wireguard" in evidence.plan else None


def is_tunnel_up(state: TunnelState | None) -> bool:
    """Return whether the interface is there, up, and has a key."""
    return bool(state and state["up"] and state["public_key"])


def find_entry(state: TunnelState, address: str) -> TunnelPeerState | None:
    """Return the peer that may use an address in the tunnel."""
    network = str(ipaddress.ip_network(address))
    return next((peer for peer in state["peers"] if network in peer["networks"]), None)


def list_tunnel_ends(evidence: ClusterEvidence) -> Iterator[TunnelEnd]:
    """List all ordered pairs of nodes whose tunnels are up."""
    for name in evidence.nodes:
        own = get_tunnel(evidence, name)
        for other in evidence.peers(name):
            theirs = get_tunnel(evidence, other) if other in evidence.nodes else None
            if own and theirs and is_tunnel_up(own) and is_tunnel_up(theirs):
                entry = find_entry(own, evidence.address(other))
                yield TunnelEnd(name, other, own, theirs, entry)


def has_right_key(end: TunnelEnd) -> bool:
    """Return whether the first node knows the other's present key."""
    return end.entry is not None and end.entry["public_key"] == end.theirs["public_key"]


def has_session(end: TunnelEnd) -> bool:
    """Return whether the first node has a session with the other."""
    return end.entry is not None and 0 <= end.entry["age"] < TUNNEL_SESSION_SECONDS


def describe_age(end: TunnelEnd) -> str:
    """Describe the last handshake."""
    age = end.entry["age"] if end.entry else -1
    return f"the last one {age} s ago" if age >= 0 else "none"


def get_endpoint(evidence: ClusterEvidence, name: str) -> str:
    """Return the address of a node's link, which carries the tunnel."""
    return get_link_address(evidence.plan["nodes"][name])
