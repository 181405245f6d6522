# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What answers of modules have in common. Runs on nodes: standard library only."""

from __future__ import annotations

import hashlib
import os
import stat
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


def make_diff(name: str, before: str, after: str) -> Diff:
    """One thing, as it was and as it becomes."""
    return {"before": before, "after": after, "before_header": name, "after_header": name}


def format_file_for_diff(content: bytes, mode: int) -> str:
    """Print the content of a file for a diff: diffs reach logs and other people's screens.

    Of a file that other users may not read, and of a binary one, only the size and the checksum are shown.
    """
    if b"\0" in content or not mode & stat.S_IROTH:
        return f"{len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}\n"
    return content.decode("utf-8", "replace")


def diff_file(path: str, before: str, after: str, root: str = "", mode: int | None = None) -> Diff:
    """Compare a file as it is and as it becomes.

    Args:
        path: of the file.
        before, after: its text, as `files.read_text_file` returns it; empty if there is no file.
        root: of the node.
        mode: that it will have; None for the present one.
    """
    try:
        present = os.stat(root + path).st_mode
    except OSError:
        present = 0o644
    pairs = ((before, present), (after, present if mode is None else mode))
    shown = [
        format_file_for_diff(one.encode("utf-8", "surrogateescape"), its) if one else ""
        for one, its in pairs
    ]
    return make_diff(path, *shown)


class FailedResult(TypedDict):
    """What could not be done, with the two keys that Ansible has for it."""

    failed: bool
    msg: str


def make_failed_result(message: str) -> FailedResult:
    """Say that it could not be done."""
    return {"failed": True, "msg": message}
