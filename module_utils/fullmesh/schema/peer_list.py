# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What cluster_peers is asked for and answers: the list of a node's peers, where the node keeps it."""

from __future__ import annotations

from typing import TypedDict

from .node import Membership


class PeerHost(TypedDict):
    """A line of the hosts file."""

    address: str
    names: list[str]


class PeerFile(TypedDict):
    """A file whose whole text follows from the list of nodes."""

    path: str
    content: str


class PeerFirewall(TypedDict):
    """What peer_zone is asked for with V(present), but for the token of the run."""

    mode: str
    zone: str
    peers: list[str]
    controllers: list[str]
    ports: list[str]
    controller_ports: list[str]
    public_ports: list[str]
    rdma: str
    ufw: str
    start: str
    rollback_seconds: int


class SharedPeerData(TypedDict):
    """What is the same on all nodes."""

    hosts: list[PeerHost]
    files: list[PeerFile]
    members: Membership


class OwnPeerData(TypedDict):
    """What is one node's own.

    Attributes:
        address: its cluster address; own_names: what it calls itself.
        lines: path -> how a line begins -> the whole line.
        firewall: of each entry the settings; empty where the firewall is off.
    """

    address: str
    own_names: list[str]
    lines: dict[str, dict[str, str]]
    firewall: list[PeerFirewall]


class ClusterPeersParams(TypedDict):
    """What cluster_peers is asked for; *also*: files that a role wrote for the same reason."""

    shared: SharedPeerData
    own: OwnPeerData
    also: list[str]
    token: str


class PeerListPlan(TypedDict):
    """What becomes of a run's nodes: what they share, each one's own, and the token of each one's change."""

    shared: SharedPeerData
    own: dict[str, OwnPeerData]
    tokens: dict[str, str]
