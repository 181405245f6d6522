"""Provide the choice of the NVIDIA driver to Ansible."""

from __future__ import annotations

from typing import Any

from fullmesh.border import validate_answer, validate_registered
from fullmesh.faults import Fault
from fullmesh.observed.family import PackageFamily
from fullmesh.observed.gpu import GpuFacts
from fullmesh.plain import to_json_value
from fullmesh.roles import nvidia_driver


def validate_driver_options(
    options: Any, offers: Any
) -> tuple[nvidia_driver.DriverSettings, nvidia_driver.DriverOffers]:
    """Return the role's settings, on a system with the offers in its vars."""
    there = validate_answer(nvidia_driver.DriverOffers, offers, "__nvidia_driver_offers")
    return nvidia_driver.read_driver_settings(to_json_value(options), there), there


def find_driver_option_faults(settings: Any, offers: Any) -> list[Fault]:
    """Find the settings that cannot work on a system with these *offers*."""
    return nvidia_driver.find_driver_faults(*validate_driver_options(settings, offers))


def nvidia_driver_may_build(options: Any, offers: Any, gpu: Any) -> list[str]:
    """Return coded sentences: the tools that are missing to build the modules."""
    asked, _ = validate_driver_options(options, offers)
    return [
        str(fault)
        for fault in nvidia_driver.find_build_faults(
            asked, validate_answer(GpuFacts, gpu, "gpu_facts")
        )
    ]


def nvidia_driver_probes(options: Any, offers: Any) -> list[str]:
    """List the packages whose versions show which driver is installed."""
    return nvidia_driver.list_probe_packages(*validate_driver_options(options, offers))


def nvidia_driver_plan(
    options: Any, offers: Any, gpu: Any, packages: Any, family: Any
) -> nvidia_driver.DriverPlan:
    """Plan the actions on a node, or return why there are none."""
    seen = validate_answer(GpuFacts, gpu, "gpu_facts")
    there = validate_registered(PackageFamily, family, "package_family")
    return nvidia_driver.plan_driver(
        *validate_driver_options(options, offers), seen, to_json_value(packages), there
    )


def nvidia_driver_may_undo(gpu: Any, family: Any) -> list[str]:
    """Return coded sentences: why the packages must not be restored now."""
    seen = validate_answer(GpuFacts, gpu, "gpu_facts")
    return [
        str(fault)
        for fault in nvidia_driver.find_undo_faults(
            seen, validate_registered(PackageFamily, family, "package_family")
        )
    ]
