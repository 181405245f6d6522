"""Hands the container toolkit's settings and state to Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fullmesh.border import answered
from fullmesh.model.types import CodedText
from fullmesh.observed.gpu import GpuFacts
from fullmesh.observed.toolkit import Described, Toolkit
from fullmesh.plain import plain
from fullmesh.roles import container_toolkit as core


def container_toolkit_place(
    url: str, key: str, vendors: str, vendors_key: str, machine: str
) -> core.Place:
    """Where the packages come from."""
    return core.place(url, key, vendors, vendors_key, machine)


def container_toolkit_faults(options: Any) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [str(fault) for fault in core.faults(plain(options))]


def container_toolkit_may(gpu: Any) -> list[str]:
    """Coded sentences: why the toolkit has no business on the node."""
    return [str(fault) for fault in core.may_manage(answered(GpuFacts, gpu, "gpu_facts"))]


def container_toolkit_writes_source(seen: Any) -> bool:
    """Whether our own file has to name the repository."""
    return core.writes_source(answered(Toolkit, seen, "toolkit_packages"))


def container_toolkit_not_installed(failed: Mapping[str, Any], seen: Any, url: str) -> str:
    """The refusal when the package manager does not install what the repository has."""
    return core.not_installed(failed, answered(Toolkit, seen, "toolkit_packages"), url)


def container_toolkit_notes(devices: Any, waiting: int) -> list[CodedText]:
    """What the report has to say."""
    return core.notes(answered(Described, devices, "container_devices"), int(waiting))


class FilterModule:
    """Filters of the role container_toolkit."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "container_toolkit_place": container_toolkit_place,
            "container_toolkit_faults": container_toolkit_faults,
            "container_toolkit_may": container_toolkit_may,
            "container_toolkit_writes_source": container_toolkit_writes_source,
            "container_toolkit_not_installed": container_toolkit_not_installed,
            "container_toolkit_notes": container_toolkit_notes,
        }
