"""Hands the kernel values of a node to Ansible."""

from __future__ import annotations

from typing import Any

from fullmesh.observed.sysctl import KernelSetting
from fullmesh.roles import kernel_tuning


def kernel_tuning_settings(
    options: dict[str, Any], local_ports: str, reserved: list[int | str], world_size: int
) -> list[KernelSetting]:
    """Every kernel key with value, rule and reason."""
    return kernel_tuning.build_kernel_settings(local_ports, reserved, world_size, options)
