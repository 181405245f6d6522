"""Hands chrony's configuration to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fullmesh.roles import time_sync


def time_sync_faults(
    source: str, servers: list[str], wait_seconds: int, only: bool = False
) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [
        str(fault)
        for fault in time_sync.find_time_sync_faults(source, servers, int(wait_seconds), only)
    ]


def time_sync_lines(
    source: str, servers: list[str], leader: str, address: str, peers: list[str]
) -> list[str]:
    """What chrony is told on a node."""
    return time_sync.render_chrony_lines(source, servers, leader, address, peers)


def time_sync_expected(source: str, servers: list[str], leader: str, address: str) -> list[str]:
    """The addresses of which one must answer."""
    return time_sync.list_expected_sources(source, servers, leader, address)


class FilterModule:
    """Filters of the role time_sync."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "time_sync_faults": time_sync_faults,
            "time_sync_lines": time_sync_lines,
            "time_sync_expected": time_sync_expected,
        }
