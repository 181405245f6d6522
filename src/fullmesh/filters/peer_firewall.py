"""Hands the checks of the peers' firewall to Ansible."""

from __future__ import annotations

from collections.abc import Callable
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


def peer_firewall_mode(value: Any) -> str:
    """The mode by its name, also where YAML made a boolean of ``off``."""
    return peer_firewall.parse_firewall_mode(value)


def peer_firewall_word(value: Any) -> str:
    """A setting as one of its words, also where YAML made a boolean of it."""
    return peer_firewall.parse_word(value)


class FilterModule:
    """Filters of the role peer_firewall."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "peer_firewall_faults": peer_firewall_faults,
            "peer_firewall_mode": peer_firewall_mode,
            "peer_firewall_word": peer_firewall_word,
        }
