# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Apply a change that could cut the connection as a transaction: armed, applied, then confirmed or undone by the node.

Uses the standard library only and imports nothing else from Fullmesh, because this source is also the program that runs
on the node (``engine.py`` in the store). It runs there as the guard, at boot, and to apply a change independently of
the ssh connection. That is why it is one long file.

A transaction is a directory in /var/lib/fullmesh/rollback that only root can read. Its file ``armed`` decides which
process ends it: rename(2) to ``confirmed`` or ``restoring`` succeeds only once.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import ipaddress
import json
import math
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any, TypedDict, Union, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ..schema.node import PendingChange

    Runner = Callable[[list[str]], tuple[int, str]]
    Held = Iterator[bool]

STORE = "/var/lib/fullmesh/rollback"
UNITS = "/etc/systemd/system"
BOOT = "fullmesh-rollback.service"
# Started early: the files must be restored before other programs read them.
WANTS = "sysinit.target.wants"
# First the Python that EL uses for its own tools (alternatives do not change it), then the usual one.
PYTHONS = ("/usr/libexec/platform-python", "/usr/bin/python3")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

LOG_BYTES = 64 * 1024
# tempfile.mkstemp's, with the prefix of write_file
TEMPORARY = re.compile(r"\.fullmesh-[a-z0-9_]{8}\Z")
LOCK_SECONDS = 10
COMMAND_SECONDS = 30
APPLY_SECONDS = 60  # a step of a change, which may wait for an owner to start an interface
# Explanation for a connection that was open before the change and therefore proves nothing.
OLDER = "this connection is older than the change: your ssh reuses it (ControlMaster). Fix: ssh -O exit HOST"
# How long the owner of an interface gets to restore something before Fullmesh sets it in the kernel itself: for a
# static address, and for one with a DHCP lease (1 to 2 s on an idle machine).
SETTLE_SECONDS = 4
LEASE_SECONDS = 12
LONG = 3600.0  # seconds ago: no owner is waited for
# Words that ip shows for a route or nexthop but does not accept: states, not settings.
FLAGS = ("linkdown", "dead", "offload", "trap", "rt_trap", "rt_offload", "offload_failed")
# Types of routes that lead nowhere (ip-route(8)).
REFUSING = frozenset(["blackhole", "unreachable", "prohibit", "throw"])
# Routes with these protocols (rtnetlink(7), /etc/iproute2/rt_protos) come and go with their daemons, even while a
# change is unconfirmed. They are restored but never removed.
DAEMONS = frozenset(
    [
        "gated",
        "zebra",
        "bird",
        "xorp",
        "keepalived",
        "babel",
        "openr",
        "bgp",
        "isis",
        "ospf",
        "rip",
        "eigrp",
    ]
)
# Remaining seconds given to a lease that was about to end, so that its client can renew it.
LEASE_LEAST = 60
CALM_POLLS = 3
# How long a second process waits for the first to finish.
RESTORE_SECONDS = 90
OVER = ("confirmed", "fired")  # states of a transaction of which nothing waits any more
# A guard that is this late does not run at all (the module was killed before it could start it).
STALE_SECONDS = 15
# How often a guard checks whether its change is still unconfirmed. The process that ended the change may have been
# killed before it stopped the guard, and the guard blocks the unit's name.
GUARD_SECONDS = 1.0
POLL_SECONDS = 0.2
# sshd still has to hand the module's last words to the network when the module has ended.
GRACE_SECONDS = 0.7
REHEARSE_SECONDS = 20
# A rollback that was killed (out of memory) or failed continues at once, because files may be edited later. It is
# retried at most 10 times in 2 min, then its name is free again (--collect). systemd does not count an end by one of
# these signals as a failure (Restart= in systemd.service(5)), but `pkill python3` was not meant for the rollback.
# `systemctl stop` still ends it.
AGAIN = (
    "--collect",
    "--property=Restart=on-failure",
    "--property=RestartForceExitStatus=SIGTERM SIGINT SIGHUP SIGPIPE",
    "--property=RestartSec=2",
    "--property=StartLimitIntervalSec=120",
    "--property=StartLimitBurst=10",
)
LEAVE_SECONDS = 10


# A text is for sh.
Command = Union[list[str], str]
# Family (-4, -6), interface, the line of ``ip route show`` without it. A route over several interfaces, or by the
# number of a nexthop, has "" for the interface, and all of the line.
Route = list[str]


class FileContent(TypedDict):
    """The content that a file should have."""

    text: str
    mode: int


class SavedPath(TypedDict, total=False):
    """A path before the change.

    ``kind`` is absent (with the missing ``parents``), link (``target``) or file.

    ``saved`` is the name of the file with its bytes, ``mtime`` is in nanoseconds, ``xattrs`` are base64.
    """

    path: str
    kind: str
    parents: list[str]
    mode: int
    uid: int
    gid: int
    mtime: int
    xattrs: dict[str, str]
    target: str
    saved: str


class ViewLink(TypedDict):
    """An interface. ``manner`` maps an address to its other ``ip addr add`` arguments."""

    mtu: int
    up: bool
    addresses: list[str]
    leases: list[str]
    manner: dict[str, list[str]]


class LinksView(TypedDict):
    """Interfaces and their routes in the kernel. ``connected`` are the routes that the kernel creates itself."""

    links: dict[str, ViewLink]
    routes: list[Route]
    connected: list[Route]


class KernelView(LinksView, total=False):
    """A view of links that also has the parts that older versions did not save.

    Attributes:
        nexthops: lines of ``ip nexthop show``, groups last.
        rules: (-4 or -6, priority, the rest of the line of ``ip rule show``).
    """

    nexthops: list[str]
    rules: list[list[str]]


class OwnChangesRequired(TypedDict):
    """Addresses (by interface) and routes that a change added and its rollback may delete."""

    addresses: dict[str, list[str]]
    routes: list[Route]


class OwnChanges(OwnChangesRequired, total=False):
    """A change's addresses and routes, and in ``links`` the interfaces that it configured.

    On these interfaces, a lease or an old route that a rollback does not find in its view came with the change.
    """

    links: list[str]


class KernelGoal(KernelView, total=False):
    """The state that the kernel should have.

    Without ``ours``, everything else is removed. ``alone`` are interfaces that are left unchanged.
    """

    ours: OwnChanges
    alone: list[str]


class Journal(TypedDict, total=False):
    """All data that a rollback needs.

    Attributes:
        name: of the transaction.
        what: a short description.
        token: distinguishes this transaction from others with the same name.
        seconds: until it is undone, counted from ``monotonic`` in the boot ``boot``.
        since: the start as text for people.
        commands: run after the files are restored.
        boot_commands: run instead after a reboot. None runs ``commands`` at the end of the boot.
        trials: sh scripts that a rehearsal runs. They change nothing.
        files, runtime: the state before the change.
        boot_unit: files of the boot-time unit, deepest first.
    """

    name: str
    what: str
    token: str
    seconds: int
    monotonic: float
    boot: str
    since: str
    commands: list[Command]
    boot_commands: list[Command] | None
    trials: list[str]
    files: list[SavedPath]
    runtime: KernelGoal
    boot_unit: list[str]


class ChangeSteps(TypedDict):
    """A change: first files, then commands, after the process ``leave`` has ended.

    ``last`` is the kernel state at the end. ``others`` is kernel state of interfaces without a configuration, to be
    kept.
    """

    files: dict[str, FileContent | None]
    commands: list[list[str]]
    leave: int
    last: KernelGoal | None
    others: KernelGoal | None


class ApplyProgress(TypedDict, total=False):
    """The progress of a change.

    ``state`` is waiting, running, done or failed. ``words`` describes the failure of ``step``.

    ``connections`` lists [local port, remote port] of the connections that were open at the end. ``lost`` lists the
    commands that failed to restore other owners' kernel state.
    """

    state: str
    step: str
    words: str
    connections: list[list[int]]
    lost: list[str]


class RestoreReport(TypedDict, total=False):
    """The result of a restore: restored files, faults, and commands it had to run against the owners.

    Times are in seconds.
    """

    why: str
    what: str
    when: str
    files: list[str]
    faults: list[str]
    insisted: list[str]
    began: float
    took: float
    after: float


class RollbackError(Exception):
    """A sentence for the user."""


# --- names and small things -----------------------------------------------------------------------


def unit(name: str) -> str:
    """Return the name of the transient unit that guards and restores."""
    return "fullmesh-rollback-" + name.replace("_", "-")


def build_stop_guard(name: str) -> list[str]:
    """Return the command that ends a guard, and the timer that versions up to 0.2.0 used."""
    return ["systemctl", "stop", unit(name) + ".service", unit(name) + ".timer"]


def apply_unit(name: str) -> str:
    """Return the name of the transient unit that applies."""
    return "fullmesh-apply-" + name.replace("_", "-")


def folder(name: str) -> str:
    """Return the directory of a transaction."""
    return os.path.join(STORE, name)


def format_utc_time(seconds: float | None = None) -> str:
    """Return a time in UTC, for people."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def boot_mark() -> str:
    """Return an id of this boot.

    A container keeps the kernel's boot id, so the start time of process 1 is part of it.
    """
    with open("/proc/sys/kernel/random/boot_id") as stream:
        kernel = stream.read().strip()
    with open("/proc/1/stat") as stream:
        started = stream.read().rsplit(")", 1)[1].split()[19]
    return kernel + "/" + started


def append_log(store: str, text: str) -> None:
    """Append a line to the bounded log. A full disk is ignored."""
    path = os.path.join(store, "log")
    with contextlib.suppress(OSError):
        if os.path.exists(path) and os.path.getsize(path) > LOG_BYTES:
            with open(path, "rb") as stream:
                stream.seek(-LOG_BYTES // 2, os.SEEK_END)
                kept = stream.read().split(b"\n", 1)[-1]
            write_file(path, kept, 0o600)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as stream:
            stream.write(f"{format_utc_time()} {text}\n")


def flush_directory(path: str) -> None:
    """Flush a directory, so that a rename survives a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_parent(path: str) -> None:
    """Flush the parent directory to disk, so that a created or removed name survives a power cut.

    Errors are ignored: a file system without this feature is not worth a lock-out.
    """
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    with contextlib.suppress(OSError):
        flush_directory(parent)


def write_file(path: str, data: bytes, mode: int) -> None:
    """Replace a file in one step and flush it to disk."""
    handle, temporary = tempfile.mkstemp(prefix=".fullmesh-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    flush_directory(os.path.dirname(path))


def read_json(path: str) -> Any:
    """Return the content of a JSON file, or {} if it is missing or unreadable."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return {}


def journal_of(directory: str) -> Journal | None:
    """Return the journal of a transaction, or None if there is none.

    Raises:
        OSError, ValueError: the journal is unreadable. Callers must not treat this as "there is no owner".
    """
    try:
        with open(directory + "/journal.json", encoding="utf-8") as stream:
            found: Journal = json.load(stream)
    except FileNotFoundError:
        return None
    return found


def write_json_file(path: str, data: object) -> None:
    """Write a JSON file atomically."""
    write_file(path, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode(), 0o600)


def remove_temporary_files(directory: str) -> None:
    """Remove temporary files that a killed `write_file` left in a directory."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if TEMPORARY.match(name):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(directory, name))


def remove_transaction(directory: str) -> None:
    """Remove a transaction in one step, because a partial one could look armed or unfinished."""
    aside = os.path.join(os.path.dirname(directory), ".old-" + os.urandom(8).hex())
    with contextlib.suppress(OSError):
        os.rename(directory, aside)
    shutil.rmtree(aside, ignore_errors=True)


def find_system_python() -> str:
    """Return the path of the system's own Python.

    Ansible's interpreter may be on a path that is not executable at boot.
    """
    return next((one for one in PYTHONS if os.access(one, os.X_OK)), sys.executable)


def run_with_deadline(
    command: Command, seconds: float = COMMAND_SECONDS, complaints: bool = True
) -> tuple[int, str]:
    """Run a command (a string is an sh script) with a deadline. Include stderr only with *complaints*."""
    argv = command if isinstance(command, list) else ["/bin/sh", "-c", command]
    with open(os.devnull, "rb") as nothing:
        try:
            child = subprocess.Popen(
                argv,
                stdin=nothing,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if complaints else subprocess.DEVNULL,
                env=dict(os.environ, PATH=PATH, LC_ALL="C"),
            )
        except OSError as exc:
            return 127, str(exc)
        try:
            out = child.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            # A child process may live on and hold the pipe: dhclient without a server does so for 300 s in Debian.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=1)
            return 124, f"no answer after {seconds:.0f} s"
    return child.returncode, out.decode("utf-8", "replace").strip()


def read_command_output(command: list[str]) -> str:
    """Return a command's stdout, without warnings (iproute2 warns about tables that have no name)."""
    return run_with_deadline(command, complaints=False)[1]


def describe_command(command: list[str]) -> str:
    """Format a command for people. For an sh script, only its arguments are shown."""
    script = command[:2] == ["/bin/sh", "-c"] and len(command) > 3  # noqa: PLR2004 (sh, -c, script, arguments)
    return " ".join(command[3:] if script else command)


# --- save and restore files ----------------------------------------------------------------------


def find_missing_parents(path: str) -> list[str]:
    """Return the missing directories above *path*, deepest first."""
    found = []
    parent = os.path.dirname(path)
    while parent and parent != "/" and not os.path.isdir(parent):
        found.append(parent)
        parent = os.path.dirname(parent)
    return found


def read_xattrs(path: str) -> dict[str, str]:
    """Return the extended attributes (SELinux label, ACLs) in base64."""
    found = {}
    with contextlib.suppress(OSError):
        for key in os.listxattr(path, follow_symlinks=False):
            value = os.getxattr(path, key, follow_symlinks=False)
            found[key] = base64.b64encode(value).decode()
    return found


def save_path(path: str, number: int, directory: str) -> SavedPath:
    """Describe one path and save its bytes in *directory*."""
    entry: SavedPath = {"path": path, "kind": "absent", "parents": find_missing_parents(path)}
    try:
        info = os.lstat(path)
    except OSError:
        return entry
    entry["mode"], entry["uid"], entry["gid"] = stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid
    entry["mtime"], entry["xattrs"] = info.st_mtime_ns, read_xattrs(path)
    if stat.S_ISLNK(info.st_mode):
        entry["kind"], entry["target"] = "link", os.readlink(path)
    elif stat.S_ISREG(info.st_mode):
        entry["kind"], entry["saved"] = "file", str(number)
        with open(path, "rb") as stream:
            write_file(os.path.join(directory, str(number)), stream.read(), 0o600)
    else:
        raise RollbackError(
            f"[TX-106] {path} is neither a file nor a link, so it cannot be saved. Fix: move it away."
        )
    return entry


def restore_saved_path(entry: SavedPath, directory: str) -> bool:
    """Restore one path. Return whether anything had to be changed."""
    path = entry["path"]
    if entry["kind"] == "absent":
        gone = os.path.lexists(path)
        if gone:
            os.unlink(path)
        for parent in entry["parents"]:
            if not remove_empty_directory(parent):
                break
        if gone:
            flush_parent(path)
        return gone
    now = read_path_state(path)
    if now.items() <= entry.items() and has_saved_bytes(entry, directory):
        return False
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    if entry["kind"] == "link":
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.symlink(entry["target"], path)
        flush_parent(path)
    else:
        restore_bytes(path, entry, directory)
    restore_attributes(path, entry)
    return True


def remove_empty_directory(directory: str) -> bool:
    """Remove a directory unless it has entries."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError as exc:
        if exc.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def read_path_state(path: str) -> SavedPath:
    """Describe a path without its bytes."""
    try:
        info = os.lstat(path)
    except OSError:
        return {"kind": "absent"}
    return {
        "kind": "link" if stat.S_ISLNK(info.st_mode) else "file",
        "mode": stat.S_IMODE(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "mtime": info.st_mtime_ns,
        "xattrs": read_xattrs(path),
    }


def has_saved_bytes(entry: SavedPath, directory: str) -> bool:
    """Compare a path with its saved copy."""
    path = entry["path"]
    if entry["kind"] == "link":
        return bool(os.readlink(path) == entry["target"])
    with open(path, "rb") as one, open(os.path.join(directory, entry["saved"]), "rb") as other:
        return one.read() == other.read()


def restore_bytes(path: str, entry: SavedPath, directory: str) -> None:
    """Write the saved bytes, in place if the disk has no room for a second copy."""
    with open(os.path.join(directory, entry["saved"]), "rb") as stream:
        data = stream.read()
    if os.path.islink(path):
        os.unlink(path)
    try:
        write_file(path, data, entry["mode"])
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        with open(path, "wb") as target:
            target.write(data)
            target.flush()
            os.fsync(target.fileno())


def restore_attributes(path: str, entry: SavedPath) -> None:
    """Restore owner, mode, label and time. Attributes that the file system rejects are skipped."""
    os.chown(path, entry["uid"], entry["gid"], follow_symlinks=False)
    if entry["kind"] == "file":
        os.chmod(path, entry["mode"])
    for key, value in entry["xattrs"].items():
        with contextlib.suppress(OSError):
            os.setxattr(path, key, base64.b64decode(value), follow_symlinks=False)
    times = (entry["mtime"], entry["mtime"])
    os.utime(path, ns=times, follow_symlinks=False)


# --- the kernel's view of interfaces ---------------------------------------------------------------
# Read from ip(8) here and not by tools/ip.py: the engine has to work alone, at a boot without Ansible.


def read_kernel_view(interfaces: list[str]) -> KernelView:
    """Return addresses, MTU, state, routes and rules of *interfaces* as the kernel has them.

    Routes of all tables are included, also multipath routes and routes through a nexthop id. All rules are included,
    because a restart of systemd-networkd drops rules that others made (ManageForeignRoutingPolicyRules,
    networkd.conf(5)).
    """
    links: dict[str, ViewLink] = {}
    for one in json.loads(read_command_output(["ip", "-j", "addr", "show"]) or "[]"):
        if one.get("ifname") in interfaces:
            links[one["ifname"]] = {
                "mtu": one.get("mtu", 0),
                "up": "UP" in one.get("flags", []),
                "addresses": sorted(
                    format_address_info(info) for info in list_lasting_addresses(one)
                ),
                "leases": sorted(
                    format_address_info(info)
                    for info in list_lasting_addresses(one)
                    if info.get("dynamic")
                ),
                "manner": {
                    format_address_info(info): build_address_options(info)
                    for info in list_lasting_addresses(one)
                },
            }
    routes, rules = [], []
    for family in ("-4", "-6"):
        out = read_command_output(["ip", "-o", family, "route", "show", "table", "all"])
        routes += [
            one for line in out.splitlines() if (one := parse_route_line(links, family, line))
        ]
        rules += [
            parse_rule_line(family, line)
            for line in read_command_output(["ip", family, "rule", "show"]).splitlines()
        ]
    return {
        "links": links,
        "routes": [one for one in routes if is_restorable_route(one[2])],
        "connected": [one for one in routes if not is_restorable_route(one[2])],
        "nexthops": parse_nexthops(links, read_command_output(["ip", "-o", "nexthop", "show"])),
        # the kernel makes that one with its first VRF, and it cannot be written as it is shown
        "rules": [one for one in rules if "[l3mdev-table]" not in one[2]],
    }


def parse_route_line(links: Iterable[str], family: str, line: str) -> Route | None:
    """Parse a line of ``ip -o route show table all``.

    Return None for a route over none of *links* and for the table ``local``, which the kernel builds from the
    addresses. A route of a refusing type has no interface (IPv6 shows it on lo with an error number). It is kept,
    because systemd-networkd drops such routes that others made.
    """
    words = strip_route_state(line.replace("\\", " ")).split()
    if words[:1] and words[0] in REFUSING:
        own = "proto kernel" in line or "table local" in line
        return None if own else [family, "", " ".join(drop_keys(words, "dev", "error"))]
    over = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "dev"]
    if not set(over) & set(links) or "table local" in " ".join(words):
        return None
    if "nhid" in words:
        # ip shows the route together with the content of its nexthop, but does not accept both.
        words = drop_keys(
            words[: words.index("nexthop")] if "nexthop" in words else words, "via", "dev"
        )
        return [family, "", " ".join(words)]
    if "nexthop" in words:
        return [family, "", " ".join(words)]
    return [family, over[0], " ".join(drop_keys(words, "dev"))]


def drop_keys(words: list[str], *keys: str) -> list[str]:
    """Return the words without some keys and their values. ``via inet6 ADDRESS`` has two values."""
    result = list(words)
    for key in keys:
        if key in result:
            at = result.index(key)
            more = 1 if result[at + 1 : at + 2] in (["inet"], ["inet6"]) else 0
            result = result[:at] + result[at + 2 + more :]
    return result


def parse_rule_line(family: str, line: str) -> list[str]:
    """Parse a line of ``ip rule show``: ``32765: from 10.0.0.5 lookup 100``."""
    priority, _, rest = line.partition(":")
    return [family, priority.strip(), " ".join(rest.split())]


def parse_nexthops(links: Iterable[str], out: str) -> list[str]:
    """Return the nexthops over *links* and their groups, in the form that ``ip nexthop replace`` accepts."""
    names, single, groups = set(links), [], []
    known: set[str] = set()
    for line in out.splitlines():
        words = drop_keys(strip_route_state(line).split(), "scope")
        number = words[1] if words[:1] == ["id"] else ""
        if "group" in words:
            groups.append((words, {one.split(",")[0] for one in words[3].split("/")}))
        elif number and "dev" in words and words[words.index("dev") + 1] in names:
            single.append(" ".join(words))
            known.add(number)
    return single + [" ".join(words) for words, members in groups if members & known]


def list_lasting_addresses(link: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the addresses of a link that other hosts may use."""
    found = link.get("addr_info", [])
    return [one for one in found if one.get("scope") == "global" and not one.get("temporary")]


def format_address_info(info: dict[str, Any]) -> str:
    """Format an address with its prefix."""
    return "{}/{}".format(info["local"], info["prefixlen"])


def build_address_options(info: dict[str, Any]) -> list[str]:
    """Return the arguments of ``ip addr add`` that restore an address, apart from its value.

    A lease keeps its remaining time. Without an end, the address would stay after the server gave it to another host.
    If a leased address has a metric, its network route is created separately: systemd-networkd 252 loses the metric
    when it renews the lease, and the route changes.
    """
    leased, metric = info.get("dynamic"), info.get("metric")
    words = ["broadcast", str(info["broadcast"])] if info.get("broadcast") else []
    if info.get("noprefixroute") or (leased and metric):
        words += ["noprefixroute"]
    elif metric:
        words += ["metric", str(metric)]
    if leased:
        words += ["valid_lft", str(info["valid_life_time"])]
        words += ["preferred_lft", str(info["preferred_life_time"])]
    return words


def age_lease_times(words: list[str], age: float) -> list[str]:
    """Subtract *age* seconds from the times of a lease, down to the time that its client needs for a renewal."""
    result = list(words)
    for key in ("valid_lft", "preferred_lft"):
        if key in words:
            at = words.index(key) + 1
            result[at] = str(max(int(words[at]) - int(age), min(int(words[at]), LEASE_LEAST)))
    return result


def strip_route_state(line: str) -> str:
    """Remove from a route the parts that change by themselves."""
    words = line.split()
    if "expires" in words:
        at = words.index("expires")
        words = words[:at] + words[at + 2 :]
    return " ".join(word for word in words if word not in FLAGS)


def list_owner_routes(state: KernelView) -> list[Route]:
    """Return the routes to addresses' own networks that do not come with the address.

    NetworkManager adds its addresses with ``noprefixroute`` and creates the routes itself with the kernel's protocol.
    """
    found = []
    for entry in state.get("connected", []):  # state that an older version saved has none
        manners = state["links"][entry[1]].get("manner", {})
        own = [one for one, words in manners.items() if "noprefixroute" in words]
        if entry[2].split(" ", 1)[0] in map(address_to_network, own):
            found.append(entry)
    return found


def address_to_network(address: str) -> str:
    """Return the network of an address with prefix, in the format of the kernel's routes."""
    return str(ipaddress.ip_interface(address).network)


def is_restorable_route(line: str) -> bool:
    """Return whether a route is not the kernel's own."""
    return "proto kernel" not in line and not line.startswith(("fe80::", "ff00::", "multicast"))


def build_kernel_commands(before: KernelGoal, age: float = 0) -> list[list[str]]:
    """List the commands that restore the kernel state of *age* seconds ago.

    If *before* has ``ours``, nothing else is deleted: keepalived, a router advertisement or an administrator may have
    added addresses since.
    """
    links, ours = before.get("links", {}), before.get("ours")
    now = read_kernel_view(sorted(links))
    steps: list[list[str]] = []
    for name, then in sorted(links.items()):
        have = now["links"].get(name)
        if have is None:
            continue
        if then["up"] and not have["up"]:
            steps.append(["ip", "link", "set", name, "up"])
        if then["mtu"] and then["mtu"] != have["mtu"]:
            steps.append(["ip", "link", "set", name, "mtu", str(then["mtu"])])
        was, has = set(then["addresses"]), set(have["addresses"])
        how = {one: age_lease_times(words, age) for one, words in then.get("manner", {}).items()}
        steps += [
            ["ip", "addr", "add", one, *how.get(one, []), "dev", name] for one in sorted(was - has)
        ]
        extra = has - was
        if ours is not None:
            extra &= list_change_addresses(name, then, have, ours)
        steps += [["ip", "addr", "del", one, "dev", name] for one in sorted(extra)]
    # The kernel rejects a gateway until there is a route to it. The route to a network disappears with its address.
    wanted, there = (
        list_owner_routes(before) + before["routes"],
        now.get("connected", []) + now["routes"],
    )
    ends = [
        one
        for one in now["routes"]
        if ours is None or one in ours["routes"] or one[1] in ours.get("links", [])
    ]
    ends = [one for one in ends if not (DAEMONS | REFUSING) & set(one[2].split())]
    steps += [
        ["ip", "nexthop", "replace", *line.split()]
        for line in before.get("nexthops", [])
        if line not in now.get("nexthops", [])
    ]
    for verb, first, second in (("del", ends, before["routes"]), ("replace", wanted, there)):
        for family, name, line in first:
            if (not name or name in now["links"]) and [family, name, line] not in second:
                over = ["dev", name] if name else []
                steps.append(["ip", family, "route", verb, *line.split(), *over])
    steps += [
        ["ip", family, "rule", "add", "priority", priority, *line.split()]
        for family, priority, line in before.get("rules", [])
        if [family, priority, line] not in now.get("rules", [])
    ]
    for name, then in sorted(links.items()):
        if name in now["links"] and now["links"][name]["up"] and not then["up"]:
            steps.append(["ip", "link", "set", name, "down"])
    return steps


def list_change_addresses(name: str, then: ViewLink, have: ViewLink, ours: OwnChanges) -> set[str]:
    """Return the addresses of an interface that came with a change: those it added, and a first IPv4 lease.

    Args:
        name: of the interface.
        then, have: the interface before the change, and now.
        ours: addresses and routes that the change added.
    """
    found = set(ours["addresses"].get(name, []))
    if name in ours.get("links", []) and not then.get("leases"):
        found |= {one for one in have["leases"] if ":" not in one}
    return found


def keep_later_addresses(directory: str, before: KernelGoal) -> KernelGoal:
    """Add to *before* the addresses that others have since given its interfaces, because the owners may drop them.

    The present state is saved first, so that a rollback that is killed and restarted also knows it.
    """
    ours = before.get("ours")
    if ours is None:  # an older version saved none
        return before
    path = directory + "/later.json"
    now: KernelView = read_json(path) or read_kernel_view(sorted(before.get("links", {})))
    with contextlib.suppress(OSError):
        write_json_file(path, now)
    links = dict(before.get("links", {}))
    for name, then in before.get("links", {}).items():
        have = now.get("links", {}).get(name)
        if have is None:
            continue
        later = {*have["addresses"]} - {*then["addresses"]}
        later -= list_change_addresses(name, then, have, ours)
        manner = {one: words for one, words in have.get("manner", {}).items() if one in later}
        addresses = sorted([*then["addresses"], *later])
        links[name] = {**then, "addresses": addresses}
        links[name]["manner"] = {**then.get("manner", {}), **manner}
    return {**before, "links": links}


def get_owner_patience(step: list[str], before: KernelGoal) -> float:
    """Return how many seconds the owner gets to do a step itself. Superfluous entries are removed at once."""
    if not {"add", "replace"} & set(step):
        return 0
    leases = {one for link in before["links"].values() for one in link.get("leases", [])}
    about = leases | {address_to_network(one) for one in leases} | {"dhcp", "ra"}
    leased = about & set(step)
    return LEASE_SECONDS if leased else SETTLE_SECONDS


def settle_kernel(
    before: KernelGoal | None,
    since: float | None = None,
    age: float = 0,
    longest: float = 2 * LEASE_SECONDS,
) -> list[str]:
    """Restore the kernel's previous state.

    Return the commands that were needed.

    It ends after *longest* seconds in any case.

    Args:
        before: the state to restore.
        since: monotonic time at which the owners were asked, if that was not just now. A command that waited for a
            lease has used up the lease's time.
        age: of *before*, in seconds.
        longest: the time limit in seconds.
    """
    insisted: list[str] = []
    begun, calm = time.monotonic(), 0
    asked = begun if since is None else since
    while before and calm < CALM_POLLS and time.monotonic() - begun < longest:
        steps = build_kernel_commands(before, age)
        # Owners act asynchronously: a state that is right now may still change.
        calm = 0 if steps else calm + 1
        for step in steps:
            if time.monotonic() - asked >= get_owner_patience(step, before):
                run_with_deadline(step)
                insisted += [" ".join(step)] if " ".join(step) not in insisted else []
        time.sleep(POLL_SECONDS)
    return insisted


# --- the boot-time unit ----------------------------------------------------------------------------


def boot_paths() -> tuple[str, str]:
    """Return the paths of the unit and of the link that enables it."""
    return os.path.join(UNITS, BOOT), os.path.join(UNITS, WANTS, BOOT)


def render_boot_unit(store: str) -> str:
    """Render the unit. It runs after the disks are there, before other programs read network or firewall files."""
    return f"""[Unit]
Description=Fullmesh: revert an unconfirmed change
Documentation=file://{store}/log
DefaultDependencies=no
RequiresMountsFor={store} /etc /usr
After=local-fs.target systemd-remount-fs.service
Wants=network-pre.target
Before=network-pre.target sysinit.target firewalld.service ufw.service nftables.service
Before=NetworkManager.service systemd-networkd.service networking.service shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
ExecStart={find_system_python()} {store}/engine.py boot {store}
TimeoutStartSec=180

[Install]
WantedBy=sysinit.target
"""


def install_boot_unit(store: str) -> list[str]:
    """Write and enable the unit. Return the paths that have to be removed afterwards, deepest first."""
    path, link = boot_paths()
    made = [link, path, *find_missing_parents(link)]
    os.makedirs(os.path.dirname(link), 0o755, exist_ok=True)
    write_file(path, render_boot_unit(store).encode(), 0o644)
    with contextlib.suppress(FileExistsError):
        os.symlink(path, link)
    flush_directory(os.path.dirname(link))
    return made


def remove_boot(made: list[str]) -> bool:
    """Remove the unit and the directories that were created for it.

    Return whether everything is gone.

    If not (on some file systems a removal needs space), the caller keeps the list for later. A directory that has other
    entries stays.
    """
    for path in made:
        with contextlib.suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
            flush_parent(path)
    return not any(
        os.path.lexists(path) if path in boot_paths() else is_empty(path) for path in made
    )


def is_empty(path: str) -> bool:
    """Return whether a directory exists and is empty. An unreadable directory counts as not empty."""
    try:
        return not os.listdir(path)
    except OSError:
        return False


def remove_fired_boot_units(store: str) -> None:
    """Remove boot-time units that finished rollbacks could not remove, unless a change still needs the unit.

    The caller must hold the lock that prevents others from arming a change.
    """
    directories = [os.path.join(store, name) for name in sorted(os.listdir(store))]
    states = {directory: state_of(directory) for directory in directories}
    if not {"armed", "restoring"} & set(states.values()):
        for directory, state in states.items():
            if state == "fired":
                remove_boot(read_json(directory + "/journal.json").get("boot_unit", []))


# --- arm -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def hold_lock(path: str, seconds: float) -> Held:
    """Hold a lock. Yields False if another process held it the whole time."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    end = time.monotonic() + seconds
    got = False
    try:
        while not got:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                got = True
            except OSError:
                if time.monotonic() >= end:
                    break
                time.sleep(POLL_SECONDS)
        yield got
    finally:
        os.close(handle)


def state_of(directory: str) -> str:
    """Return V(armed), V(confirmed), V(restoring), V(fired), or ""."""
    for word in ("fired", "confirmed", "restoring", "armed"):
        if os.path.exists(os.path.join(directory, word)):
            return word
    return ""


def list_pending_changes() -> list[PendingChange]:
    """Return the unfinished transactions, sorted by name. Empty if the caller may not read the store."""
    found: list[PendingChange] = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(STORE)):
            directory = folder(name)
            if name.startswith(".") or state_of(directory) not in ("armed", "restoring"):
                continue
            journal: Journal = read_json(directory + "/journal.json")
            left = seconds_left(journal) if journal else 0.0
            found.append(
                {
                    "name": name,
                    "what": journal.get("what", name),
                    "since": journal.get("since", ""),
                    "seconds": max(math.ceil(left), 0),
                }
            )
    return found


def claim_transaction(directory: str, state: str, token: str = "") -> bool:
    """End a transaction as confirmed or restoring.

    Only one caller ever gets True.

    With a *token*, only the transaction with this token is ended: a late guard may meet the next transaction.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        # One handle for both: the directory that was opened is renamed, even if another now has its name.
        if token:
            with open(os.open("journal.json", os.O_RDONLY, dir_fd=handle)) as stream:
                if json.load(stream).get("token") != token:
                    return False
        os.rename("armed", state, src_dir_fd=handle, dst_dir_fd=handle)
        with contextlib.suppress(OSError):
            os.fsync(handle)
    except (OSError, ValueError):
        return False
    finally:
        os.close(handle)
    return True


def seconds_left(journal: Journal) -> float:
    """Return the seconds until a transaction is undone, negative if they have passed."""
    if journal.get("boot") != boot_mark():
        return -STALE_SECONDS - 1.0
    return journal["monotonic"] + journal["seconds"] - time.monotonic()


def finish_stale_changes() -> None:
    """Refuse a second transaction, and finish one if its guard never ran."""
    remove_leftovers(STORE)
    for name in sorted(os.listdir(STORE)):
        directory = folder(name)
        if not os.path.isdir(directory):
            continue
        state = state_of(directory)
        journal: Journal = read_json(directory + "/journal.json")
        left = seconds_left(journal) if journal else -STALE_SECONDS - 1.0
        if state == "armed" and left > -STALE_SECONDS:
            raise RollbackError(
                "[TX-101] The change {!r} of this node has waited for its confirmation since {}. Two runs at once "
                "would undo each other. The node reverts it in {:.0f} s unless its run confirms it. "
                "Run again after that.".format(name, journal["since"], max(left, 0) + 1)
            )
        if state in ("armed", "restoring"):
            restore_transaction(directory, "found unfinished by a later run")
        # a directory without a journal is not a transaction, such as lost+found if the store is a file system
        if journal and state in ("confirmed", "") and remove_boot(journal.get("boot_unit", [])):
            remove_transaction(directory)
    remove_fired_boot_units(STORE)


def remove_leftovers(store: str) -> None:
    """Remove files of killed runs whose transactions were never armed or are finished."""
    for name in sorted(os.listdir(store)):
        directory = os.path.join(store, name)
        if name.startswith((".new-", ".old-")):
            if name.startswith(".new-"):
                remove_boot(read_json(directory + "/journal.json").get("boot_unit", []))
            shutil.rmtree(directory, ignore_errors=True)
    remove_temporary_files(store)
    remove_temporary_files(UNITS)


def source() -> bytes:
    """Return this file's own text, also from Ansible's archive."""
    loader = globals()["__loader__"]
    return str(loader.get_source(__name__)).encode()


def arm(  # noqa: PLR0913 (five positional, six by name)
    run: Runner,
    name: str,
    seconds: int,
    paths: list[str],
    commands: Sequence[Command],
    *,
    boot: Sequence[Command] | None = None,
    links: Iterable[str] = (),
    trials: Iterable[str] = (),
    ours: OwnChanges | None = None,
    what: str = "",
    token: str = "",
) -> None:
    """Save *paths* and start the guard.

    Args:
        run: runs argv, returns (rc, output).
        name: of the transaction, a Python identifier.
        seconds: until the node undoes the change.
        paths: files that will change, appear or disappear.
        commands: activate the old files. An argv list, or a string for sh.
        boot: the same after a reboot, before the network starts. V(None) runs *commands* after the boot.
        links: interfaces whose addresses, routes and MTU have to be restored as well.
        trials: sh scripts that change nothing. They must succeed now, as *commands* must later.
        ours: addresses and routes that the change adds. The rollback deletes no others.
        what: a short description for the log.
        token: chosen by the run, because the answer to this call may get lost. The run needs it to confirm or restore.
            Empty for a caller that ends the change itself.

    Raises:
        RollbackError: [TX-101] to [TX-103], [TX-106], [TX-108]. Nothing was changed.
    """
    try:
        os.makedirs(STORE, 0o700, exist_ok=True)
        with hold_lock(os.path.join(STORE, "lock"), LOCK_SECONDS) as got:
            if not got:
                raise RollbackError(
                    "[TX-101] Another run is starting a change on this node. Run again after it."
                )
            finish_stale_changes()
            journal: Journal = {
                "name": name,
                "seconds": seconds,
                "commands": list(commands),
                "boot_commands": None if boot is None else list(boot),
                "trials": list(trials),
                "what": what or name,
                "token": token or os.urandom(8).hex(),
            }
            watched = list(links)
            if watched:
                goal = cast("KernelGoal", read_kernel_view(watched))
                journal["runtime"] = {**goal, "ours": ours} if ours else goal
            made = save_transaction(name, sorted(set(paths)), journal)
            start_guard(run, journal, made)
    except OSError as exc:
        raise make_store_error(exc) from exc
    append_log(STORE, "{}: armed for {} s: {}".format(name, seconds, journal["what"]))


def make_store_error(exc: OSError) -> RollbackError:
    """Return the error that the store has no room."""
    return RollbackError(
        f"[TX-102] The present state cannot be saved in {STORE}: {exc.strerror or exc}. Nothing was changed. "
        f"Check: is there room? (`df {STORE}`, `df -i {STORE}`)"
    )


def start_guard(run: Runner, journal: Journal, made: list[str]) -> None:
    """Start the guard, then arm the transaction.

    If that fails, remove everything that was made for it.

    The order matters. If a run is killed in between, the guard finds nothing to do. In the other order, the change
    would have no guard, and a much later boot would overwrite newer files.

    The guard is a process, not a systemd timer. OnActiveSec= restarts each time systemd reads its units
    (systemd/systemd#31914, seen with 252). Package installs cause such reloads, so they could postpone a rollback
    forever. OnBootSec= keeps counting, but a timer that is due during a reload counts as elapsed (timer_enter_waiting,
    src/core/timer.c).
    """
    name, seconds = journal["name"], journal["seconds"]
    run(build_stop_guard(name))
    why = run_rehearsal(run, journal)
    command = [
        "systemd-run",
        "--unit=" + unit(name),
        *AGAIN,
        *build_guard_command(journal, "guard"),
    ]
    rc, out = run_systemd_run(run, command) if not why else (0, "")
    if rc != 0:
        why = f"[TX-103] systemd-run says {out.strip()!r} (rc {rc})"
    try:
        if not why:
            write_file(folder(name) + "/armed", b"", 0o600)
            late = seconds_left(journal) <= 0
            why = f"[TX-103] systemd needed longer than {seconds} s for the guard" if late else ""
    except OSError:
        cancel_transaction(run, name, made)
        raise
    if why:
        cancel_transaction(run, name, made)
        raise RollbackError(f"{why}. Nothing was changed. Check: `systemctl status`.")


def cancel_transaction(run: Runner, name: str, made: list[str]) -> None:
    """Remove a transaction before anything is changed."""
    run(build_stop_guard(name))
    remove_transaction(folder(name))
    remove_boot(made)


def build_guard_command(journal: Journal, verb: str) -> list[str]:
    """Build the command of a guard or of its rehearsal.

    It has no dollar sign. systemd 252 (EL 9, Debian 12) writes one into the unit's file with a backslash and takes both
    literally when it reads the file again.
    """
    # A confirmation may take the script away at this very moment, and a unit that failed would keep its name.
    back = shlex.quote(folder(journal["name"]) + "/back.sh")
    words = " ".join([back, shlex.quote(journal["token"]), verb])
    return ["/bin/sh", "-c", f"[ ! -e {back} ] || exec /bin/sh {words}"]


def run_rehearsal(run: Runner, journal: Journal) -> str:
    """Rehearse the rollback before anything is changed.

    Return why it would not work.

    This finds a policy (SELinux, fapolicyd), a missing interpreter or a read-only file system while the node is still
    reachable.
    """
    directory = folder(journal["name"])
    command = ["systemd-run", "--wait", "--collect", "--quiet"]
    command += [f"--property=RuntimeMaxSec={REHEARSE_SECONDS}"]
    command += [
        "--unit=" + unit(journal["name"]) + "-rehearsal",
        *build_guard_command(journal, "rehearse"),
    ]
    rc, out = run_systemd_run(run, command)
    found = read_json(directory + "/rehearsed")
    faults = found.get("faults", []) if found.get("token") == journal["token"] else None
    if faults is None:
        why = f"systemd-run says {out.strip()!r} (rc {rc})"
        hint = "Check: `journalctl -u fullmesh-rollback-*`, `ausearch -m avc -ts recent`"
        return f"[TX-108] The rollback does not run on this node: {why}. {hint}"
    return (
        "[TX-108] The rollback would not work on this node: " + "; ".join(faults) if faults else ""
    )


def rehearse(directory: str) -> None:
    """Try each step of a restore that changes nothing. This runs in the engine for `run_rehearsal`."""
    journal: Journal = read_json(directory + "/journal.json")
    faults = []
    for entry in journal["files"]:
        try:
            if "saved" in entry:
                with open(os.path.join(directory, entry["saved"]), "rb") as stream:
                    stream.read()
            check_writable(entry["path"])
        except OSError as exc:
            faults.append("{}: {}".format(entry["path"], exc.strerror or exc))
    programs = {one[0] for one in journal["commands"] if isinstance(one, list)}
    programs |= {"ip"} if "runtime" in journal else set()
    faults += [f"there is no {one}" for one in sorted(programs) if not shutil.which(one, path=PATH)]
    if (
        journal.get("runtime", {}).get("links")
        and not read_kernel_view(list(journal["runtime"]["links"]))["links"]
    ):
        faults.append("`ip -j addr show` shows none of the interfaces")
    faults += find_failed_trials(journal.get("trials", []))
    write_json_file(directory + "/rehearsed", {"token": journal["token"], "faults": faults})


def find_failed_trials(trials: Iterable[str]) -> list[str]:
    """Run sh scripts that change nothing. Return the last output line of each one that fails."""
    done = [run_with_deadline(trial) for trial in trials]
    return [
        "a trial of a command fails: " + "".join(out.strip().splitlines()[-1:])
        for rc, out in done
        if rc != 0
    ]


def check_writable(path: str) -> None:
    """Raise OSError if no file can be created in the directory of *path*. The file it tries has no name."""
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    try:
        os.close(os.open(parent, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as exc:
        if exc.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOSPC, errno.EDQUOT):
            raise  # the others: this file system has no O_TMPFILE, and a restore copes with a full disk


def run_systemd_run(run: Runner, command: list[str]) -> tuple[int, str]:
    """Run systemd-run, and retry while an old unit of that name is ending or is kept as failed."""
    end = time.monotonic() + LEAVE_SECONDS
    rc, out = run(command)
    while rc != 0 and "already" in out and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
        names = [word.split("=", 1)[1] for word in command if word.startswith("--unit=")]
        run(["systemctl", "reset-failed", *(name + ".service" for name in names)])
        rc, out = run(command)
    return rc, out


def save_transaction(name: str, paths: list[str], journal: Journal) -> list[str]:
    """Write all data for the rollback, or nothing. `start_guard` arms it."""
    directory = folder(name)
    made: list[str] = []
    fresh = tempfile.mkdtemp(prefix=".new-", dir=STORE)
    try:
        journal["files"] = [save_path(path, n, fresh) for n, path in enumerate(paths)]
        journal["boot_unit"] = [*boot_paths()[::-1], *find_missing_parents(boot_paths()[1])]
        journal["since"], journal["monotonic"] = format_utc_time(), time.monotonic()
        journal["boot"] = boot_mark()
        back = "#!/bin/sh\n# Armed by Fullmesh: reverts an unconfirmed change.\n"
        back += f"exec {find_system_python()} {directory}/engine.py"
        back += f' "${{2:-restore}}" {directory} \'\' 0 "${{1:-}}"\n'
        engine = source()
        write_file(fresh + "/engine.py", engine, 0o600)
        write_file(fresh + "/back.sh", back.encode(), 0o700)
        write_json_file(fresh + "/journal.json", journal)
        write_file(
            fresh + "/lock", b"", 0o600
        )  # the rollback must not need a file that a full disk refuses
        write_file(os.path.join(STORE, "engine.py"), engine, 0o600)
        made = install_boot_unit(STORE)
        remove_transaction(directory)
        os.rename(fresh, directory)
        flush_directory(STORE)
    except (OSError, RollbackError):
        shutil.rmtree(fresh, ignore_errors=True)
        remove_boot(made or journal.get("boot_unit", []))
        raise
    return made


# --- apply, independent of the connection -----------------------------------------------------------


def apply_change(  # noqa: PLR0913 (three by name)
    run: Runner,
    name: str,
    files: dict[str, FileContent | None],
    commands: list[list[str]],
    *,
    leave: int = 0,
    last: KernelGoal | None = None,
    others: KernelGoal | None = None,
) -> None:
    """Write *files* (None: remove) and run *commands*, in a unit of its own.

    Args:
        run: runs argv, returns (rc, output).
        name: of an armed transaction.
        files: the new content of each file.
        commands: argv lists. The first failure undoes everything.
        leave: id of the process that has to end first, so that the connection can close cleanly. 0 for none.
        last: kernel state of interfaces at the end, as V(runtime) gives it. For an undo, which runs every command.
        others: kernel state without a configuration, which owners drop and Fullmesh restores. Failures are logged and
            in ``lost`` of the `outcome`.

    Raises:
        RollbackError: [TX-102] no room for the plan, or [TX-103] systemd did not start it. Nothing was changed.
    """
    directory = folder(name)
    plan: ChangeSteps = {
        "files": files,
        "commands": commands,
        "leave": leave,
        "last": last,
        "others": others,
    }
    try:
        write_json_file(directory + "/plan.json", plan)
        write_json_file(directory + "/applied.json", {"state": "waiting", "step": "", "words": ""})
    except OSError as exc:
        disarm(run, name)
        raise make_store_error(exc) from exc
    rc, out = start_engine(run, apply_unit(name), ["apply", directory])
    if rc != 0:
        disarm(run, name)
        raise RollbackError(
            f"[TX-103] systemd-run says {out.strip()!r} (rc {rc}). Nothing was changed. Check: `systemctl status`."
        )


def start_engine(run: Runner, name: str, words: list[str], *more: str) -> tuple[int, str]:
    """Start the engine in a transient unit, with *more* options, so that it survives the connection."""
    program = [find_system_python(), STORE + "/engine.py"]
    command = ["systemd-run", "--no-block", "--unit=" + name, *more, *program]
    return run_systemd_run(run, [*command, *words])


def read_apply_progress(name: str) -> ApplyProgress:
    """Return the progress of the change."""
    found: ApplyProgress = read_json(folder(name) + "/applied.json")
    return found


def wait_for_apply(name: str, seconds: float) -> ApplyProgress:
    """Wait for the end of the change."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and read_apply_progress(name).get("state") in (
        "waiting",
        "running",
    ):
        time.sleep(POLL_SECONDS)
    return read_apply_progress(name)


def do_apply(directory: str) -> None:
    """Run the plan of a transaction. This runs in the engine for `apply_change`."""
    plan: ChangeSteps = read_json(directory + "/plan.json")
    store, name = os.path.split(directory)
    wait_for_exit(plan["leave"])
    # paths are written, commands are run
    steps: list[Command] = [*sorted(plan["files"]), *plan["commands"]]
    for step in steps:
        if state_of(directory) != "armed":
            return
        words = describe_command(step) if isinstance(step, list) else f"write {step}"
        # A full disk must not stop the change half way: the journal is less important than the node.
        with contextlib.suppress(OSError):
            write_json_file(
                directory + "/applied.json", {"state": "running", "step": words, "words": ""}
            )
        fault = (
            run_step(step)
            if isinstance(step, list)
            else apply_file_content(step, plan["files"][step])
        )
        if fault and (isinstance(step, str) or not plan["last"]):
            failed = {"state": "failed", "step": words, "words": fault}
            with contextlib.suppress(OSError):
                write_json_file(directory + "/applied.json", failed)
            why = f"it could not be applied: `{words}` says {fault!r}"
            restore_transaction(directory, why, "apply")
            return
    settle_kernel(plan["last"])
    others = plan.get("others")
    tried = settle_kernel(others, since=-LONG, longest=SETTLE_SECONDS)
    lost = [" ".join(step) for step in build_kernel_commands(others)] if others else []
    with contextlib.suppress(OSError):
        done = {"state": "done", "step": "", "words": "", "connections": list_port_pairs()}
        write_json_file(directory + "/applied.json", {**done, "lost": lost})
    there = [one for one in tried if one not in lost]
    said = ", restored for other owners: " + ", ".join(there) if there else ""
    said += "; lost, of others: " + ", ".join(lost) if lost else ""
    append_log(store, f"{name}: applied{said}")


def list_port_pairs() -> list[list[int]]:
    """List the established connections of this node as [local port, remote port] (proc_net_tcp of the kernel)."""
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(name) as stream:
            for line in stream.readlines()[1:]:
                local, remote, state = line.split()[1:4]
                if state == "01":
                    found.add((int(local.rsplit(":", 1)[1], 16), int(remote.rsplit(":", 1)[1], 16)))
    return [list(one) for one in sorted(found)]


def mark_change_applied(name: str) -> None:
    """Record that an armed change is active, and which connections are open.

    For callers that do not use `apply_change`.
    """
    with contextlib.suppress(OSError):
        write_json_file(
            folder(name) + "/applied.json", {"state": "done", "connections": list_port_pairs()}
        )


def is_fresh_connection(connection: list[str], applied: ApplyProgress) -> bool:
    """Return whether an SSH_CONNECTION was made after the change.

    An older connection proves nothing.

    Args:
        connection: client, port, server, port. Empty without ssh.
        applied: the engine's record of the change.
    """
    ends = [[int(connection[3]), int(connection[1])]] if connection else []
    return not any(end in applied.get("connections", []) for end in ends)


def needs_fresh_connection(name: str, connection: list[str]) -> bool:
    """Return whether a change waits for a newer connection than this one (as for `is_fresh_connection`)."""
    return state_of(folder(name)) == "armed" and not is_fresh_connection(
        connection, read_apply_progress(name)
    )


def wait_for_exit(process: int) -> None:
    """Wait for a process to end, and for its output to reach the network."""
    end = time.monotonic() + LEAVE_SECONDS
    while process and os.path.exists(f"/proc/{process}") and time.monotonic() < end:
        time.sleep(POLL_SECONDS / 4)
    if process:
        time.sleep(GRACE_SECONDS)


def apply_file_content(path: str, wanted: FileContent | None) -> str:
    """Write or remove one file. Return the error, or ""."""
    try:
        if wanted is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            return ""
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        before = os.stat(path) if os.path.exists(path) else None
        write_file(path, wanted["text"].encode("utf-8", "surrogateescape"), wanted["mode"])
        if before is not None:
            os.chown(path, before.st_uid, before.st_gid)
    except OSError as exc:
        return str(exc)
    return ""


def run_step(command: list[str]) -> str:
    """Run one command. Return the error, or ""."""
    rc, out = run_with_deadline(command, APPLY_SECONDS)
    return "" if rc == 0 else f"rc {rc}: {out[-500:]}"


# --- restore ---------------------------------------------------------------------------------------


def run_guard(directory: str, token: str) -> None:
    """Undo a transaction when its time is over, or return when it no longer exists.

    It sleeps in short steps. If the machine or the process was suspended, the rollback is late by one step at most.

    Raises:
        OSError, ValueError: as for `restore_transaction`.
    """
    journal = journal_of(directory)
    while journal and journal["token"] == token and state_of(directory) not in OVER:
        left = seconds_left(journal)
        if left <= 0:
            restore_transaction(directory, "it was not confirmed in time", "guard", token)
            return
        time.sleep(min(left, GUARD_SECONDS))
        with contextlib.suppress(
            OSError, ValueError
        ):  # temporary, because the file has been there before
            journal = journal_of(directory)


def restore_transaction(directory: str, why: str, by: str = "", token: str = "") -> bool:
    """Undo a transaction.

    Return False if it was confirmed before.

    Args:
        directory: of the transaction.
        why: for the log.
        by: V(boot), or the unit that must not stop itself: V(apply), V(guard).
        token: as for `claim_transaction`.

    Raises:
        OSError, ValueError: nothing was done. Try again.
    """
    store, name = os.path.split(directory.rstrip("/"))
    other = bool(token) and (journal_of(directory) or {}).get("token") != token
    won = not other and claim_transaction(directory, "restoring", token)
    state = state_of(directory)
    if not won and not other and state == "armed":
        raise OSError(errno.EIO, "it cannot be claimed", directory)
    if not won and (other or state != "restoring"):
        fired = not other and state == "fired"
        word = "restored already" if fired else "confirmed already"
        append_log(store, f"{name}: nothing to restore, {word}: {why}")
        return fired
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # no lock is no reason for no rollback
            held.enter_context(hold_lock(directory + "/lock", RESTORE_SECONDS))
        if state_of(directory) != "restoring":
            return True
        began = time.monotonic()
        append_log(store, f"{name}: restoring: {why}")
        if by != "apply":
            run_with_deadline(["systemctl", "stop", apply_unit(name) + ".service"])
        journal: Journal = read_json(directory + "/journal.json")
        report: RestoreReport = read_json(directory + "/back")
        if not report:
            report = {"why": why, "files": [], "faults": [], "insisted": []}
            restore_files(journal, directory, report)
            same_boot = journal.get("boot") == boot_mark()
            if by == "boot" and not same_boot and journal.get("boot_commands") is None:
                write_report(directory, {**report, "began": began}, "pending.json")
                later = ["--property=After=multi-user.target", "--unit=" + unit(name) + "-late"]
                engine = [find_system_python(), store + "/engine.py", "late", directory]
                run_with_deadline(["systemd-run", "--no-block", *later, *AGAIN, *engine])
                return True
            fresh = by == "boot" and not same_boot
            commands = journal.get("boot_commands") if fresh else journal.get("commands")
            goal = journal.get("runtime") if same_boot else None
            goal = keep_later_addresses(directory, goal) if goal else None
            asked = time.monotonic()
            report["faults"] += run_all(commands or [])
            age = asked - journal.get("monotonic", asked)
            report["insisted"] = settle_kernel(goal, asked, age)
            # The restore is not repeated from here on, even after a failure: users may edit the files again.
            write_report(directory, report, "back")
        finish_restore(directory, journal, report, began, by)
    return True


def finish_late_restore(directory: str) -> None:
    """Finish at the end of the boot the work that was not possible at its start."""
    journal: Journal = read_json(directory + "/journal.json")
    report: RestoreReport = read_json(directory + "/pending.json")
    if journal and report and state_of(directory) == "restoring":
        began = report.pop("began")
        report["faults"] += run_all(journal.get("commands", []))
        write_report(directory, report, "back")
        finish_restore(directory, journal, report, began)


def restore_files(journal: Journal, directory: str, report: RestoreReport) -> None:
    """Restore every file. Those that are removed come first, because that makes room."""
    files = sorted(journal.get("files", []), key=lambda entry: entry["kind"] != "absent")
    # First: a directory that was created for one of these files is only removed if it is empty.
    for parent in sorted({os.path.dirname(entry["path"]) for entry in files}):
        remove_temporary_files(parent)
    for entry in files:
        try:
            if restore_saved_path(entry, directory):
                report["files"].append(entry["path"])
        except Exception as exc:  # a file that cannot be restored must not prevent the others
            report["faults"].append("{}: {}".format(entry["path"], exc))


def run_all(commands: list[Command]) -> list[str]:
    """Run every command, even after failures. Return the errors."""
    faults = []
    for command in commands:
        rc, out = run_with_deadline(command)
        if rc != 0:
            words = describe_command(command) if isinstance(command, list) else command
            faults.append(f"`{words}`: rc {rc}: {out[-300:]}")
    return faults


def finish_restore(
    directory: str, journal: Journal, report: RestoreReport, began: float, by: str = ""
) -> None:
    """Log the result, and remove the boot-time unit and the guard. *by* as for `restore_transaction`."""
    store, name = os.path.split(directory)
    now = time.monotonic()
    after = now - journal.get("monotonic", began)
    report["when"], report["what"] = format_utc_time(), journal.get("what", name)
    report["took"] = round(now - began, 1)
    report["after"] = round(after if after >= 0 else now - began, 1)
    remove_boot(journal.get("boot_unit", []))
    said = "; ".join(report["faults"]) or "everything went well"
    said += "; told the kernel: " + ", ".join(report["insisted"]) if report["insisted"] else ""
    append_log(
        store, "{}: restored in {:.1f} s ({}): {}".format(name, now - began, report["files"], said)
    )
    # Before the word is out: after it a next transaction may have a guard of this name.
    if by != "guard":
        run_with_deadline(build_stop_guard(name))
    # This must work on a full disk, because everyone waits for this state. It also comes last: the next transaction of
    # this name ends a guard that is still running.
    write_report(directory, report, "fired")
    if not os.path.exists(directory + "/fired"):
        with contextlib.suppress(OSError):
            os.rename(directory + "/restoring", directory + "/fired")


def write_report(directory: str, report: RestoreReport, name: str) -> None:
    """Save the report of a restore."""
    with contextlib.suppress(OSError):
        write_json_file(os.path.join(directory, name), report)


def fire(run: Runner, name: str, why: str, leave: int = 0) -> None:
    """Undo a transaction now, in a separate unit, after process *leave* has ended."""
    token = str(read_json(folder(name) + "/journal.json").get("token", ""))
    start_engine(
        run, unit(name) + "-now", ["restore", folder(name), why, str(leave), token], *AGAIN
    )


def find_other_change(name: str, token: str | None) -> str:
    """Return since when another run's change is unconfirmed, or "". *token* None accepts any owner."""
    journal: Journal = read_json(folder(name) + "/journal.json")
    waits = token is not None and state_of(folder(name)) == "armed"
    return journal.get("since", "") if waits and journal.get("token") != token else ""


def refuse_other_change(name: str, token: str | None) -> None:
    """Refuse to end another run's change.

    Raises:
        RollbackError: [TX-109].
    """
    since = find_other_change(name, token)
    if since:
        raise RollbackError(
            f"[TX-109] The change {name!r} has waited for its confirmation since {since} and belongs to another run, "
            "so it was not changed. Run again after that run has ended."
        )


def undone(run: Runner, name: str, why: str, token: str | None = None) -> RestoreReport:
    """Undo a transaction that can no longer be confirmed.

    Wait for it and return the report.

    The node does it itself, because the undo may cut the connection. *token* as for `disarm`.
    """
    refuse_other_change(name, token)
    if state_of(folder(name)) == "armed":
        fire(run, name, why)
    end = time.monotonic() + RESTORE_SECONDS
    while state_of(folder(name)) in ("armed", "restoring") and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    report = report_of(name)
    if state_of(folder(name)) == "fired":
        disarm(run, name)
    return report


# --- confirm ---------------------------------------------------------------------------------------


def report_of(name: str) -> RestoreReport:
    """Return the report of a transaction's restore, or {} if there was none."""
    found: RestoreReport = read_json(folder(name) + "/fired")
    return found


def disarm(run: Runner, name: str, token: str | None = None) -> str:
    """Confirm a change.

    Return V(disarmed), V(fired) if it was too late, or V(idle) if nothing was armed.

    Args:
        run: runs argv, returns (rc, output).
        name: of the transaction.
        token: the one it was armed with. None if the same process armed it.

    Raises:
        RollbackError: [TX-109], [TX-110].
    """
    refuse_other_change(name, token)
    directory = folder(name)
    if not os.path.isdir(directory):
        run(build_stop_guard(name))
        return "idle"
    won = state_of(directory) == "armed" and claim_transaction(directory, "confirmed", token or "")
    if not won and state_of(directory) == "armed":
        raise RollbackError(
            f"[TX-110] The confirmation of {name!r} cannot be written in {STORE}, so the node reverts the change. "
            f"Check: is the disk writable? (`findmnt -T {STORE}`, `dmesg`)"
        )
    if not won and state_of(directory) != "confirmed":
        end = time.monotonic() + RESTORE_SECONDS
        while state_of(directory) == "restoring" and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
    journal, word = read_json(directory + "/journal.json"), "fired"
    state = state_of(directory)
    if state != "restoring":  # the guard may be the process that restores
        run(build_stop_guard(name))
    word = "disarmed" if state == "confirmed" else word
    # "": killed before it was armed. A finished rollback removed the unit itself, and it may now belong to another
    # change.
    gone = state not in ("confirmed", "") or remove_boot(journal.get("boot_unit", []))
    append_log(STORE, "{}: {}".format(name, "confirmed" if word == "disarmed" else "came too late"))
    if state == "fired":
        # if not, another process is arming a change and has done it
        with contextlib.suppress(OSError), hold_lock(os.path.join(STORE, "lock"), 0) as got:
            if got:
                remove_fired_boot_units(STORE)
    # a process that still works on it needs these files
    if gone and state_of(directory) != "restoring":
        remove_transaction(directory)
    return word


# --- the engine ------------------------------------------------------------------------------------


def restore_at_boot(store: str) -> None:
    """Undo everything that was not confirmed before the node went down."""
    remove_leftovers(store)
    for name in sorted(os.listdir(store)):
        directory = os.path.join(store, name)
        if not os.path.isdir(directory):
            continue
        state = state_of(directory)
        if state in ("armed", "restoring"):
            try:
                restore_transaction(directory, "the node restarted before it was confirmed", "boot")
            except OSError as exc:  # the others' turn all the same
                append_log(store, f"{name}: not restored: {exc}")
        journal: Journal = read_json(directory + "/journal.json")
        if journal and state in ("confirmed", "") and remove_boot(journal.get("boot_unit", [])):
            remove_transaction(directory)
    remove_fired_boot_units(store)


def main(words: list[str]) -> int:
    """Run the program."""
    verb, where = words[0], words[1]
    if verb == "boot":
        restore_at_boot(where)
    elif verb == "apply":
        do_apply(where)
    elif verb == "late":
        finish_late_restore(where)
    elif verb == "rehearse":
        rehearse(where)
    elif verb == "guard":
        run_guard(where, words[4])
    elif verb == "restore":
        # If it is confirmed at this very moment, the directory is gone and there is nothing to do.
        if len(words) > 3:  # noqa: PLR2004 (directory, reason, process)
            wait_for_exit(int(words[3]))
        why, _leave, token = ([*words[2:], "", "", ""])[:3]
        restore_transaction(where, why or "it was not confirmed in time", token=token)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Exception as exc:
        append_log(os.path.dirname(os.path.abspath(__file__)), f"engine {sys.argv[1:]}: {exc!r}")
        # Units with Restart= free their name themselves. Others keep it if they failed, and would block the next
        # transaction.
        sys.exit(1 if sys.argv[1] in {"guard", "restore", "late"} else 0)
