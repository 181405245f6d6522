# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Observe the present state of this node, in the form of the undo record. Standard library only."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING

from ..account import AccountError, ForeignFolderError, act_in_folder
from ..files import read_bytes, read_selinux_context
from ..tools import dpkg, ip, rpm, systemctl
from .errors import UndoError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..commands import SplitRunner
    from ..tools.ip import IpLink
    from .record import FileBefore, InterfaceBefore, Kind, UndoState, UnitBefore

    Names = dict[Kind, list[str]]

UNIT_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState", "FragmentPath")
RUNNING = ("active", "activating", "reloading")


class NodeSystem:
    """The node: a root directory and a function that runs commands. Tests pass their own."""

    def __init__(self, root: str, run: SplitRunner) -> None:
        self.root = root.rstrip("/")
        self.run = run

    def at(self, path: str) -> str:
        """Return the local path of the node's *path*."""
        return self.root + path


# --- files ------------------------------------------------------------------------------------


def check_exact_path(path: str) -> str:
    """Reject paths that are not absolute and normalized."""
    if not path.startswith("/") or os.path.normpath(path) != path or path == "/":
        raise UndoError(
            f"[UN-102] {path!r} cannot be saved: it is not a normalized absolute path. "
            "Fix: write it like /etc/sysctl.d/60-fullmesh.conf."
        )
    return path


def act_on_path(node: NodeSystem, path: str, work: Callable[[str], Any]) -> Any:
    """Call *work* with a path of the node, in a folder that other users cannot swap meanwhile (`act_in_folder`).

    Raises:
        OSError: the folder does not exist, or the work failed.
        UndoError: other users can change the folder.
    """
    folder, name = os.path.split(node.at(path))
    try:
        return act_in_folder(folder, lambda here: work(os.path.join(here, name)))
    except ForeignFolderError as error:
        raise UndoError(f"[UN-107] root cannot work safely with {path}: {error}.") from error
    except AccountError as error:
        raise UndoError(str(error)) from error


def observe_file(node: NodeSystem, path: str) -> FileBefore:
    """Describe a path of the node."""
    try:
        found: FileBefore = act_on_path(node, path, lambda here: describe_path(here, path))
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    return found


def read_node_file(node: NodeSystem, path: str) -> bytes:
    """Return all of a file of the node."""
    text: str = act_on_path(
        node, path, lambda here: base64.b64encode(read_bytes(here)).decode("ascii")
    )
    return base64.b64decode(text)


def describe_path(here: str, path: str) -> FileBefore:
    """Describe the entry at *here*, which the node calls *path*. Regular files get a checksum."""
    try:
        info = os.lstat(here)
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    if stat.S_ISLNK(info.st_mode):
        return {"kind": "link", "target": os.readlink(here)}
    if not stat.S_ISREG(info.st_mode):
        raise UndoError(
            f"[UN-102] {path} cannot be saved: it is neither a file nor a link. "
            "Fix: name the files in it, or list a directory under `directories`."
        )
    return {
        "kind": "file",
        "sha256": hashlib.sha256(read_bytes(here)).hexdigest(),
        "mode": stat.S_IMODE(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "context": read_selinux_context(here),
    }


def list_missing_parents(node: NodeSystem, path: str) -> list[str]:
    """Return the missing directories above *path*."""
    missing = []
    parent = os.path.dirname(path)
    while parent != "/" and not os.path.lexists(node.at(parent)):
        missing.append(parent)
        parent = os.path.dirname(parent)
    return missing


# --- sysctls ----------------------------------------------------------------------------------


def sysctl_to_proc_path(key: str) -> str:
    """Return a key's file in /proc/sys. ``net.ipv4.conf.eth0/1.x`` is the interface eth0.1, as in sysctl.d(5)."""
    if not re.match(r"^[A-Za-z0-9_./@:-]+$", key) or ".." in key:
        raise UndoError(
            f"[UN-102] {key!r} is not a sysctl name. Fix: write it like net.ipv4.tcp_fin_timeout."
        )
    slashed = key.translate({ord("."): "/", ord("/"): "."})
    return "/proc/sys/" + slashed


def observe_sysctl(node: NodeSystem, key: str) -> str | None:
    """Return the value with single spaces, or None if this kernel has no such key."""
    try:
        return " ".join(read_bytes(node.at(sysctl_to_proc_path(key))).decode().split())
    except (OSError, UnicodeDecodeError):
        return None


# --- units and packages -----------------------------------------------------------------------


def observe_units(node: NodeSystem, units: list[str]) -> dict[str, UnitBefore]:
    """Query all units with one call. systemd answers in the order of the arguments, one block each."""
    if not units:
        return {}
    rc, out, err = node.run(systemctl.build_show_command(UNIT_PROPERTIES, units))
    blocks = systemctl.parse_unit_blocks(out)
    if rc != 0 or len(blocks) != len(units):
        raise UndoError(
            f"[UN-103] systemctl could not describe {', '.join(units)}: "
            f"rc {rc}, {(err or out).strip()!r}. "
            "Fullmesh needs systemd as init. Check: `systemctl status` on this node."
        )
    return {unit: describe_unit(block) for unit, block in zip(units, blocks)}


def has_unit_file(properties: Mapping[str, str]) -> bool:
    """Return whether a unit is installed.

    systemd keeps the unit of a removed package until it reads its units again.
    """
    if properties.get("LoadState") in (None, "not-found"):
        return False
    path = properties.get("FragmentPath", "")
    return not path or os.path.exists(path)


def describe_unit(properties: Mapping[str, str]) -> UnitBefore:
    """Describe a unit in the words of the undo record."""
    return {
        "found": has_unit_file(properties),
        "active": properties.get("ActiveState") in RUNNING,
        "enabled": properties.get("UnitFileState", ""),
    }


def observe_packages(node: NodeSystem, names: list[str]) -> dict[str, str]:
    """Return each package's state with one call to the system's database."""
    found = dict.fromkeys(names, "absent")
    if names and has_dpkg(node):
        for one in dpkg.parse_packages(node.run(dpkg.build_query_command(names))[1]):
            if one.name in found and one.state in ("installed", "config-files"):
                found[one.name] = one.state
    elif names:
        for here in rpm.parse_packages(node.run(rpm.build_query_command(names))[1]):
            if here.name in found:
                found[here.name] = "installed"
    return found


def has_dpkg(node: NodeSystem) -> bool:
    """Return whether dpkg manages the packages. EPEL also has dpkg, with an empty database."""
    status = node.at("/var/lib/dpkg/status")
    return os.path.isfile(status) and os.path.getsize(status) > 0


def list_all_packages(node: NodeSystem) -> list[str]:
    """Return every package that dpkg or rpm has installed."""
    if not has_dpkg(node):
        return sorted(
            one.name for one in rpm.parse_packages(node.run(rpm.build_query_command())[1])
        )
    found = dpkg.parse_packages(node.run(dpkg.build_query_command())[1])
    return [one.name for one in found if one.state == "installed"]


def observe_interfaces(node: NodeSystem, names: list[str]) -> dict[str, InterfaceBefore]:
    """Describe interfaces with one call.

    Leases and link-local addresses are left out, since they come by themselves.
    """
    if not names:
        return {}
    found = ip.parse_links(node.run(ip.SHOW_LINKS)[1])
    return {name: describe_interface(found.get(name)) for name in names}


def describe_interface(link: IpLink | None) -> InterfaceBefore:
    """Describe an interface in the words of the undo record."""
    if link is None:
        return {"addresses": [], "mtu": 0}
    addresses = [
        one["address"]
        for one in link["addresses"]
        if one["scope"] == "global" and not one["dynamic"]
    ]
    return {"addresses": addresses, "mtu": link["mtu"]}


def observe_state(node: NodeSystem, names: Names) -> UndoState:
    """Return the present state of all named items."""
    return {
        "files": {path: observe_file(node, path) for path in names["files"]},
        "directories": {path: os.path.lexists(node.at(path)) for path in names["directories"]},
        "sysctls": {key: observe_sysctl(node, key) for key in names["sysctls"]},
        "services": observe_units(node, names["services"]),
        "packages": observe_packages(node, names["packages"]),
        "interfaces": observe_interfaces(node, names["interfaces"]),
    }
