"""Hands the checks of SELinux' mode to Ansible."""

from __future__ import annotations

from typing import Any

from fullmesh.roles import selinux_mode


def selinux_mode_faults(mode: Any, rollback_seconds: Any, reboot_seconds: Any) -> list[str]:
    """Coded sentences: what is wrong with the role's settings."""
    return [
        str(fault)
        for fault in selinux_mode.find_selinux_faults(mode, rollback_seconds, reboot_seconds)
    ]
