"""Provide the kernel settings of a node to Ansible."""

from __future__ import annotations

from typing import Any

from fullmesh.observed.sysctl import KernelSetting, SessionLimits
from fullmesh.roles import kernel_tuning


def _strip_prefix(variables: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("kernel_tuning_"): value for name, value in variables.items()}


def kernel_tuning_settings(variables: dict[str, Any]) -> list[KernelSetting]:
    """Return every kernel key with value, rule and reason, from the variables of the role."""
    options = _strip_prefix(variables)
    return kernel_tuning.build_kernel_settings(
        options["local_ports"], options["reserved_ports"], options["world_size"], options
    )


def kernel_tuning_limits(variables: dict[str, Any]) -> SessionLimits:
    """Return the limits of every session, from the variables of the role."""
    return kernel_tuning.build_session_limits(_strip_prefix(variables))
