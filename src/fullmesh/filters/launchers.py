"""Hands the checks of the launchers' settings to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fullmesh.roles import launchers as core


def launchers_faults(
    user: str, join_seconds: Any, stop_seconds: Any, watch_seconds: Any
) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    found = core.faults(str(user), join_seconds, stop_seconds, watch_seconds)
    return [str(fault) for fault in found]


class FilterModule:
    """Filters of the role launchers."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "launchers_commands": core.commands,
            "launchers_faults": launchers_faults,
            "launchers_hook": core.hook,
            "launchers_hostfile": core.hostfile,
            "launchers_library": core.library,
            "launchers_nodes": core.nodes,
            "launchers_services": core.services,
        }
