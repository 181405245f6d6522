"""Hands the checks of the launchers' settings to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fullmesh.roles import launchers


def launchers_faults(
    user: str, join_seconds: Any, stop_seconds: Any, watch_seconds: Any
) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    found = launchers.find_launcher_faults(str(user), join_seconds, stop_seconds, watch_seconds)
    return [str(fault) for fault in found]


class FilterModule:
    """Filters of the role launchers."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "launchers_commands": launchers.build_command_files,
            "launchers_faults": launchers_faults,
            "launchers_hook": launchers.build_hook_files,
            "launchers_hostfile": launchers.render_hostfile,
            "launchers_library": launchers.build_library_files,
            "launchers_nodes": launchers.render_nodes_file,
            "launchers_services": launchers.render_services_file,
        }
