# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The results of toolkit_packages and container_devices: NVIDIA's container toolkit on a node."""

from __future__ import annotations

from typing import TypedDict

from .nccl import Repository


class ToolkitPackages(TypedDict):
    """``version`` is the wanted one.

    ``satisfied``: every package is installed in it.

    Attributes:
        installed: package -> version.
        ours: Fullmesh's own file names the repository.
        repository: other sources that name it.
    """

    installed: dict[str, str]
    satisfied: bool
    version: str
    ours: bool
    repository: Repository


class CdiState(TypedDict):
    """Whether containers can use the node's GPUs.

    Attributes:
        path: the specification that describes them with the loaded driver, or "".
        driver: its version, "" if none is loaded.
        units: of the toolkit, which renew the specification after a driver change. Older toolkits have none.
    """

    path: str
    driver: str
    units: list[str]
