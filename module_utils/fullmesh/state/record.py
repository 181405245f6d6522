# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The undo record: what was on this node before a role's first change. One form, one reader, one writer. Stdlib only.

A role has its record in ``/var/lib/fullmesh/undo/<role>/point.json``, and the bytes of files beside it in ``blobs/``,
by checksum. What files, sysctls, units and packages cannot say stands in the ``part`` of its role: the run-time mode of
SELinux, the snapshots of the network's owners, the account that node_ssh made, whether ufw was loaded.

peer_firewall has a second one, ``ufw.json``: a take-over that nobody confirms puts that file back to what it was
(mostly to nothing), while the role's own record has to outlive it.

What lies there and is no record of before, and so has a form of its own: ``written.json`` (what the role wrote, renewed
by every run; broken it knows nothing, where a broken record is refused) and peer_firewall's ``listeners.json`` (ports
that the next run opens again). The transactions in ``/var/lib/fullmesh/rollback`` are journals and have their own saver
of files: their engine works alone, at a boot without Ansible and without this package; it lives for minutes and gives
back times and every extended attribute, where an undo compares contents months later.

A schema that is not ours is refused: another version never takes a record for none.
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
    """A unit of systemd; ``enabled`` in systemctl's word."""

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
    """What node_ssh made of an account: itself, its .ssh, its authorized_keys. Grows while it is made."""

    user: str
    account: bool
    folder: bool
    keys: bool


class FamilyBeforeBase(TypedDict):
    """Packages of one family with their versions, before a role touched them."""

    before: dict[str, str]


class FamilyBefore(FamilyBeforeBase, total=False):
    """The same, and as the role left them; that is missing when it died before."""

    ours: dict[str, str]


class RolePart(TypedDict, total=False):
    """What not every role has.

    ``brought``: the packages that came while one of its runs installed something, apt's own choices among them;
    ``installing``: what dpkg had when such a run began that has not ended.
    """

    selinux: SelinuxBefore
    network: NetworkBefore
    ufw: UfwBefore
    account: AccountBefore
    family: FamilyBefore
    brought: list[str]
    installing: list[str]


class UndoState(TypedDict):
    """What undo_point observes, by its kinds."""

    files: dict[str, FileBefore]
    directories: dict[str, bool]
    sysctls: dict[str, str | None]
    services: dict[str, UnitBefore]
    packages: dict[str, str]
    interfaces: dict[str, InterfaceBefore]


class UndoRecord(UndoState):
    """The whole; ``installed``: every package that dpkg had, None where nobody asked."""

    schema: int
    role: str
    installed: list[str] | None
    part: RolePart


def make_empty_record(role: str) -> UndoRecord:
    """A record that knows nothing."""
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
    """A record of ours, whole.

    Raises:
        ValueError, KeyError, TypeError: it is none.
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
    """One record on disk; *root* is where the node's / is for us."""

    def __init__(self, root: str, role: str, name: str = POINT) -> None:
        if not re.match(r"^[a-z][a-z0-9_]*$", role):
            raise UndoError(f"[UN-102] {role!r} is not a role name. Write it like kernel_tuning.")
        self.root = root.rstrip("/")
        self.role = role
        self.name = name
        self.store = self.root + written.STORE
        self.directory = f"{self.store}/{role}"
        self.path = f"{self.directory}/{name}.json"

    # -- reading

    def exists(self) -> bool:
        """Say whether there is a record."""
        return os.path.lexists(self.path)

    def load(self) -> UndoRecord:
        """Read it, an empty one if there is none; a broken one is never guessed at."""
        if not self.exists():
            return make_empty_record(self.role)
        try:
            return check_record(json.loads(read_bytes(self.path).decode()), self.role)
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise self.broken(f"{exc.__class__.__name__}: {exc}") from exc

    def broken(self, why: str) -> UndoError:
        """Word the one error that needs a person."""
        place = f"{written.STORE}/{self.role}"
        return UndoError(
            f"[UN-101] the undo point of {self.role} cannot be read: {place}: {why}. "
            f"Put the files back by hand from {place}/blobs (or your backup), then remove that directory."
        )

    def blob(self, then: FileBefore) -> bytes:
        """Return a saved file's bytes, proved by their checksum."""
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
        """Write the contents of files first, then the record, which never names one that is not there."""
        blobs = self.directory + "/blobs"
        self.make_folders(blobs)
        owner = (os.getuid(), os.getgid())
        for content in contents.values():
            write_file_atomically(f"{blobs}/{hash_content(content)}", content, 0o600, owner)
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        write_file_atomically(self.path, text, 0o600, owner)

    def make_folders(self, blobs: str) -> None:
        """The folders, for root alone; their names reach the disk before anything relies on them."""
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
        """Drop the role's records; the store goes with its last one."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.directory)
        with contextlib.suppress(OSError):
            os.rmdir(self.store)


def hash_content(content: bytes) -> str:
    """The name of a blob."""
    return hashlib.sha256(content).hexdigest()
