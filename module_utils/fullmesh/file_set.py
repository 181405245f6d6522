# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Compare several small files and their directories with the node, then write them at once. Runs on nodes."""

from __future__ import annotations

import os
import stat
import tempfile
from typing import TYPE_CHECKING, TypedDict

from ansible.module_utils.urls import open_url

from .answer import format_file_for_diff, make_diff
from .openpgp import describe_mismatch

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from .answer import Diff

LARGEST = 1 << 20  # a key, a list: nothing large belongs here


class KeyRefusedError(ValueError):
    """A fetched key is invalid, or has a different fingerprint than expected."""


class FileRequest(TypedDict):
    """A requested file: its *content*, or the *url* of a key with its allowed *fingerprints*."""

    path: str
    content: str | None
    url: str | None
    fingerprints: list[str] | None
    mode: str


class FileState(TypedDict):
    """The state of a file, or its absence."""

    exists: bool
    content: bytes
    mode: int


class FileChange(TypedDict):
    """A file that differs."""

    path: str
    before: FileState
    after: FileState


GONE: FileState = {"exists": False, "content": b"", "mode": 0}


def request_text_file(path: str, content: str, mode: str) -> FileRequest:
    """Request a file with this text."""
    return {"path": path, "content": content, "url": None, "fingerprints": None, "mode": mode}


def read_file_state(path: str) -> FileState:
    """Return a file's bytes and mode, or its absence."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return GONE
    if not stat.S_ISREG(info.st_mode):
        raise ValueError(f"{path} exists and is not a regular file. Move it away")
    with open(path, "rb") as stream:
        content = stream.read()
    return {"exists": True, "content": content, "mode": stat.S_IMODE(info.st_mode)}


def format_file_state(entry: FileState) -> str:
    """Format a state for a diff."""
    if not entry["exists"]:
        return ""
    return "mode {:04o}\n".format(entry["mode"]) + format_file_for_diff(
        entry["content"], entry["mode"]
    )


def fetch_url(url: str) -> bytes:
    """Read a small file from the network or this machine."""
    try:
        return bytes(open_url(url, timeout=30, http_agent="fullmesh").read(LARGEST))
    except OSError as error:  # URLError is one
        raise ValueError(f"{url} cannot be fetched: {error}") from error


def fetch_key(url: str, fingerprints: list[str]) -> bytes:
    """Fetch the key that signs a repository.

    Raises:
        KeyRefusedError: its fingerprint is not an expected one.
    """
    content = fetch_url(url)
    try:
        mismatch = describe_mismatch(content, fingerprints)
    except ValueError as error:
        raise KeyRefusedError(f"{url} is not a key: {error}. Check the address") from error
    if mismatch:
        raise KeyRefusedError(f"{url} {mismatch}. The key was not installed")
    return content


def keep_or_fetch_key(item: FileRequest, before: FileState) -> bytes:
    """Keep an existing key with an expected fingerprint, otherwise fetch it."""
    fingerprints = item["fingerprints"] or []
    if before["exists"]:
        try:
            if not describe_mismatch(before["content"], fingerprints):
                return before["content"]
        except ValueError:
            pass  # not a key at all: it is replaced
    return fetch_key(str(item["url"]), fingerprints)


def plan_file_changes(files: list[FileRequest], absent: list[str]) -> list[FileChange]:
    """Return the changes that are needed, each with the state before and after."""
    steps: list[FileChange] = []
    for item in files:
        before = read_file_state(item["path"])
        content = (item["content"] or "").encode("utf-8")
        if item["url"]:
            content = keep_or_fetch_key(item, before)
        wanted: FileState = {"exists": True, "content": content, "mode": int(item["mode"], 8)}
        steps.append({"path": item["path"], "before": before, "after": wanted})
    for path in absent:
        steps.append({"path": path, "before": read_file_state(path), "after": GONE})
    return [step for step in steps if step["before"] != step["after"]]


def list_missing_directories(paths: list[str]) -> list[str]:
    """Return the directories that do not exist yet, parents first."""
    missing: list[str] = []
    for path in paths:
        chain = []
        while path not in ("", "/") and not os.path.isdir(path):
            chain.append(path)
            path = os.path.dirname(path)  # noqa: PLW2901 (walks up)
        missing += [name for name in reversed(chain) if name not in missing]
    return missing


def apply_file_change(module: AnsibleModule, step: FileChange) -> None:
    """Apply one change. The rename keeps the SELinux context of the path."""
    path, after = step["path"], step["after"]
    if not after["exists"]:
        os.unlink(path)
        return
    handle, temporary = tempfile.mkstemp(prefix=".fullmesh-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(after["content"])
            stream.flush()
            os.fchmod(stream.fileno(), after["mode"])
            os.fsync(stream.fileno())
        module.atomic_move(temporary, path)
        set_file_mode(path, after["mode"])  # atomic_move gives the old file's mode back
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def set_file_mode(path: str, mode: int) -> None:
    """Set a file's mode. Links are not followed."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def apply_file_changes(module: AnsibleModule, folders: list[str], steps: list[FileChange]) -> None:
    """Create the directories, then the files."""
    for folder in folders:
        os.mkdir(folder)
        os.chmod(folder, 0o755)  # noqa: S103 (jobs of every user read here, with any umask)
    for step in steps:
        apply_file_change(module, step)


def diff_file_change(step: FileChange) -> Diff:
    """Return one file for Ansible's diff."""
    return make_diff(
        step["path"], format_file_state(step["before"]), format_file_state(step["after"])
    )
