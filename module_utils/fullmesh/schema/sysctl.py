# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Requested kernel settings: built on the controller, judged and written on the node."""

from __future__ import annotations

from typing import Literal, TypedDict

Rule = Literal["exact", "floor", "ports"]


class KernelSetting(TypedDict):
    """A requested kernel setting.

    Attributes:
        key: dotted.
        value: in the kernel's format.
        rule: exactly this, at least this, or these ports in addition to others' reserved ones.
        reason: for the file.
        must: a container that cannot have it is rejected as well.
        if_present: a kernel without the key is accepted.
    """

    key: str
    value: str
    rule: Rule
    reason: str
    must: bool
    if_present: bool


class SessionLimits(TypedDict):
    """Limits of every session.

    Attributes:
        nofile: open files (soft limit). The hard limit is raised to it and never lowered.
        memlock: locked memory in KiB, or ``unlimited``.
    """

    nofile: int
    memlock: str
