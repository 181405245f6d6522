"""Hands chrony's configuration to Ansible."""

from __future__ import annotations

from fullmesh.roles import time_sync


def time_sync_faults(
    source: str, servers: list[str], wait_seconds: int, only: bool = False
) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [
        str(fault)
        for fault in time_sync.find_time_sync_faults(source, servers, int(wait_seconds), only)
    ]
