"""Provide the choice of NCCL's repository to Ansible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.border import validate_answer
from fullmesh.model.types import CodedText
from fullmesh.observed.nccl import Repository
from fullmesh.roles import nccl


def nccl_key_file(address: str, folder: str) -> str:
    """Return the path of the signing key."""
    return nccl.choose_key_file(folder, address)


def nccl_not_installed(failed: Mapping[str, Any], pinned: Sequence[str], around: Any) -> str:
    """Explain why the package manager does not install packages that the repository has."""
    return nccl.explain_nccl_failure(
        failed, pinned, validate_answer(Repository, around, "nccl_packages")
    )


def nccl_notes(around: Any, url: str, ours: str) -> list[CodedText]:
    """Return the notes for the report about the node's sources."""
    return nccl.collect_nccl_notes(validate_answer(Repository, around, "nccl_packages"), url, ours)
