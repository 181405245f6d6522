"""Hands the choice of the NVIDIA driver to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fullmesh.border import answered, registered
from fullmesh.observed.family import Family
from fullmesh.observed.gpu import GpuFacts
from fullmesh.plain import plain
from fullmesh.roles import nvidia_driver as core


def asked_for(options: Any, offers: Any) -> tuple[core.Wish, core.Offers]:
    """The role's settings, on a system that offers what its vars say."""
    there = answered(core.Offers, offers, "__nvidia_driver_offers")
    return core.wish(plain(options), there), there


def nvidia_driver_faults(options: Any, offers: Any) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [str(fault) for fault in core.faults(*asked_for(options, offers))]


def nvidia_driver_may_build(options: Any, offers: Any, gpu: Any) -> list[str]:
    """Coded sentences: what is missing to build the modules."""
    asked, _ = asked_for(options, offers)
    return [str(fault) for fault in core.may_build(asked, answered(GpuFacts, gpu, "gpu_facts"))]


def nvidia_driver_probes(options: Any, offers: Any) -> list[str]:
    """The packages whose versions show what is installed."""
    return core.probes(*asked_for(options, offers))


def nvidia_driver_plan(
    options: Any, offers: Any, gpu: Any, packages: Any, family: Any
) -> core.NodePlan:
    """What is to be done on a node, or why not."""
    seen = answered(GpuFacts, gpu, "gpu_facts")
    there = registered(Family, family, "package_family")
    return core.plan(*asked_for(options, offers), seen, plain(packages), there)


def nvidia_driver_may_undo(gpu: Any, family: Any) -> list[str]:
    """Coded sentences: why the packages must not be given back now."""
    seen = answered(GpuFacts, gpu, "gpu_facts")
    return [
        str(fault) for fault in core.may_undo(seen, registered(Family, family, "package_family"))
    ]


class FilterModule:
    """Filters of the role nvidia_driver."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "nvidia_driver_faults": nvidia_driver_faults,
            "nvidia_driver_may_build": nvidia_driver_may_build,
            "nvidia_driver_probes": nvidia_driver_probes,
            "nvidia_driver_may_undo": nvidia_driver_may_undo,
            "nvidia_driver_plan": nvidia_driver_plan,
        }
