# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A change that can cut us off is a transaction: armed, applied, confirmed, or undone by the node itself.

Stdlib only, and without an import of ours: this very source is also the program that runs on the node
(``engine.py`` in the store), started to stand guard until the time is over, at boot, or to apply the change detached
from our connection. One file for that reason, and longer than others.

A transaction is a directory in /var/lib/fullmesh/rollback that only root can read. One file in it, ``armed``, decides
who ends it: whoever renames it (to ``confirmed`` or ``restoring``) has won, since rename(2) succeeds once.
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
# Pulled in early: the files have to be back before anybody reads them.
WANTS = "sysinit.target.wants"
# EL's for its own tools, which no alternative changes; then everybody's.
PYTHONS = ("/usr/libexec/platform-python", "/usr/bin/python3")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

LOG_BYTES = 64 * 1024
# tempfile.mkstemp's, with the prefix of write_file
TEMPORARY = re.compile(r"\.fullmesh-[a-z0-9_]{8}\Z")
LOCK_SECONDS = 10
COMMAND_SECONDS = 30
APPLY_SECONDS = 60  # a step of a change, which may wait for an owner to bring an interface up
# What is told of a connection that proves nothing.
OLDER = "this connection is older than the change: your ssh reuses it (ControlMaster; `ssh -O exit HOST` ends it)"
# How long the owner of an interface may take to put back what is missing, before the kernel is told what it had: an
# address that was set by hand or by a file, and one that comes with a lease (one or two seconds on an idle machine).
SETTLE_SECONDS = 4
LEASE_SECONDS = 12
LONG = 3600.0  # seconds ago: no owner is waited for
# What ip shows of a route or nexthop and does not take: states, not settings.
FLAGS = ("linkdown", "dead", "offload", "trap", "rt_trap", "rt_offload", "offload_failed")
# What a route begins with that leads nowhere (ip-route(8)).
REFUSING = frozenset(["blackhole", "unreachable", "prohibit", "throw"])
# Routes of these (rtnetlink(7), /etc/iproute2/rt_protos) come and go by a daemon's own rules, also while a change waits
# for its confirmation: they are put back and never taken away.
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
# What is left of a lease that was about to end: its client has to get it again.
LEASE_LEAST = 60
CALM_POLLS = 3
# How long somebody who came too late waits for the other one to finish.
RESTORE_SECONDS = 90
OVER = ("confirmed", "fired")  # states of a transaction of which nothing waits any more
# A guard that is this late does not run at all (the module was killed before it could start it).
STALE_SECONDS = 15
# How often a guard looks whether its change still waits: whoever ended that may have been killed before he ended the
# guard, which then must not hold the unit's name for long.
GUARD_SECONDS = 1.0
POLL_SECONDS = 0.2
# sshd still has to hand the module's last words to the network when the module has ended.
GRACE_SECONDS = 0.7
REHEARSE_SECONDS = 20
# A rollback that is killed (out of memory) goes on where it was, and at once: later, people have edited the files.
# So does one that fails. At most ten times in two minutes; then its name is free again (--collect). An end by one of
# these signals is no failure to systemd (systemd.service(5), Restart=), and whoever sends one (`pkill python3`) has not
# meant the rollback; `systemctl stop` ends it all the same.
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
    """What shall stand in a file."""

    text: str
    mode: int


class SavedPath(TypedDict, total=False):
    """A path as it was: ``kind`` is absent (with the ``parents`` that were missing), link (``target``) or file.

    ``saved`` is where its bytes are, ``mtime`` in nanoseconds, ``xattrs`` in base64.
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
    """An interface; ``manner``: address -> the words of ``ip addr add`` that it had beside its value."""

    mtu: int
    up: bool
    addresses: list[str]
    leases: list[str]
    manner: dict[str, list[str]]


class LinksView(TypedDict):
    """Interfaces and their routes as the kernel has them; ``connected``: the routes that it makes by itself."""

    links: dict[str, ViewLink]
    routes: list[Route]
    connected: list[Route]


class KernelView(LinksView, total=False):
    """The same with what older versions have not saved.

    Attributes:
        nexthops: the lines of ``ip nexthop show``, groups last.
        rules: (-4 or -6, priority, the rest of the line of ``ip rule show``).
    """

    nexthops: list[str]
    rules: list[list[str]]


class OwnChangesRequired(TypedDict):
    """What a change gave, so that its rollback may delete it: addresses by interface, and routes."""

    addresses: dict[str, list[str]]
    routes: list[Route]


class OwnChanges(OwnChangesRequired, total=False):
    """The same, and in ``links`` the interfaces that it configured.

    On these, a lease and a route of before that a rollback does not find in its view came with the change.
    """

    links: list[str]


class KernelGoal(KernelView, total=False):
    """What the kernel shall show; without ``ours`` all else goes; ``alone`` are interfaces left as they are."""

    ours: OwnChanges
    alone: list[str]


class Journal(TypedDict, total=False):
    """All that a rollback needs.

    Attributes:
        name: of the transaction; what: in a few words; token: of this one among those of its name.
        seconds: until it is undone, from ``monotonic``, of the boot ``boot``; since: for people.
        commands: once the files are back; boot_commands: after a reboot, None for the same at its end.
        trials: texts for sh that a rehearsal runs; they change nothing.
        files, runtime: what was there; boot_unit: files of the boot-time unit, deepest first.
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
    """A change: files, then commands, once process ``leave`` is gone.

    ``last``: what the kernel shall show then; ``others``: what it shall show besides, of those who configure nothing.
    """

    files: dict[str, FileContent | None]
    commands: list[list[str]]
    leave: int
    last: KernelGoal | None
    others: KernelGoal | None


class ApplyProgress(TypedDict, total=False):
    """How far a change is: ``state`` waiting, running, done or failed; ``words`` of what failed at ``step``.

    ``connections`` that were there when it was done: [local port, remote port]. ``lost`` are the commands that would
    put there again what others had, and did not.
    """

    state: str
    step: str
    words: str
    connections: list[list[int]]
    lost: list[str]


class RestoreReport(TypedDict, total=False):
    """What a restore has done: files that were put back, faults, commands that it had to insist on; in seconds."""

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
    """Name the transient unit that stands guard, and restores."""
    return "fullmesh-rollback-" + name.replace("_", "-")


def build_stop_guard(name: str) -> list[str]:
    """Write the command that ends a guard, and the timer by which a version up to 0.2.0 has restored."""
    return ["systemctl", "stop", unit(name) + ".service", unit(name) + ".timer"]


def apply_unit(name: str) -> str:
    """Name the transient unit that applies."""
    return "fullmesh-apply-" + name.replace("_", "-")


def folder(name: str) -> str:
    """Say where a transaction lies."""
    return os.path.join(STORE, name)


def format_utc_time(seconds: float | None = None) -> str:
    """Return a time in UTC, for people."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def boot_mark() -> str:
    """Tell one boot from another; a container keeps the kernel's id, so the age of process 1 belongs to it."""
    with open("/proc/sys/kernel/random/boot_id") as stream:
        kernel = stream.read().strip()
    with open("/proc/1/stat") as stream:
        started = stream.read().rsplit(")", 1)[1].split()[19]
    return kernel + "/" + started


def append_log(store: str, text: str) -> None:
    """Append a line to the bounded log; a full disk must stop nothing."""
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
    """Make a rename survive a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_parent(path: str) -> None:
    """Make it survive a power cut that a name came or went; a file system that cannot is not worth a lock-out."""
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    with contextlib.suppress(OSError):
        flush_directory(parent)


def write_file(path: str, data: bytes, mode: int) -> None:
    """Replace a file in one step and let it reach the disk."""
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
    """Return what a file of ours holds, empty where it is absent or empty."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return {}


def journal_of(directory: str) -> Journal | None:
    """Return the journal of a transaction, None where there is none.

    Raises:
        OSError, ValueError: nobody knows what it says; who asks whose a change is must not take that for "nobody's".
    """
    try:
        with open(directory + "/journal.json", encoding="utf-8") as stream:
            found: Journal = json.load(stream)
    except FileNotFoundError:
        return None
    return found


def write_json_file(path: str, data: object) -> None:
    """Write a file of ours."""
    write_file(path, (json.dumps(data, indent=1, sort_keys=True) + "\n").encode(), 0o600)


def remove_temporary_files(directory: str) -> None:
    """Remove what a killed `write_file` has left beside its file; nobody reads it, and it would stay for good."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if TEMPORARY.match(name):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(directory, name))


def remove_transaction(directory: str) -> None:
    """Remove a transaction in one step: half of one could pass for one that waits, or that never ended."""
    aside = os.path.join(os.path.dirname(directory), ".old-" + os.urandom(8).hex())
    with contextlib.suppress(OSError):
        os.rename(directory, aside)
    shutil.rmtree(aside, ignore_errors=True)


def find_system_python() -> str:
    """The system's own Python: the one that Ansible was given may lie where nothing may be run from at boot."""
    return next((one for one in PYTHONS if os.access(one, os.X_OK)), sys.executable)


def run_with_deadline(
    command: Command, seconds: float = COMMAND_SECONDS, complaints: bool = True
) -> tuple[int, str]:
    """Run a command with a deadline; a text is for sh. What it says on stderr counts with *complaints* alone."""
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
            # What it has started may live on and hold the pipe: dhclient without a server, for 300 s in Debian.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=1)
            return 124, f"no answer after {seconds:.0f} s"
    return child.returncode, out.decode("utf-8", "replace").strip()


def read_command_output(command: list[str]) -> str:
    """What a command answers; a warning of it is no part of that (iproute2 warns of tables that it has no name for)."""
    return run_with_deadline(command, complaints=False)[1]


def describe_command(command: list[str]) -> str:
    """Write a command for people: of a script its arguments, which say what it is about."""
    script = command[:2] == ["/bin/sh", "-c"] and len(command) > 3  # noqa: PLR2004 (sh, -c, script, arguments)
    return " ".join(command[3:] if script else command)


# --- files: what they are, and making them that again ----------------------------------------------


def find_missing_parents(path: str) -> list[str]:
    """List the directories above *path* that are not there, deepest first."""
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
    """Describe one path and keep its bytes in *directory*."""
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
            f"[TX-106] {path} is neither a file nor a link, so it cannot be saved. Move it away."
        )
    return entry


def restore_saved_path(entry: SavedPath, directory: str) -> bool:
    """Make one path what it was; return whether anything had to be done."""
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
    """Remove a directory unless somebody has something in it."""
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
    """Compare a path with what was kept of it."""
    path = entry["path"]
    if entry["kind"] == "link":
        return bool(os.readlink(path) == entry["target"])
    with open(path, "rb") as one, open(os.path.join(directory, entry["saved"]), "rb") as other:
        return one.read() == other.read()


def restore_bytes(path: str, entry: SavedPath, directory: str) -> None:
    """Write the kept bytes; in place where the disk has no room for a second copy."""
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
    """Owner, mode, label, time; what the file system does not take is not worth a lock-out."""
    os.chown(path, entry["uid"], entry["gid"], follow_symlinks=False)
    if entry["kind"] == "file":
        os.chmod(path, entry["mode"])
    for key, value in entry["xattrs"].items():
        with contextlib.suppress(OSError):
            os.setxattr(path, key, base64.b64decode(value), follow_symlinks=False)
    times = (entry["mtime"], entry["mtime"])
    os.utime(path, ns=times, follow_symlinks=False)


# --- the kernel's view of interfaces ---------------------------------------------------------------


def read_kernel_view(interfaces: list[str]) -> KernelView:
    """Return addresses, MTU, state and routes of *interfaces*, as the kernel has them.

    Routes of every table, also those over several interfaces and by the number of a nexthop; and all rules, which a
    restart of systemd-networkd drops where others have made them (ManageForeignRoutingPolicyRules, networkd.conf(5)).
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
    """A line of ``ip -o route show table all``; nothing for a route over none of *links*, and for the table ``local``.

    The kernel makes that table from the addresses. A route that refuses is over no interface (IPv6 shows it over lo,
    with an error number), and systemd-networkd drops what others have made of them as well.
    """
    words = strip_route_state(line.replace("\\", " ")).split()
    if words[:1] and words[0] in REFUSING:
        own = "proto kernel" in line or "table local" in line
        return None if own else [family, "", " ".join(drop_keys(words, "dev", "error"))]
    over = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "dev"]
    if not set(over) & set(links) or "table local" in " ".join(words):
        return None
    if "nhid" in words:
        # it is shown with what the nexthop stands for, and not taken with it
        words = drop_keys(
            words[: words.index("nexthop")] if "nexthop" in words else words, "via", "dev"
        )
        return [family, "", " ".join(words)]
    if "nexthop" in words:
        return [family, "", " ".join(words)]
    return [family, over[0], " ".join(drop_keys(words, "dev"))]


def drop_keys(words: list[str], *keys: str) -> list[str]:
    """Words without some keys and their values; ``via inet6 ADDRESS`` has two."""
    result = list(words)
    for key in keys:
        if key in result:
            at = result.index(key)
            more = 1 if result[at + 1 : at + 2] in (["inet"], ["inet6"]) else 0
            result = result[:at] + result[at + 2 + more :]
    return result


def parse_rule_line(family: str, line: str) -> list[str]:
    """A line of ``ip rule show``: ``32765:  from 10.0.0.5 lookup 100``."""
    priority, _, rest = line.partition(":")
    return [family, priority.strip(), " ".join(rest.split())]


def parse_nexthops(links: Iterable[str], out: str) -> list[str]:
    """Of ``ip -o nexthop show`` those over *links*, and their groups; as ``ip nexthop replace`` takes them."""
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
    """Return the addresses of a link that others may know."""
    found = link.get("addr_info", [])
    return [one for one in found if one.get("scope") == "global" and not one.get("temporary")]


def format_address_info(info: dict[str, Any]) -> str:
    """Write an address with its prefix."""
    return "{}/{}".format(info["local"], info["prefixlen"])


def build_address_options(info: dict[str, Any]) -> list[str]:
    """Return the words of ``ip addr add`` that give an address what it had beside its value.

    A lease keeps the time that it had left: set for ever it would be kept after the server has given it to somebody
    else. The route to its network is made beside it where that has a metric: systemd-networkd 252 takes the metric of
    an address that it finds for none when it renews the lease, and the route is another one from then on.
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
    """Take *age* seconds off the times of a lease, down to what its client needs to get it again."""
    result = list(words)
    for key in ("valid_lft", "preferred_lft"):
        if key in words:
            at = words.index(key) + 1
            result[at] = str(max(int(words[at]) - int(age), min(int(words[at]), LEASE_LEAST)))
    return result


def strip_route_state(line: str) -> str:
    """Drop from a route what changes by itself."""
    words = line.split()
    if "expires" in words:
        at = words.index("expires")
        words = words[:at] + words[at + 2 :]
    return " ".join(word for word in words if word not in FLAGS)


def list_owner_routes(state: KernelView) -> list[Route]:
    """Return the routes to addresses' own networks that do not come with the address, of a view of `runtime`.

    NetworkManager gives its addresses ``noprefixroute`` and makes the routes itself, in the kernel's name.
    """
    found = []
    for entry in state.get("connected", []):  # none in what an older version has saved
        manners = state["links"][entry[1]].get("manner", {})
        own = [one for one, words in manners.items() if "noprefixroute" in words]
        if entry[2].split(" ", 1)[0] in map(address_to_network, own):
            found.append(entry)
    return found


def address_to_network(address: str) -> str:
    """Return the network of an address with its prefix, as the kernel writes it in a route."""
    return str(ipaddress.ip_interface(address).network)


def is_restorable_route(line: str) -> bool:
    """Say whether a route is anybody's but the kernel's own."""
    return "proto kernel" not in line and not line.startswith(("fe80::", "ff00::", "multicast"))


def build_kernel_commands(before: KernelGoal, age: float = 0) -> list[list[str]]:
    """List the commands that would make the kernel's view what it was *age* seconds ago.

    If *before* says what is ``ours``, nothing else is deleted: keepalived, a router's advertisement or an administrator
    may have added addresses meanwhile.
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
    # The kernel refuses a gateway until there is a route to it. The route to a network goes with its address.
    anew, there = (
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
    for verb, first, second in (("del", ends, before["routes"]), ("replace", anew, there)):
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
    """Return the addresses of an interface that came with a change: what it gave, and a first IPv4 lease.

    Args:
        name: of the interface.
        then, have: the interface before the change, and now.
        ours: what the change gave.
    """
    found = set(ours["addresses"].get(name, []))
    if name in ours.get("links", []) and not then.get("leases"):
        found |= {one for one in have["leases"] if ":" not in one}
    return found


def keep_later_addresses(directory: str, before: KernelGoal) -> KernelGoal:
    """Add to *before* the addresses that others gave its interfaces since: the owners' commands may drop them.

    What is there now is saved first, so that a rollback that is killed and started again knows it as well.
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
    """Say how long the owner may take to do a step itself, in seconds; what is too much goes at once."""
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
    """Make the kernel show what it did; return what had to be insisted on.

    *since* when, in seconds of the monotonic clock, the owners were asked, where that was not just now: a command that
    has waited for a lease in vain has used up the time that one may take. *age* of *before* in seconds. It ends after
    *longest* seconds whatever the kernel shows.
    """
    insisted: list[str] = []
    begun, calm = time.monotonic(), 0
    asked = begun if since is None else since
    while before and calm < CALM_POLLS and time.monotonic() - begun < longest:
        steps = build_kernel_commands(before, age)
        # Owners work behind our back: what looks right once may be on its way to something else.
        calm = 0 if steps else calm + 1
        for step in steps:
            if time.monotonic() - asked >= get_owner_patience(step, before):
                run_with_deadline(step)
                insisted += [" ".join(step)] if " ".join(step) not in insisted else []
        time.sleep(POLL_SECONDS)
    return insisted


# --- the boot-time unit ----------------------------------------------------------------------------


def boot_paths() -> tuple[str, str]:
    """Return the unit and the link that enables it."""
    return os.path.join(UNITS, BOOT), os.path.join(UNITS, WANTS, BOOT)


def render_boot_unit(store: str) -> str:
    """Write the unit: after the disks are there, before anybody reads a network or firewall file."""
    return f"""[Unit]
Description=Fullmesh: put back a change that nobody has confirmed
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
    """Write and enable the unit; return what has to go afterwards, deepest first."""
    path, link = boot_paths()
    made = [link, path, *find_missing_parents(link)]
    os.makedirs(os.path.dirname(link), 0o755, exist_ok=True)
    write_file(path, render_boot_unit(store).encode(), 0o644)
    with contextlib.suppress(FileExistsError):
        os.symlink(path, link)
    flush_directory(os.path.dirname(link))
    return made


def remove_boot(made: list[str]) -> bool:
    """Take the unit away, and the directories that were made for it; whether all that could go is gone.

    Where it is not (some file systems need room for that too), whoever comes next has to know what to take away.
    A directory in which others have something stays.
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
    """Say whether a directory is there with nothing in it; one that cannot be read may be others'."""
    try:
        return not os.listdir(path)
    except OSError:
        return False


def remove_fired_boot_units(store: str) -> None:
    """Take away what rollbacks that are over could not, unless a change still needs the unit.

    Only for who keeps others from arming one meanwhile.
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
    """Hold a lock; yields False when somebody else held it all the time."""
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
    """Return V(armed), V(confirmed), V(restoring), V(fired), or nothing."""
    for word in ("fired", "confirmed", "restoring", "armed"):
        if os.path.exists(os.path.join(directory, word)):
            return word
    return ""


def list_pending_changes() -> list[PendingChange]:
    """Return the transactions that have yet to end, by name; none if the caller may not read the store."""
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
    """End a transaction one way or the other; only one caller ever gets True.

    With a *token* only the transaction that has it: a guard of the one before may be late, and meet the next one.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        # Both through one handle: what was opened is what is renamed, even if another directory stands there now.
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
    """Return how long a transaction has before it is undone; negative when it should have been."""
    if journal.get("boot") != boot_mark():
        return -STALE_SECONDS - 1.0
    return journal["monotonic"] + journal["seconds"] - time.monotonic()


def finish_stale_changes() -> None:
    """Refuse a second transaction; finish one whose guard never ran."""
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
                "[TX-101] the change {!r} of this node waits for its confirmation since {}: two runs at once would "
                "undo each other. It is put back in {:.0f} s unless its run confirms it; run again after that.".format(
                    name, journal["since"], max(left, 0) + 1
                )
            )
        if state in ("armed", "restoring"):
            restore_transaction(directory, "found unfinished by a later run")
        # one without a journal is none of ours: lost+found, where the store is a file system of its own
        if journal and state in ("confirmed", "") and remove_boot(journal.get("boot_unit", [])):
            remove_transaction(directory)
    remove_fired_boot_units(STORE)


def remove_leftovers(store: str) -> None:
    """Remove what killed runs have left that were never armed, or over: nothing of theirs is in force."""
    for name in sorted(os.listdir(store)):
        directory = os.path.join(store, name)
        if name.startswith((".new-", ".old-")):
            if name.startswith(".new-"):
                remove_boot(read_json(directory + "/journal.json").get("boot_unit", []))
            shutil.rmtree(directory, ignore_errors=True)
    remove_temporary_files(store)
    remove_temporary_files(UNITS)


def source() -> bytes:
    """Return this file's own text, also out of the archive in which Ansible brings it."""
    loader = globals()["__loader__"]
    return str(loader.get_source(__name__)).encode()


def arm(  # noqa: PLR0913 (five as ever, six by name)
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
    """Save *paths* as they are and set the guard.

    Args:
        run: runs argv, returns (rc, output).
        name: of the transaction, a Python identifier.
        seconds: until the node undoes it.
        paths: files that will change, appear or go.
        commands: what brings the old files into force; argv lists, or texts for sh.
        boot: the same after a reboot, before the network starts; V(None) runs *commands* once the boot is over.
        links: interfaces whose addresses, routes and MTU have to come back as well.
        trials: texts for sh that change nothing and have to work now, as *commands* will have to.
        ours: what the change gives them, the only addresses that the rollback may delete.
        what: a few words for the log.
        token: of the run, which has to show it again to confirm or restore; its own choice, because the answer to this
            call may get lost. Nothing for a caller that ends the change itself.

    Raises:
        RollbackError: [TX-101] to [TX-103], [TX-106], [TX-108]; nothing was changed then.
    """
    try:
        os.makedirs(STORE, 0o700, exist_ok=True)
        with hold_lock(os.path.join(STORE, "lock"), LOCK_SECONDS) as got:
            if not got:
                raise RollbackError(
                    "[TX-101] another run is arming a change on this node right now. Run again after it."
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
    """Say that the store takes nothing more."""
    return RollbackError(
        f"[TX-102] what is there could not be saved in {STORE}: {exc.strerror or exc}. Nothing was changed. "
        f"Is there room (df {STORE}; df -i {STORE})?"
    )


def start_guard(run: Runner, journal: Journal, made: list[str]) -> None:
    """Start the guard, and arm what it shall restore; or take back everything that was made for it.

    In this order: a run that is killed in between leaves a guard that finds nothing to do. The other way round it left
    a change that nobody ends, and a boot long after would have put old files over what people wrote since.

    A process, not a timer of systemd's: OnActiveSec= begins anew each time systemd reads its units
    (systemd/systemd#31914; seen with 252), as every package does that brings one, so reloads often enough put a
    rollback off for ever. OnBootSec= counts on, but what comes due during a reload is taken for a trigger that is over
    (timer_enter_waiting, src/core/timer.c). A process lives through both.
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
        raise RollbackError(f"{why}. Nothing was changed. Look at `systemctl status`.")


def cancel_transaction(run: Runner, name: str, made: list[str]) -> None:
    """Remove a transaction before anything is changed."""
    run(build_stop_guard(name))
    remove_transaction(folder(name))
    remove_boot(made)


def build_guard_command(journal: Journal, verb: str) -> list[str]:
    """What a guard is, and its rehearsal as well.

    Without a dollar sign: systemd 252 (EL 9, Debian 12) writes one into the unit's file with a backslash, and takes
    both for text once it reads the file again, as it does whenever a unit is enabled or a package installed.
    """
    # A confirmation may take the script away at this very moment, and a unit that failed would keep its name.
    back = shlex.quote(folder(journal["name"]) + "/back.sh")
    words = " ".join([back, shlex.quote(journal["token"]), verb])
    return ["/bin/sh", "-c", f"[ ! -e {back} ] || exec /bin/sh {words}"]


def run_rehearsal(run: Runner, journal: Journal) -> str:
    """Go the rollback's way once before anything is changed; return why it would not work.

    A policy (SELinux, fapolicyd), an interpreter that is gone or a file system that is read-only would show up when the
    rollback has to save the node, and nobody would see it.
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
        hint = "`journalctl -u fullmesh-rollback-*` and `ausearch -m avc -ts recent` say why"
        return f"[TX-108] the rollback does not run on this node: {why}; {hint}"
    return (
        "[TX-108] the rollback would not work on this node: " + "; ".join(faults) if faults else ""
    )


def rehearse(directory: str) -> None:
    """Try everything that a restore needs and that changes nothing; the engine's side of `rehearsed`."""
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
    """Run texts for sh that change nothing; return the last line of each one that fails."""
    done = [run_with_deadline(trial) for trial in trials]
    return [
        "a trial of a command fails: " + "".join(out.strip().splitlines()[-1:])
        for rc, out in done
        if rc != 0
    ]


def check_writable(path: str) -> None:
    """Raise OSError where no file can be made beside *path*; it is tried with one that has no name: nobody sees it."""
    parent = os.path.dirname(path)
    while not os.path.isdir(parent):
        parent = os.path.dirname(parent)
    try:
        os.close(os.open(parent, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as exc:
        if exc.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOSPC, errno.EDQUOT):
            raise  # the others: this file system has none; a full disk is what put_back() can live with


def run_systemd_run(run: Runner, command: list[str]) -> tuple[int, str]:
    """Run systemd-run; a unit of that name may still be on its way out, or have failed and be kept for that."""
    end = time.monotonic() + LEAVE_SECONDS
    rc, out = run(command)
    while rc != 0 and "already" in out and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
        names = [word.split("=", 1)[1] for word in command if word.startswith("--unit=")]
        run(["systemctl", "reset-failed", *(name + ".service" for name in names)])
        rc, out = run(command)
    return rc, out


def save_transaction(name: str, paths: list[str], journal: Journal) -> list[str]:
    """Write everything that the rollback needs, all of it or nothing; `start_guard` arms it."""
    directory = folder(name)
    made: list[str] = []
    fresh = tempfile.mkdtemp(prefix=".new-", dir=STORE)
    try:
        journal["files"] = [save_path(path, n, fresh) for n, path in enumerate(paths)]
        journal["boot_unit"] = [*boot_paths()[::-1], *find_missing_parents(boot_paths()[1])]
        journal["since"], journal["monotonic"] = format_utc_time(), time.monotonic()
        journal["boot"] = boot_mark()
        back = "#!/bin/sh\n# Armed by Fullmesh: puts back what nobody has confirmed.\n"
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


# --- apply, detached from our connection -----------------------------------------------------------


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
        files: what shall stand on the node.
        commands: argv lists; the first that fails undoes everything.
        leave: id of the process (ours) that has to be gone first, so that our connection can end in order; 0 for none.
        last: what the kernel shall show of interfaces at the end, as V(runtime) gives it; for an undo, whose commands
            are tried one and all.
        others: what the kernel shall show besides that no owner knows of, and drops; what it does not take is said in
            the log, and as ``lost`` in the `outcome`.

    Raises:
        RollbackError: [TX-102] no room for the plan, or [TX-103] systemd did not start it; nothing was changed then.
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
            f"[TX-103] systemd-run says {out.strip()!r} (rc {rc}). Nothing was changed. Look at `systemctl status`."
        )


def start_engine(run: Runner, name: str, words: list[str], *more: str) -> tuple[int, str]:
    """Start the engine in a transient unit, with *more* options, so that it outlives our connection."""
    program = [find_system_python(), STORE + "/engine.py"]
    command = ["systemd-run", "--no-block", "--unit=" + name, *more, *program]
    return run_systemd_run(run, [*command, *words])


def read_apply_progress(name: str) -> ApplyProgress:
    """Return how far apply has come."""
    found: ApplyProgress = read_json(folder(name) + "/applied.json")
    return found


def wait_for_apply(name: str, seconds: float) -> ApplyProgress:
    """Wait for apply to end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and read_apply_progress(name).get("state") in (
        "waiting",
        "running",
    ):
        time.sleep(POLL_SECONDS)
    return read_apply_progress(name)


def do_apply(directory: str) -> None:
    """Run the plan of a transaction: the engine's side of apply."""
    plan: ChangeSteps = read_json(directory + "/plan.json")
    store, name = os.path.split(directory)
    wait_for_exit(plan["leave"])
    # paths are written, commands are run
    steps: list[Command] = [*sorted(plan["files"]), *plan["commands"]]
    for step in steps:
        if state_of(directory) != "armed":
            return
        words = describe_command(step) if isinstance(step, list) else f"write {step}"
        # A full disk must not stop the change half way: the journal is for us, the change for the node.
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
    said = "; put there again, of others: " + ", ".join(there) if there else ""
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
    """Note that an armed change is in force, and which connections were there then; for those who do not `apply`."""
    with contextlib.suppress(OSError):
        write_json_file(
            folder(name) + "/applied.json", {"state": "done", "connections": list_port_pairs()}
        )


def is_fresh_connection(connection: list[str], applied: ApplyProgress) -> bool:
    """Say whether an SSH_CONNECTION was made after the change: one that was there before it proves nothing.

    Args:
        connection: client, port, server, port; nothing where ssh does not carry us.
        applied: what the engine has noted of the change.
    """
    ends = [[int(connection[3]), int(connection[1])]] if connection else []
    return not any(end in applied.get("connections", []) for end in ends)


def needs_fresh_connection(name: str, connection: list[str]) -> bool:
    """Say whether a change waits for a younger connection than this one (as for `fresh`)."""
    return state_of(folder(name)) == "armed" and not is_fresh_connection(
        connection, read_apply_progress(name)
    )


def wait_for_exit(process: int) -> None:
    """Wait for a process to end, and for its words to reach the network."""
    end = time.monotonic() + LEAVE_SECONDS
    while process and os.path.exists(f"/proc/{process}") and time.monotonic() < end:
        time.sleep(POLL_SECONDS / 4)
    if process:
        time.sleep(GRACE_SECONDS)


def apply_file_content(path: str, wanted: FileContent | None) -> str:
    """Write or remove one file; return what went wrong."""
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
    """Run one command; return what went wrong."""
    rc, out = run_with_deadline(command, APPLY_SECONDS)
    return "" if rc == 0 else f"rc {rc}: {out[-500:]}"


# --- restore ---------------------------------------------------------------------------------------


def run_guard(directory: str, token: str) -> None:
    """Wait until the time of a transaction is over, and undo it; or until it is not there any more.

    In short sleeps: one that the machine slept through, or during which it was stopped, is over late by one at most.

    Raises:
        OSError, ValueError: as for `restore`.
    """
    journal = journal_of(directory)
    while journal and journal["token"] == token and state_of(directory) not in OVER:
        left = seconds_left(journal)
        if left <= 0:
            restore_transaction(directory, "nobody came back in time to confirm it", "guard", token)
            return
        time.sleep(min(left, GUARD_SECONDS))
        with contextlib.suppress(OSError, ValueError):  # for a moment; it has been there
            journal = journal_of(directory)


def restore_transaction(directory: str, why: str, by: str = "", token: str = "") -> bool:
    """Undo a transaction; False when somebody has confirmed it before.

    *by* is V(boot), or who must not be ended under his own feet: V(apply), V(guard); *token* for claim.

    Raises:
        OSError, ValueError: nothing was done; to be tried again.
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
            # From here on nobody does it again, however this ends: the files belong to people once more.
            write_report(directory, report, "back")
        finish_restore(directory, journal, report, began, by)
    return True


def finish_late_restore(directory: str) -> None:
    """Finish at the end of the boot what could not be done at its beginning."""
    journal: Journal = read_json(directory + "/journal.json")
    report: RestoreReport = read_json(directory + "/pending.json")
    if journal and report and state_of(directory) == "restoring":
        began = report.pop("began")
        report["faults"] += run_all(journal.get("commands", []))
        write_report(directory, report, "back")
        finish_restore(directory, journal, report, began)


def restore_files(journal: Journal, directory: str, report: RestoreReport) -> None:
    """Put every file back, first those that only have to go: that makes room."""
    files = sorted(journal.get("files", []), key=lambda entry: entry["kind"] != "absent")
    # First: a directory that was made for a file of ours goes only when it is empty.
    for parent in sorted({os.path.dirname(entry["path"]) for entry in files}):
        remove_temporary_files(parent)
    for entry in files:
        try:
            if restore_saved_path(entry, directory):
                report["files"].append(entry["path"])
        except (
            Exception
        ) as exc:  # one file that cannot be put back must not keep the others from it
            report["faults"].append("{}: {}".format(entry["path"], exc))


def run_all(commands: list[Command]) -> list[str]:
    """Run every command, whatever the others do; return what went wrong."""
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
    """Say what was done, and take the boot-time unit and the guard away; *by* as for `restore`."""
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
    # Also where the disk has no room for one more file: the word is what everybody looks for. And the last thing that
    # is done: a next transaction of this name ends a guard that is still there.
    write_report(directory, report, "fired")
    if not os.path.exists(directory + "/fired"):
        with contextlib.suppress(OSError):
            os.rename(directory + "/restoring", directory + "/fired")


def write_report(directory: str, report: RestoreReport, name: str) -> None:
    """Keep what a restore has done for whoever asks."""
    with contextlib.suppress(OSError):
        write_json_file(os.path.join(directory, name), report)


def fire(run: Runner, name: str, why: str, leave: int = 0) -> None:
    """Undo a transaction now, detached, once process *leave* is gone."""
    token = str(read_json(folder(name) + "/journal.json").get("token", ""))
    start_engine(
        run, unit(name) + "-now", ["restore", folder(name), why, str(leave), token], *AGAIN
    )


def find_other_change(name: str, token: str | None) -> str:
    """Since when somebody else's change waits, where it does; V(None) for who ends a change whosever it is."""
    journal: Journal = read_json(folder(name) + "/journal.json")
    waits = token is not None and state_of(folder(name)) == "armed"
    return journal.get("since", "") if waits and journal.get("token") != token else ""


def refuse_other_change(name: str, token: str | None) -> None:
    """Leave another run's change alone.

    Raises:
        RollbackError: [TX-109].
    """
    since = find_other_change(name, token)
    if since:
        raise RollbackError(
            f"[TX-109] the change {name!r} that waits for its confirmation since {since} is another run's, so it is "
            "left to that one. Run again after it."
        )


def undone(run: Runner, name: str, why: str, token: str | None = None) -> RestoreReport:
    """Undo a transaction that nobody can confirm any more, wait for it, and return what was done.

    The node does it, not we: our connection may go with what is undone. *token* as for `disarm`.
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
    """Return what the restore of a transaction has done, empty where there was none."""
    found: RestoreReport = read_json(folder(name) + "/fired")
    return found


def disarm(run: Runner, name: str, token: str | None = None) -> str:
    """Confirm: return V(disarmed), V(fired) when it was too late, V(idle) when nothing was armed.

    Args:
        run: runs argv, returns (rc, output).
        name: of the transaction.
        token: the one that it was armed with; None where the same process has armed it.

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
            f"[TX-110] the confirmation of {name!r} could not be written in {STORE}, so the node puts back what it had."
            f" Is the disk writable (findmnt -T {STORE}; dmesg)?"
        )
    if not won and state_of(directory) != "confirmed":
        end = time.monotonic() + RESTORE_SECONDS
        while state_of(directory) == "restoring" and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
    journal, word = read_json(directory + "/journal.json"), "fired"
    state = state_of(directory)
    if state != "restoring":  # who is at it may be the guard
        run(build_stop_guard(name))
    word = "disarmed" if state == "confirmed" else word
    # "": killed before it was armed; a rollback has done it itself, and by now the unit may be another change's
    gone = state not in ("confirmed", "") or remove_boot(journal.get("boot_unit", []))
    append_log(STORE, "{}: {}".format(name, "confirmed" if word == "disarmed" else "came too late"))
    if state == "fired":
        # not got: somebody arms a change, and has done it
        with contextlib.suppress(OSError), hold_lock(os.path.join(STORE, "lock"), 0) as got:
            if got:
                remove_fired_boot_units(STORE)
    # whoever still works on it has nothing else to restore from
    if gone and state_of(directory) != "restoring":
        remove_transaction(directory)
    return word


# --- the engine ------------------------------------------------------------------------------------


def restore_at_boot(store: str) -> None:
    """Undo whatever was not confirmed before the node went down."""
    remove_leftovers(store)
    for name in sorted(os.listdir(store)):
        directory = os.path.join(store, name)
        if not os.path.isdir(directory):
            continue
        state = state_of(directory)
        if state in ("armed", "restoring"):
            try:
                restore_transaction(
                    directory, "the node was started again before anybody confirmed it", "boot"
                )
            except OSError as exc:  # the others' turn all the same
                append_log(store, f"{name}: not restored: {exc}")
        journal: Journal = read_json(directory + "/journal.json")
        if journal and state in ("confirmed", "") and remove_boot(journal.get("boot_unit", [])):
            remove_transaction(directory)
    remove_fired_boot_units(store)


def main(words: list[str]) -> int:
    """Run as a program."""
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
        # Somebody who confirms at this very moment removes the directory: then there is nothing to do.
        if len(words) > 3:  # noqa: PLR2004 (directory, reason, process)
            wait_for_exit(int(words[3]))
        why, _leave, token = ([*words[2:], "", "", ""])[:3]
        restore_transaction(where, why or "nobody came back in time to confirm it", token=token)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Exception as exc:
        append_log(os.path.dirname(os.path.abspath(__file__)), f"engine {sys.argv[1:]}: {exc!r}")
        # Units that are started again give their name back by themselves; of the others one that failed keeps it, and
        # the next transaction could not start one.
        sys.exit(1 if sys.argv[1] in {"guard", "restore", "late"} else 0)
