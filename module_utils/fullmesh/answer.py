# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define types that module answers share. Runs on nodes: standard library only."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TypedDict


class Diff(TypedDict):
    """A change in the format of Ansible's diff."""

    before: str
    after: str
    before_header: str
    after_header: str


class Note(TypedDict):
    """A coded remark for the report."""

    code: str
    text: str


def make_diff(name: str, before: str, after: str) -> Diff:
    """Return the diff of one item."""
    return {"before": before, "after": after, "before_header": name, "after_header": name}


def format_file_for_diff(content: bytes, mode: int) -> str:
    """Format the content of a file for a diff, which may appear in logs and on shared screens.

    Only size and checksum are shown for a file that other users may not read, and for a binary one.
    """
    if b"\0" in content or not mode & stat.S_IROTH:
        return f"{len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}\n"
    return content.decode("utf-8", "replace")


def diff_file(path: str, before: str, after: str, root: str = "", mode: int | None = None) -> Diff:
    """Return the diff of a file.

    Args:
        path: of the file.
        before, after: its text, as `files.read_text_file` returns it. Empty if there is no file.
        root: of the node.
        mode: its new mode, None for the present one.
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
    """A failure, with Ansible's two keys for it."""

    failed: bool
    msg: str


def make_failed_result(message: str) -> FailedResult:
    """Return a failure with Ansible's keys."""
    return {"failed": True, "msg": message}
