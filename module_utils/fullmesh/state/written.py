"""What our roles have last written on this node, by checksum: what differs from that is somebody else's work.

A role says when it begins (`undo_point: state: present`) and when it has ended (`state: written`): what has changed in
between is ours. Beside its undo point lies ``written.json``: {"files": {path: content}, "start": {path: content}}.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    Contents = dict[str, str]

STORE = "/var/lib/fullmesh/undo"
# Inert where only files with an ending are read, and where every file is: backups are left out by NetworkManager and
# silently by apt ("~"), names with a dot first by all that a shell's `*` finds (ifupdown's interfaces.d).
SUFFIX = ".fullmesh-kept-"
EVERY_FILE_IS_READ = ("/etc/network/interfaces.d",)


class WrittenFiles(TypedDict, total=False):
    """What a role has written, and, while it runs, what it found: path -> content."""

    files: dict[str, str]
    start: dict[str, str]


def fingerprint_entry(entry: Mapping[str, object]) -> str:
    """What stands in a path, of its description by undo_point: mode and owner are no work of anybody's."""
    return " ".join([str(entry["kind"]), str(entry.get("sha256", entry.get("target", "")))]).strip()


def fingerprint_text(text: str) -> str:
    """The same of a text, as `files.read` returns it."""
    return "file " + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def written_record_path(root: str, role: str) -> str:
    """Where a role's record lies."""
    return f"{root}{STORE}/{role}/written.json"


def load_written_files(path: str) -> WrittenFiles:
    """A role's record; what is absent or broken knows nothing, and then the user's file is kept rather than lost."""
    try:
        with open(path, encoding="utf-8") as stream:
            found: WrittenFiles = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def begin_written_record(record: WrittenFiles, now: Contents) -> WrittenFiles:
    """The record of a role that begins: what is not as it left it may be changed by somebody else."""
    files = record.get("files", {})
    start = {path: one for path, one in now.items() if files.get(path) != one}
    return {"files": files, "start": start}


def end_written_record(record: WrittenFiles, now: Contents) -> WrittenFiles:
    """The record of a role that has ended: what it did not touch stays unknown, whoever wrote it."""
    if "start" not in record:
        return record
    ours = {path: one for path, one in now.items() if record["start"].get(path) != one}
    return {"files": {**record["files"], **ours}}


def load_known_files(root: str, role: str) -> Contents:
    """What a role has last written, {path: content}; what is not in it nobody knows."""
    return load_written_files(written_record_path(root, role)).get("files", {})


def make_kept_name(path: str, date: str, taken: int = 0) -> str:
    """The name under which somebody's version stays beside *path*; *taken*: how many of that day there are."""
    more = f"-{taken + 1}" if taken else ""
    folder, name = os.path.split(path)
    dot = "." if folder in EVERY_FILE_IS_READ else ""
    return f"{folder}/{dot}{name}{SUFFIX}{date}{more}~"
