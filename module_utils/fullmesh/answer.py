# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What answers of modules have in common. Runs on nodes: standard library only."""

from __future__ import annotations

from typing import TypedDict


class Diff(TypedDict):
    """What Ansible shows of a change."""

    before: str
    after: str
    before_header: str
    after_header: str


class Note(TypedDict):
    """A coded remark for the report."""

    code: str
    text: str


def diff(name: str, before: str, after: str) -> Diff:
    """One thing, as it was and as it becomes."""
    return {"before": before, "after": after, "before_header": name, "after_header": name}


class Refused(TypedDict):
    """What could not be done, with the two keys that Ansible has for it."""

    failed: bool
    msg: str


def refused(message: str) -> Refused:
    """Say that it could not be done."""
    return {"failed": True, "msg": message}
