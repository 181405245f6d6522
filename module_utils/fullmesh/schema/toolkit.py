# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""NVIDIA's container toolkit on a node: what toolkit_packages and container_devices return."""

from __future__ import annotations

from typing import TypedDict

from .nccl import Repository


class ToolkitPackages(TypedDict):
    """``version`` is the one to have; ``satisfied``: every package is installed in it.

    Attributes:
        installed: package -> version.
        ours: our own file names the repository.
        repository: who else names it.
    """

    installed: dict[str, str]
    satisfied: bool
    version: str
    ours: bool
    repository: Repository


class CdiState(TypedDict):
    """Whether containers can have the node's GPUs.

    Attributes:
        path: the specification that describes them with the driver that is loaded; "" where there is none.
        driver: its version; "" where none is loaded.
        units: of the toolkit, which make it anew when the driver changes; older ones have none.
    """

    path: str
    driver: str
    units: list[str]
