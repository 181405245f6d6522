# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The parameters and answer of cluster_peers: a node's list of peers."""

from __future__ import annotations

from typing import Literal, TypedDict

from .node import Membership


class PeerHost(TypedDict):
    """A line of the hosts file."""

    address: str
    names: list[str]


class PeerFile(TypedDict):
    """A file whose text depends on the list of nodes only."""

    path: str
    content: str


class PeerFirewall(TypedDict):
    """The request for the peers' firewall of a node, which peer_zone and cluster_peers take.

    ``fullmesh.roles.peer_firewall`` builds it and rejects unknown values.

    Attributes:
        mode: ``peers_range`` opens *ports* to the peers and closes nothing. ``peers_trusted`` opens everything to them.
            ``peers_only`` opens *ports* and closes the rest, with a zone that has the peers as its source.
        zone: its name, and the prefix of policies and ipsets, at most 13 characters.
        peers: addresses of all nodes.
        controllers: addresses and networks that must always reach ssh.
        ports: for the peers, with protocol (``50000-54095/tcp``).
        controller_ports: services that the controllers may reach, in addition to ssh.
        public_ports: services that every client may reach.
        tunnel_peers: the nodes' addresses outside the tunnel of role wireguard, empty without it.
        tunnel_ports: for *tunnel_peers*: only the tunnel.
        rdma: ``auto`` opens 4791/udp to the peers if an interface supports RoCE, ``true`` always, ``false`` never.
        ufw: ``carry`` replaces an active ufw, keeps the user's rules, and refuses those that it cannot keep.
            ``discard`` only reports those. ``refuse`` stops.
        start: if no firewall ran before, and the default zone would block listeners: ``refuse`` stops and lists them,
            ``carry`` opens them to the peers, ``cut`` continues.
        rollback_seconds: without a confirmation within this time the node restores everything. 0: none is needed.
    """

    mode: Literal["peers_range", "peers_only", "peers_trusted"]
    zone: str
    peers: list[str]
    controllers: list[str]
    ports: list[str]
    controller_ports: list[str]
    public_ports: list[str]
    tunnel_peers: list[str]
    tunnel_ports: list[str]
    rdma: Literal["auto", "true", "false"]
    ufw: Literal["carry", "discard", "refuse"]
    start: Literal["refuse", "carry", "cut"]
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
