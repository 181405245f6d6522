"""Provide the choice of a bundle's contents to Ansible."""

from __future__ import annotations

import platform
import sys
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.border import validate_registered
from fullmesh.faults import InvalidInputError
from fullmesh.observed.bundle import BundleContents, BundleSource
from fullmesh.observed.torch import VenvSeen
from fullmesh.roles import bundle, torch_runtime


def bundle_kind(facts: Any) -> str:
    """Return the kind of a node. Nodes of one kind need the same packages."""
    try:
        return bundle.derive_node_kind(facts)
    except InvalidInputError as error:
        raise AnsibleFilterError(str(error)) from None


def bundle_hosts(hostvars: Any, hosts: list[str]) -> list[str]:
    """List one host of each kind."""
    try:
        return bundle.list_bundle_hosts(hostvars, hosts)
    except InvalidInputError as error:
        raise AnsibleFilterError(str(error)) from None


def bundle_target(seen: Any, interpreter: str, lock: str) -> dict[str, Any]:
    """Return the wheels to download for a machine whose own Python was *seen*."""
    there = validate_registered(VenvSeen, seen, "torch_venv")
    python = torch_runtime.find_python_version(interpreter, there["python"])
    tags = torch_runtime.list_platform_tags(there["machine"], there["glibc"])
    key = torch_runtime.derive_target_key(lock, python, there["machine"])
    return {"python": python, "machine": there["machine"], "platforms": tags, "key": key}


def bundle_lock_name(text: str) -> str:
    """Name a lock by its content."""
    return bundle.derive_lock_name(text)


def bundle_faults(contents: Any, node: str, facts: Any, interpreter: str, lock: str) -> list[str]:
    """Return coded sentences: why this bundle cannot install *node*."""
    try:
        found = bundle.find_bundle_faults(contents, node, facts, interpreter, lock)
    except InvalidInputError as error:
        found = error.faults
    return [str(fault) for fault in found]


def bundle_python(interpreter: str, seen: Any) -> str:
    """Return the version of the Python for jobs."""
    there = validate_registered(VenvSeen, seen, "torch_venv")
    return torch_runtime.find_python_version(interpreter, there["python"])


def bundle_controller(_: str, what: str) -> Any:
    """Return this machine's own Python version, or pip's names for its platform."""
    glibc = [int(part) for part in platform.libc_ver()[1].split(".")[:2]] or [2, 17]
    if what == "python":
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    return torch_runtime.list_platform_tags(platform.machine(), glibc)


def bundle_sources(
    hostvars: Any, hosts: list[str], controller: Any, places: Any
) -> list[BundleSource]:
    """List the files of the archive and their places in it."""
    parts = [hostvars[host]["__bundle_part"] for host in hosts]
    return bundle.list_bundle_sources(parts, controller, places["root"], places["cache"])


def bundle_contents(hostvars: Any, hosts: list[str]) -> BundleContents:
    """Return the machines that the archive is for."""
    return bundle.collect_bundle_contents([hostvars[host]["__bundle_part"] for host in hosts])
