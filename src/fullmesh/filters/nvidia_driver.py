"""Hands the choice of the NVIDIA driver to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fullmesh.plain import plain
from fullmesh.roles import nvidia_driver as core


def nvidia_driver_faults(options: Any, offers: Any) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    there = plain(offers)
    return [str(fault) for fault in core.faults(core.wish(plain(options), there), there)]


def nvidia_driver_may_build(options: Any, offers: Any, gpu: Any) -> list[str]:
    """Coded sentences: what is missing to build the modules."""
    asked = core.wish(plain(options), plain(offers))
    return [str(fault) for fault in core.may_build(asked, plain(gpu))]


def nvidia_driver_probes(options: Any, offers: Any) -> list[str]:
    """The packages whose versions show what is installed."""
    there = plain(offers)
    return core.probes(core.wish(plain(options), there), there)


def nvidia_driver_plan(options: Any, offers: Any, gpu: Any, packages: Any) -> dict[str, Any]:
    """What is to be done on a node, or why not."""
    return core.plan(plain(options), plain(offers), plain(gpu), plain(packages))


class FilterModule:
    """Filters of the role nvidia_driver."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "nvidia_driver_faults": nvidia_driver_faults,
            "nvidia_driver_may_build": nvidia_driver_may_build,
            "nvidia_driver_probes": nvidia_driver_probes,
            "nvidia_driver_plan": nvidia_driver_plan,
        }
