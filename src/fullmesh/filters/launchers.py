"""Hands the checks of the launchers' settings to Ansible."""

from __future__ import annotations

from typing import Any

from fullmesh.roles import launchers


def launchers_faults(
    user: str, join_seconds: Any, stop_seconds: Any, watch_seconds: Any
) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    found = launchers.find_launcher_faults(str(user), join_seconds, stop_seconds, watch_seconds)
    return [str(fault) for fault in found]
