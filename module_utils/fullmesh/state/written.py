"""What our roles have last written on this node, by checksum: what differs from that is somebody else's work.

A role says when it begins (`undo_point: state: present`) and when it has ended (`state: written`): what has changed in
between is ours. Beside its undo point lies ``written.json``: {"files": {path: content}, "start": {path: content}}.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    Contents = dict[str, str]

STORE = "/var/lib/fullmesh/undo"
# A node that 2e7304f or an older version configured has checksums in its manifest alone; an undo puts it aside first.
MANIFESTS = ("/var/lib/fullmesh/manifest.undone.json", "/var/lib/fullmesh/manifest.json")
# Inert where only files with an ending are read, and where every file is: backups are left out by NetworkManager and
# silently by apt ("~"), names with a dot first by all that a shell's `*` finds (ifupdown's interfaces.d).
SUFFIX = ".fullmesh-kept-"
EVERY_FILE_IS_READ = ("/etc/network/interfaces.d",)


class Written(TypedDict, total=False):
    """What a role has written, and, while it runs, what it found: path -> content."""

    files: dict[str, str]
    start: dict[str, str]


def content(entry: Mapping[str, object]) -> str:
    """What stands in a path, of its description by undo_point: mode and owner are no work of anybody's."""
    return " ".join([str(entry["kind"]), str(entry.get("sha256", entry.get("target", "")))]).strip()


def sum_of(text: str) -> str:
    """The same of a text, as `files.read` returns it."""
    return "file " + hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def record_path(root: str, role: str) -> str:
    """Where a role's record lies."""
    return f"{root}{STORE}/{role}/written.json"


def load(path: str) -> Written:
    """A role's record; what is absent or broken knows nothing, and then the user's file is kept rather than lost."""
    found: Written = read_json(path)
    return found


def read_json(path: str) -> Any:
    """A file of ours, {} where it is absent or broken."""
    try:
        with open(path, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def begun(record: Written, now: Contents) -> Written:
    """The record of a role that begins: what is not as it left it may be changed by somebody else."""
    files = record.get("files", {})
    start = {path: one for path, one in now.items() if files.get(path) != one}
    return {"files": files, "start": start}


def ended(record: Written, now: Contents) -> Written:
    """The record of a role that has ended: what it did not touch stays unknown, whoever wrote it."""
    if "start" not in record:
        return record
    ours = {path: one for path, one in now.items() if record["start"].get(path) != one}
    return {"files": {**record["files"], **ours}}


def known(root: str, role: str) -> Contents:
    """What a role has last written, {path: content}; what is not in it nobody knows."""
    found = {}
    for path in MANIFESTS:
        state = read_json(root + path).get("state", {})
        files = state.get("file", {}) if isinstance(state, dict) else {}
        found.update({one: from_manifest(text) for one, text in files.items()})
    found.update(load(record_path(root, role)).get("files", {}))
    return found


def from_manifest(state: str) -> str:
    """The content of a file of which the manifest says ``sha256 mode uid:gid`` or ``link -> target``."""
    if state.startswith("link -> "):
        return "link " + state[len("link -> ") :]
    return state if state == "absent" else "file " + state.split(" ", 1)[0]


def kept_name(path: str, date: str, taken: int = 0) -> str:
    """The name under which somebody's version stays beside *path*; *taken*: how many of that day there are."""
    more = f"-{taken + 1}" if taken else ""
    folder, name = os.path.split(path)
    dot = "." if folder in EVERY_FILE_IS_READ else ""
    return f"{folder}/{dot}{name}{SUFFIX}{date}{more}~"
