# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Kernel settings that a node is asked for: made on the controller, judged and written on the node."""

from __future__ import annotations

from typing import Literal, TypedDict

Rule = Literal["exact", "floor", "ports"]


class KernelSetting(TypedDict):
    """A kernel setting that is asked for.

    Attributes:
        key: dotted; value: as the kernel takes it.
        rule: exactly this, at least this, or these ports beside what others reserved.
        reason: for the file; must: a container that cannot have it is refused as well.
        if_present: a kernel without the key is fine.
    """

    key: str
    value: str
    rule: Rule
    reason: str
    must: bool
    if_present: bool
