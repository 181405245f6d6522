"""Record the files that roles have written on this node, by checksum.

Other content was written by others.

A role records its start (`undo_point: state: present`) and its end (`state: written`). Changes in between are its own.
``written.json``, next to its undo point, is {"files": {path: content}, "start": {path: content}}.

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
# Programs must not read the backups. NetworkManager and apt skip names that end in "~" (apt without a warning). Readers
# that use a shell's `*` (ifupdown's interfaces.d) skip names that start with a dot.
SUFFIX = ".fullmesh-kept-"
EVERY_FILE_IS_READ = ("/etc/network/interfaces.d",)


class WrittenFiles(TypedDict, total=False):
    """The files that a role wrote (``files``) and, while it runs, those it found (``start``): path -> content."""

    files: dict[str, str]
    start: dict[str, str]


def fingerprint_entry(entry: Mapping[str, object]) -> str:
    """Return kind and content of a path that undo_point described. Mode and owner do not count as changes."""
    return " ".join([str(entry["kind"]), str(entry.get("sha256", entry.get("target", "")))]).strip()


def fingerprint_text(text: str) -> str:
    """Return the same for a text, as `files.read` returns it."""
    return "file " + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def written_record_path(root: str, role: str) -> str:
    """Return the path of a role's record."""
    return f"{root}{STORE}/{role}/written.json"


def load_written_files(path: str) -> WrittenFiles:
    """Read a role's record. A missing or broken one is empty, so that changed files are kept rather than lost."""
    try:
        with open(path, encoding="utf-8") as stream:
            found: WrittenFiles = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def begin_written_record(record: WrittenFiles, now: Contents) -> WrittenFiles:
    """Start a record: files that differ from the role's last version may have been changed by others."""
    files = record.get("files", {})
    start = {path: one for path, one in now.items() if files.get(path) != one}
    return {"files": files, "start": start}


def end_written_record(record: WrittenFiles, now: Contents) -> WrittenFiles:
    """Finish a record: files that the role did not change keep their state."""
    if "start" not in record:
        return record
    ours = {path: one for path, one in now.items() if record["start"].get(path) != one}
    return {"files": {**record["files"], **ours}}


def load_known_files(root: str, role: str) -> Contents:
    """Return the content that a role last wrote, {path: content}. Other paths are unknown."""
    return load_written_files(written_record_path(root, role)).get("files", {})


def make_kept_name(path: str, date: str, taken: int = 0) -> str:
    """Return the name of a kept version in the folder of *path*. *taken*: the number of versions of that day."""
    more = f"-{taken + 1}" if taken else ""
    folder, name = os.path.split(path)
    dot = "." if folder in EVERY_FILE_IS_READ else ""
    return f"{folder}/{dot}{name}{SUFFIX}{date}{more}~"
