"""Hands the checks of the peers' firewall to Ansible."""

from __future__ import annotations

from typing import Any

from fullmesh.roles import peer_firewall


def peer_firewall_faults(
    options: dict[str, Any],
    peers: list[str],
    controllers: list[str],
    ports: list[str],
    groups: list[str],
) -> list[str]:
    """Coded sentences: what is wrong with the role's *options* and required values for a host in *groups*."""
    return [
        str(fault)
        for fault in peer_firewall.find_firewall_faults(peers, controllers, ports, options, groups)
    ]
