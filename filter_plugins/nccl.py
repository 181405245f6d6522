"""Hands the choice of NCCL's repository to Ansible."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from fullmesh import nccl as core


def nccl_repository(url: str, vendors: str, machine: str) -> str:
    """The repository's address."""
    return core.repository(url, vendors, machine)


def nccl_key_address(key: str, base: str, vendors: str) -> str:
    """Where the signing key is fetched from."""
    return core.key_address(key, base, vendors)


def nccl_key_file(address: str, folder: str) -> str:
    """Where the signing key is kept."""
    return core.key_file(folder, address)


def nccl_faults(version: Any, cuda: Any, url: str, key: str) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [str(fault) for fault in core.faults(version, cuda, url, key)]


class FilterModule:
    """Filters of the role nccl."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "nccl_repository": nccl_repository,
            "nccl_key_address": nccl_key_address,
            "nccl_key_file": nccl_key_file,
            "nccl_faults": nccl_faults,
        }
