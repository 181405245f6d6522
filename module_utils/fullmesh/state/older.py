# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What versions up to schema 1 kept for an undo, and where: read here, written nowhere any more. Stdlib only.

===============  ==========================================  ==================================================
role             file                                        what
===============  ==========================================  ==================================================
every            undo/<role>/point.json, schema 1            the kinds of undo_point
every, with apt  undo/<role>/installed.json                  [package]
static_ip        undo/static_ip/before.json                  {owners, names, runtime}
selinux_mode     undo/selinux_mode/runtime                   enforcing, permissive, or an empty line
peer_firewall    undo/peer_firewall/ufw, and ufw.conf        loaded or enabled; the file itself, with its time
node_ssh         node_ssh.json (beside undo/)                {user, account, folder, keys}
===============  ==========================================  ==================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .record import FileBefore, Part, UfwBefore

SCHEMA = 1
NODE_SSH = "/var/lib/fullmesh/node_ssh.json"
UFW_CONF = "/etc/ufw/ufw.conf"


def read_bytes(path: str) -> bytes:
    """Return all of a file."""
    with open(path, "rb") as stream:
        return stream.read()


def read_json(path: str) -> Any:
    """Return what a file of ours holds."""
    return json.loads(read_bytes(path).decode())


def upgraded(point: dict[str, Any], schema: int) -> dict[str, Any]:
    """A point.json of schema 1 in today's form: the same kinds, and nothing of what it could not say."""
    return dict(point, schema=schema, installed=None, part={})


class Found:
    """Older files of one record; nothing is read before somebody asks for it."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = [path for path in paths if os.path.lexists(path)]

    def at(self, name: str) -> str:
        """The file of this name, empty where there is none."""
        return next((path for path in self.paths if os.path.basename(path) == name), "")

    def parts(self) -> Part:
        """What goes into the record's part, by its key.

        Raises:
            OSError, ValueError: a file cannot be read.
        """
        result: Part = {}
        if self.at("before.json"):
            before = read_json(self.at("before.json"))
            if before:
                result["network"] = {
                    "owners": before.get("owners", {}),
                    "names": before.get("names", {}),
                    "runtime": before.get("runtime", {}),
                }
        if self.at("runtime"):
            result["selinux"] = {"runtime": read_bytes(self.at("runtime")).decode().strip()}
        if self.at("ufw"):
            loaded = read_bytes(self.at("ufw")).decode().strip() == "loaded"
            conf = self.at("ufw.conf")
            ufw: UfwBefore = {
                "loaded": loaded,
                "modified_ns": os.stat(conf).st_mtime_ns if conf else 0,
            }
            result["ufw"] = ufw
        if self.at("node_ssh.json"):
            # an empty file was read as none
            result["account"] = json.loads(read_bytes(self.at("node_ssh.json")) or b"{}")
        return result

    def files(self) -> tuple[dict[str, FileBefore], dict[str, bytes]]:
        """The files that were kept beside the point: described as undo_point does, and their contents."""
        conf = self.at("ufw.conf")
        if not conf:
            return {}, {}
        content, info = read_bytes(conf), os.stat(conf)
        described: FileBefore = {
            "kind": "file",
            "sha256": hashlib.sha256(content).hexdigest(),
            "mode": stat.S_IMODE(info.st_mode),
            "uid": info.st_uid,
            "gid": info.st_gid,
            "context": "",
        }
        return {UFW_CONF: described}, {UFW_CONF: content}

    def installed(self) -> list[str] | None:
        """The packages that dpkg had.

        Raises:
            OSError, ValueError: the file cannot be read.
        """
        path = self.at("installed.json")
        return None if not path else [str(one) for one in read_json(path)]


def find(root: str, directory: str, role: str, name: str) -> Found:
    """Look for the older files of a record.

    Args:
        root: where the node's / is.
        directory: of the role, in the store.
        role: whose record it is.
        name: of the record.
    """
    if name == "ufw":
        return Found([f"{directory}/ufw", f"{directory}/ufw.conf"])
    paths = [f"{directory}/installed.json"]
    if role == "static_ip":
        paths.append(f"{directory}/before.json")
    if role == "selinux_mode":
        paths.append(f"{directory}/runtime")
    if role == "node_ssh":
        paths.append(root + NODE_SSH)
    return Found(paths)
