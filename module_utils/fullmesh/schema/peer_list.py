# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The parameters and answer of cluster_peers: a node's list of peers."""

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
    """The parameters of peer_zone with V(present), without the token of the run."""

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
    """Data that is the same on all nodes."""

    hosts: list[PeerHost]
    files: list[PeerFile]
    members: Membership


class OwnPeerData(TypedDict):
    """Data of one node.

    Attributes:
        address: its cluster address.
        own_names: its own host names.
        lines: path -> start of a line -> whole line.
        firewall: the settings of each entry, empty if the firewall is off.
    """

    address: str
    own_names: list[str]
    lines: dict[str, dict[str, str]]
    firewall: list[PeerFirewall]


class ClusterPeersParams(TypedDict):
    """The parameters of cluster_peers. *also*: files that a role wrote for the same reason."""

    shared: SharedPeerData
    own: OwnPeerData
    also: list[str]
    token: str


class PeerListPlan(TypedDict):
    """The changes of a run's nodes: the shared data, the data of each node, and the token of each node's change."""

    shared: SharedPeerData
    own: dict[str, OwnPeerData]
    tokens: dict[str, str]
