"""Hands the choice of NCCL's repository to Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fullmesh.border import validate_answer
from fullmesh.model.types import CodedText
from fullmesh.observed.nccl import Repository
from fullmesh.roles import nccl


def nccl_repository(url: str, vendors: str, machine: str) -> str:
    """The repository's address."""
    return nccl.choose_nccl_repository(url, vendors, machine)


def nccl_key_address(key: str, base: str, vendors: str) -> str:
    """Where the signing key is fetched from."""
    return nccl.choose_key_address(key, base, vendors)


def nccl_key_file(address: str, folder: str) -> str:
    """Where the signing key is kept."""
    return nccl.choose_key_file(folder, address)


def nccl_faults(version: Any, cuda: Any, url: str, key: str) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [str(fault) for fault in nccl.find_nccl_faults(version, cuda, url, key)]


def nccl_not_installed(failed: Mapping[str, Any], pinned: Sequence[str], around: Any) -> str:
    """The refusal when the package manager does not install what the repository has."""
    return nccl.explain_nccl_failure(
        failed, pinned, validate_answer(Repository, around, "nccl_packages")
    )


def nccl_notes(around: Any, url: str, ours: str) -> list[CodedText]:
    """What the report has to say of the node's sources."""
    return nccl.collect_nccl_notes(validate_answer(Repository, around, "nccl_packages"), url, ours)


class FilterModule:
    """Filters of the role nccl."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "nccl_repository": nccl_repository,
            "nccl_key_address": nccl_key_address,
            "nccl_key_file": nccl_key_file,
            "nccl_faults": nccl_faults,
            "nccl_not_installed": nccl_not_installed,
            "nccl_notes": nccl_notes,
        }
