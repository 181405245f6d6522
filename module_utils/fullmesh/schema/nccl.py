# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""NCCL's packages: how a node's own package sources treat their repository."""

from __future__ import annotations

from typing import TypedDict


class Repository(TypedDict):
    """Other sources of the repository.

    ``theirs``, a path, and its ``section``. ``off``: files that disable it.

    ``in_the_way``: sentences about the node's settings that hide the packages.
    """

    theirs: str
    section: str
    off: list[str]
    in_the_way: list[str]
