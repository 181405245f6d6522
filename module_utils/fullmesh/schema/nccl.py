# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""NCCL's packages: what a node's own sources say of the repository that they come from."""

from __future__ import annotations

from typing import TypedDict


class Repository(TypedDict):
    """Who else names the repository: ``theirs``, a path, and its ``section``; ``off``: files where it is switched off.

    ``in_the_way``: sentences, what of the node's own settings hides the packages.
    """

    theirs: str
    section: str
    off: list[str]
    in_the_way: list[str]
