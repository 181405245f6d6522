# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the state of files and sysctls for the manifest, and compare two states.

Runs on nodes as well without this package (node_programs/fullmesh_fingerprint.py is a link to it): standard library
only.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def fingerprint_path(path: str) -> str:
    """Return ``sha256 mode uid:gid`` of a file, ``link -> target``, ``directory mode uid:gid`` or ``absent``."""
    try:
        info = os.lstat(path)
    except OSError:
        return "absent"
    if stat.S_ISLNK(info.st_mode):
        return f"link -> {os.readlink(path)}"
    who = f"{stat.S_IMODE(info.st_mode):04o} {info.st_uid}:{info.st_gid}"
    if stat.S_ISDIR(info.st_mode):
        return f"directory {who}"
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as handle:
            for block in iter(lambda: handle.read(1 << 20), b""):
                digest.update(block)
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return f"{digest.hexdigest()} {who}"


def read_sysctl_value(key: str, root: str = "/proc/sys") -> str:
    """Return a key's value with single spaces, or ``absent`` if the kernel does not have it."""
    # In sysctl.d names '.' and '/' may change places (sysctl.d(5)): "a/b.c" is the path a.b/c's twin.
    slash, dot = key.find("/"), key.find(".")
    path = key
    if slash == -1 or -1 < dot < slash:
        path = key.translate({ord("."): "/", ord("/"): "."})
    try:
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as stream:
            return " ".join(stream.read().split())
    except OSError:
        return "absent"


def describe_differences(
    then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Describe each item that has changed."""
    result = []
    for kind in sorted(then):
        for name in sorted(then[kind]):
            before, after = then[kind][name], now.get(kind, {}).get(name)
            if before != after:
                result.append(
                    f"{kind} {name}: was {_shorten_state(before)}, is {_shorten_state(after)}"
                )
    return result


def _shorten_state(state: Any) -> str:
    if isinstance(state, dict):
        return ", ".join(f"{key} {_shorten_state(state[key])}" for key in sorted(state))
    text = str(state)
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1", text)
