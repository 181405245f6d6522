# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define the data types of the peers' firewall. Standard library only."""

from __future__ import annotations

from typing import Any, TypedDict

from ..schema.peer_list import PeerFirewall


class FirewallParams(PeerFirewall):
    """The parameters of peer_zone. The module documents them."""

    state: str
    token: str


class FirewallResult(TypedDict):
    """The common part of all answers."""

    changed: bool


class FirewallUndoResult(FirewallResult):
    """The result before and after an undo. *armed*: it must be confirmed on a new connection."""

    armed: bool


class FirewallOffResult(FirewallResult, total=False):
    """The result of state off. *installed*: firewalld exists."""

    installed: bool


class RollbackEndResult(FirewallResult):
    """The end of a rollback: disarmed, or idle (nothing was armed)."""

    rollback: str


class FirewallReport(TypedDict):
    """The answer for the manifest and the report."""

    files: list[str]
    ssh_ports: list[int]
    controllers: list[str]
    default_zone: str
    ports: list[str]
    ufw: bool


class FirewallOpenResult(FirewallReport, FirewallResult):
    """The result of state present.

    Attributes:
        needs_package: firewalld must be installed first.
        armed: the change waits for its confirmation.
    """

    needs_package: bool
    armed: bool


class FirewallRequest(TypedDict):
    """The request, with the node's own access data.

    Attributes:
        zone: the zone's name, and prefix of policies and sets.
        mode: ``peers_range``, ``peers_only`` or ``peers_trusted``.
        peers: addresses.
        controllers: addresses or networks.
        ports: ``29500/tcp``, ``50000-54095/tcp``, for peers.
        controller_ports, public_ports: for controllers, for all.
        tunnel_peers, tunnel_ports: the nodes outside the tunnel of role wireguard, and its port.
        ssh_ports: of sshd.
        default_zone: of firewalld.
    """

    zone: str
    mode: str
    peers: list[str]
    controllers: list[str]
    ports: list[str]
    controller_ports: list[str]
    public_ports: list[str]
    tunnel_peers: list[str]
    tunnel_ports: list[str]
    ssh_ports: list[int]
    default_zone: str


class FirewallSettings(FirewallRequest):
    """The request with derived settings.

    Attributes:
        planned_ports: the plan's ports.
        carried_ports: ports of other listeners that peers can still reach. ``ports`` has both.
        ufw_policy: the policy of ufw's rules (XML, or empty).
        own_service: whether ``ssh`` needs a file of Fullmesh.
    """

    planned_ports: list[str]
    carried_ports: list[str]
    ufw_policy: str
    own_service: bool


class FirewallListener(TypedDict):
    """A listener for other machines on a port (``8000/tcp``): addresses, process, connected clients."""

    port: str
    addresses: list[str]
    process: str
    clients: list[str]


class ClusterLink(TypedDict):
    """A cluster address of this node: family ``4`` or ``6``, network an ip_network."""

    interface: str
    family: str
    address: str
    network: Any


class PeerSenders(TypedDict):
    """Peers and the target addresses on this node, by family, and the interface (empty: unknown)."""

    peers: dict[str, list[str]]
    own: dict[str, str]
    interface: str


class BlockerQuery(PeerSenders):
    """The senders with their target ports."""

    ports: list[str]


class PeerBlocker(TypedDict):
    """A rule that blocks peers, with an example: port and sender. *word*: ``drop`` or ``divert``."""

    family: str
    table: str
    chain: str
    hook: str | None
    handle: int | None
    line: str
    word: str
    sure: bool
    port: str
    sender: str


class FoundPeerBlocker(PeerBlocker):
    """A blocking rule, and the tool that shows it."""

    tool: str


# ``from`` is not a name that a class could have.
UfwRule = TypedDict(
    "UfwRule",
    {
        "text": str,
        "odd": bool,
        "family": str,
        "action": str,
        "protocol": str,
        "port": str,
        "to": str,
        "source_port": str,
        "from": str,
        "direction": str,
    },
    total=False,
)
"""A rule of ufw's user. An ``odd`` one only has its text and family."""
