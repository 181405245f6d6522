"""Provide the container toolkit's settings and state to Ansible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fullmesh.border import validate_answer
from fullmesh.model.types import CodedText
from fullmesh.observed.gpu import GpuFacts
from fullmesh.observed.toolkit import CdiState, ToolkitPackages
from fullmesh.roles import container_toolkit


def container_toolkit_may(gpu: Any) -> list[str]:
    """Return coded sentences: why the toolkit is not for this node."""
    return [
        str(fault)
        for fault in container_toolkit.find_missing_gpu_faults(
            validate_answer(GpuFacts, gpu, "gpu_facts")
        )
    ]


def container_toolkit_writes_source(seen: Any) -> bool:
    """Return whether Fullmesh's own file must name the repository."""
    return container_toolkit.needs_own_source(
        validate_answer(ToolkitPackages, seen, "toolkit_packages")
    )


def container_toolkit_not_installed(failed: Mapping[str, Any], seen: Any, url: str) -> str:
    """Explain why the package manager does not install a version that the repository has."""
    return container_toolkit.explain_toolkit_failure(
        failed, validate_answer(ToolkitPackages, seen, "toolkit_packages"), url
    )


def container_toolkit_notes(devices: Any, waiting: int) -> list[CodedText]:
    """Return the notes for the report."""
    return container_toolkit.collect_toolkit_notes(
        validate_answer(CdiState, devices, "container_devices"), int(waiting)
    )
