# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read and write the undo record: the state of this node before a role's first change.

Standard library only.

A role's record is ``/var/lib/fullmesh/undo/<role>/point.json``. ``blobs/`` next to it has the content of files, named
by checksum. The role's ``part`` holds state that is not a file, sysctl, unit or package: the run-time mode of SELinux,
snapshots of network owners, the account that node_ssh created, whether ufw was loaded.

peer_firewall also has ``ufw.json``. If a take-over is not confirmed, this file is restored (usually removed), but the
role's own record must survive.

These files have other formats. ``written.json`` has checksums of the files the role wrote. Each run renews it, and a
broken one counts as empty, while a broken record is an error. peer_firewall's ``listeners.json`` lists ports that the
next run opens again. Journals in ``/var/lib/fullmesh/rollback`` belong to the transaction engine, which runs alone at
boot, without Ansible and this package. They live for minutes and keep times and extended attributes, while an undo
compares contents months later.

A record with another schema version is rejected, never treated as empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from ..files import fsync_directory, read_bytes, write_file_atomically
from . import written
from .errors import UndoError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..network.types import OwnerState as OwnersState
    from ..transaction.engine import KernelView

SCHEMA = 2
POINT = "point"
Kind = Literal["files", "directories", "sysctls", "services", "packages", "interfaces"]
KINDS: tuple[Kind, ...] = (
    "files",
    "directories",
    "sysctls",
    "services",
    "packages",
    "interfaces",
)


class FileBefore(TypedDict, total=False):
    """A path: ``kind`` is absent, link (with ``target``) or file (with all others)."""

    kind: str
    target: str
    sha256: str
    mode: int
    uid: int
    gid: int
    context: str


class UnitBefore(TypedDict):
    """A systemd unit. ``enabled`` has systemctl's value."""

    found: bool
    active: bool
    enabled: str


class InterfaceBefore(TypedDict):
    """An interface: its lasting addresses."""

    addresses: list[str]
    mtu: int


class SelinuxBefore(TypedDict):
    """The mode that ran, "" for off."""

    runtime: str


class NetworkBefore(TypedDict):
    """The network: each owner's own snapshot and its interfaces, and the kernel's view of them."""

    owners: dict[str, OwnersState]
    names: dict[str, list[str]]
    runtime: KernelView


class UfwBefore(TypedDict):
    """ufw: whether its rules were in the kernel, and the time of its ufw.conf."""

    loaded: bool
    modified_ns: int


class AccountBefore(TypedDict, total=False):
    """The parts of an account that node_ssh created: the account, its .ssh, its authorized_keys. It grows meanwhile."""

    user: str
    account: bool
    folder: bool
    keys: bool


class FamilyBeforeBase(TypedDict):
    """Packages of one family with their versions, before a role changed them."""

    before: dict[str, str]


class FamilyBefore(FamilyBeforeBase, total=False):
    """The packages before a role's change, and ``ours``, their state after it.

    ``ours`` is missing if the role died before.
    """

    ours: dict[str, str]


class RolePart(TypedDict, total=False):
    """State that only some roles record.

    ``brought`` lists packages that appeared while a run of the role installed something, including apt's own choices.
    ``installing`` lists dpkg's packages at the start of an unfinished run.
    """

    selinux: SelinuxBefore
    network: NetworkBefore
    ufw: UfwBefore
    account: AccountBefore
    family: FamilyBefore
    brought: list[str]
    installing: list[str]


class UndoState(TypedDict):
    """The state that undo_point observes, by kind."""

    files: dict[str, FileBefore]
    directories: dict[str, bool]
    sysctls: dict[str, str | None]
    services: dict[str, UnitBefore]
    packages: dict[str, str]
    interfaces: dict[str, InterfaceBefore]


class UndoRecord(UndoState):
    """The whole record. ``installed`` lists every dpkg package, or is None if it was never asked."""

    schema: int
    role: str
    installed: list[str] | None
    part: RolePart


def make_empty_record(role: str) -> UndoRecord:
    """Return a record without entries."""
    return {
        "schema": SCHEMA,
        "role": role,
        "files": {},
        "directories": {},
        "sysctls": {},
        "services": {},
        "packages": {},
        "interfaces": {},
        "installed": None,
        "part": {},
    }


def check_record(data: Any, role: str) -> UndoRecord:
    """Return *data* as a record if it is complete and valid.

    Raises:
        ValueError, KeyError, TypeError: it is not.
    """
    if data["schema"] != SCHEMA or data["role"] != role:
        raise ValueError(f"schema {data['schema']!r}, role {data['role']!r}")
    wrong = [key for key in (*KINDS, "part") if not isinstance(data[key], dict)]
    installed = data["installed"]
    if not (installed is None or isinstance(installed, list)):
        wrong.append("installed")
    wrong += [path for path, one in data["files"].items() if "kind" not in one]
    if wrong:
        raise ValueError(f"not of the right form: {', '.join(wrong)}")
    return cast("UndoRecord", data)


class UndoPoint:
    """One record on disk. *root* is the local path of the node's /."""

    def __init__(self, root: str, role: str, name: str = POINT) -> None:
        if not re.match(r"^[a-z][a-z0-9_]*$", role):
            raise UndoError(
                f"[UN-102] {role!r} is not a role name. Fix: write it like kernel_tuning."
            )
        self.root = root.rstrip("/")
        self.role = role
        self.name = name
        self.store = self.root + written.STORE
        self.directory = f"{self.store}/{role}"
        self.path = f"{self.directory}/{name}.json"

    # -- reading

    def exists(self) -> bool:
        """Return whether there is a record."""
        return os.path.lexists(self.path)

    def load(self) -> UndoRecord:
        """Read the record, or return an empty one if there is none. A broken record raises."""
        if not self.exists():
            return make_empty_record(self.role)
        try:
            return check_record(json.loads(read_bytes(self.path).decode()), self.role)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise self.broken(f"{exc.__class__.__name__}: {exc}") from exc

    def broken(self, why: str) -> UndoError:
        """Return the error for a record that a person has to repair."""
        place = f"{written.STORE}/{self.role}"
        return UndoError(
            f"[UN-101] The undo point of {self.role} cannot be read: {place}: {why}. "
            f"Fix: restore the files by hand from {place}/blobs (or your backup), then remove that directory."
        )

    def blob(self, then: FileBefore) -> bytes:
        """Return a saved file's bytes, verified by their checksum."""
        if then["kind"] != "file":
            return b""
        try:
            content = read_bytes(f"{self.directory}/blobs/{then['sha256']}")
        except OSError as exc:
            raise self.broken(str(exc)) from exc
        if hash_content(content) != then["sha256"]:
            raise self.broken(f"blob {then['sha256']} was changed")
        return content

    # -- writing

    def save(self, record: UndoRecord, contents: Mapping[str, bytes]) -> None:
        """Write the contents of files first, then the record, so that it never names a missing one."""
        blobs = self.directory + "/blobs"
        self.make_folders(blobs)
        owner = (os.getuid(), os.getgid())
        for content in contents.values():
            write_file_atomically(f"{blobs}/{hash_content(content)}", content, 0o600, owner)
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        write_file_atomically(self.path, text, 0o600, owner)

    def make_folders(self, blobs: str) -> None:
        """Create the folders for root alone, and flush their names to disk before they are used."""
        missing, place = [], blobs
        while not os.path.isdir(place):
            missing.append(place)
            place = os.path.dirname(place)
        os.makedirs(blobs, 0o700, exist_ok=True)
        for path in (self.store, self.directory, blobs):
            os.chmod(path, 0o700)
        for path in missing:
            fsync_directory(os.path.dirname(path))

    def forget(self) -> None:
        """Remove the role's records, and the store with the last one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.directory)
        with contextlib.suppress(OSError):
            os.rmdir(self.store)


def hash_content(content: bytes) -> str:
    """Return the name of a blob."""
    return hashlib.sha256(content).hexdigest()
