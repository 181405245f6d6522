# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a role is about to change on this node: remembered, and put back on demand. Stdlib only."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import stat
import time
from typing import TYPE_CHECKING

from ..files import put, read_context
from . import written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Entry = dict[str, Any]
    State = dict[str, dict[str, Any]]
    Runner = Callable[[list[str]], tuple[int, str, str]]
    Action = Callable[[], None]
    Step = Callable[[Entry, dict[str, str]], Entry]

SCHEMA = 1
STORE = written.STORE
KINDS = ("files", "directories", "sysctls", "services", "packages", "interfaces")
UNIT_DIRECTORIES = (
    "/etc/systemd/",
    "/run/systemd/",
    "/usr/lib/systemd/",
    "/usr/local/lib/systemd/",
)
LOCK_SECONDS = 120
UNIT_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState")

NOTHING: dict[str, list[str]] = {kind: [] for kind in KINDS}
RUNNING = ("active", "activating", "reloading")


class UndoError(Exception):
    """A coded sentence for the user."""


class Node:
    """The machine: a root directory and a way to run commands; tests bring their own."""

    def __init__(self, root: str, run: Runner) -> None:
        self.root = root.rstrip("/")
        self.run = run

    def at(self, path: str) -> str:
        """Say where *path* of the node is for us."""
        return self.root + path


# --- files ------------------------------------------------------------------------------------


def clean_path(path: str) -> str:
    """Refuse what is not one exact place."""
    if not path.startswith("/") or os.path.normpath(path) != path or path == "/":
        raise UndoError(
            f"[UN-102] {path!r} cannot be remembered: it is not a plain absolute path. "
            "Write it like /etc/sysctl.d/60-fullmesh.conf."
        )
    return path


def read_bytes(path: str) -> bytes:
    """Return all of a file."""
    with open(path, "rb") as stream:
        return stream.read()


def observe_file(node: Node, path: str) -> Entry:
    """Describe a path; a regular file by its checksum."""
    here = node.at(path)
    try:
        info = os.lstat(here)
    except (FileNotFoundError, NotADirectoryError):
        return {"kind": "absent"}
    if stat.S_ISLNK(info.st_mode):
        return {"kind": "link", "target": os.readlink(here)}
    if not stat.S_ISREG(info.st_mode):
        raise UndoError(
            f"[UN-102] {path} cannot be remembered: it is neither a file nor a link. "
            "Name the files in it, or list a directory under `directories`."
        )
    return {
        "kind": "file",
        "sha256": hashlib.sha256(read_bytes(here)).hexdigest(),
        "mode": stat.S_IMODE(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "context": read_context(here),
    }


def missing_parents(node: Node, path: str) -> list[str]:
    """Name the directories above *path* that somebody has yet to make."""
    missing = []
    parent = os.path.dirname(path)
    while parent != "/" and not os.path.lexists(node.at(parent)):
        missing.append(parent)
        parent = os.path.dirname(parent)
    return missing


def put_like(path: str, content: bytes, like: Entry) -> None:
    """Write a file with the owner, mode and context of another one."""
    put(path, content, like["mode"], (like["uid"], like["gid"]), like.get("context", ""))


def put_back_file(node: Node, path: str, then: Entry, content: bytes) -> None:
    """Make a path what it was."""
    here = node.at(path)
    if then["kind"] == "file":
        if os.path.islink(here):
            os.unlink(here)
        put_like(here, content, then)
        return
    if os.path.lexists(here):
        os.unlink(here)
    if then["kind"] == "link":
        os.makedirs(os.path.dirname(here), 0o755, exist_ok=True)
        os.symlink(str(then["target"]), here)


# --- sysctls ----------------------------------------------------------------------------------


def sysctl_path(key: str) -> str:
    """Find a key's file; ``net.ipv4.conf.eth0/1.x`` is the interface eth0.1, as in sysctl.d(5)."""
    if not re.match(r"^[A-Za-z0-9_./@:-]+$", key) or ".." in key:
        raise UndoError(
            f"[UN-102] {key!r} is not a sysctl name. Write it like net.ipv4.tcp_fin_timeout."
        )
    slashed = key.translate({ord("."): "/", ord("/"): "."})
    return "/proc/sys/" + slashed


def observe_sysctl(node: Node, key: str) -> str | None:
    """Return the value with single blanks, nothing where this kernel has no such key."""
    try:
        return " ".join(read_bytes(node.at(sysctl_path(key))).decode().split())
    except (OSError, UnicodeDecodeError):
        return None


def put_back_sysctl(node: Node, key: str, value: str) -> None:
    """Write one value."""
    with open(node.at(sysctl_path(key)), "w") as stream:
        stream.write(value + "\n")


# --- units and packages -----------------------------------------------------------------------


def observe_units(node: Node, units: list[str]) -> dict[str, Entry]:
    """Ask systemd about all units in one call; it answers in the order asked, a block each."""
    if not units:
        return {}
    command = ["systemctl", "show", "--no-pager", "--property=" + ",".join(UNIT_PROPERTIES)]
    rc, out, err = node.run([*command, "--", *units])
    blocks = [block for block in out.strip().split("\n\n") if block.strip()]
    if rc != 0 or len(blocks) != len(units):
        raise UndoError(
            f"[UN-103] systemctl could not describe {', '.join(units)}: "
            f"rc {rc}, {(err or out).strip()!r}. "
            "Fullmesh needs systemd as init; look at `systemctl status` on this node."
        )
    return {unit: parse_unit(block) for unit, block in zip(units, blocks)}


def parse_unit(block: str) -> Entry:
    """Read one block of ``systemctl show``."""
    pairs = dict(line.split("=", 1) for line in block.strip().splitlines() if "=" in line)
    return {
        "found": pairs.get("LoadState") not in ("not-found", None),
        "active": pairs.get("ActiveState") in RUNNING,
        "enabled": pairs.get("UnitFileState", ""),
    }


def observe_packages(node: Node, names: list[str]) -> dict[str, str]:
    """Say of each package whether it is installed, in one call to the system's own database."""
    if not names:
        return {}
    if is_dpkg(node):
        form = "--showformat=${Package} ${db:Status-Status}\\n"
        _, out, _ = node.run(["dpkg-query", "--show", form, "--", *names])
    else:
        _, out, _ = node.run(
            ["rpm", "--query", "--queryformat", "%{NAME} installed\\n", "--", *names]
        )
    return parse_packages(out, names)


def parse_packages(out: str, names: list[str]) -> dict[str, str]:
    """Keep the lines that are an answer; ``package x is not installed`` is none."""
    found = dict.fromkeys(names, "absent")
    for line in out.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in found and words[1] in ("installed", "config-files"):  # noqa: PLR2004 (a name and a state)
            found[words[0]] = words[1]
    return found


def is_dpkg(node: Node) -> bool:
    """Say whether dpkg keeps the packages here; EPEL brings it as a tool with an empty database."""
    status = node.at("/var/lib/dpkg/status")
    return os.path.isfile(status) and os.path.getsize(status) > 0


def all_packages(node: Node) -> list[str]:
    """Name every package that dpkg has installed."""
    _, out, _ = node.run(["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n"])
    return [line.split()[0] for line in out.splitlines() if line.endswith(" installed")]


def not_needed(node: Node) -> set[str]:
    """Name what apt brought along for others and nobody needs any more; a simulation, needs no lock.

    A package that is only suggested by another one is not needed (apt keeps it by default, apt.conf(5)).
    """
    weak = ["-o", "APT::AutoRemove::SuggestsImportant=false"]
    _, out, _ = node.run(["apt-get", "--simulate", "--quiet", *weak, "autoremove"])
    return set(re.findall(r"^(?:Remv|Purg) ([^ :]+)", out, re.MULTILINE))


def observe_interfaces(node: Node, names: list[str]) -> dict[str, Entry]:
    """Describe interfaces in one call; leases and link-local addresses come by themselves."""
    if not names:
        return {}
    _, out, _ = node.run(["ip", "-j", "addr", "show"])
    found = {one["ifname"]: one for one in json.loads(out or "[]") if one.get("ifname") in names}
    return {name: parse_interface(found.get(name, {})) for name in names}


def parse_interface(one: Entry) -> Entry:
    """Read one entry of ``ip -j addr show``."""
    lasting = [
        info
        for info in one.get("addr_info", [])
        if info.get("scope") == "global" and not info.get("dynamic")
    ]
    addresses = ["{}/{}".format(info["local"], info["prefixlen"]) for info in lasting]
    return {"addresses": addresses, "mtu": one.get("mtu", 0)}


def unit_steps(then: dict[str, Entry], now: dict[str, Entry]) -> dict[str, list[str]]:
    """List, by verb of systemctl, the units that need it."""
    steps: dict[str, list[str]] = {}

    def add(verb: str, unit: str) -> None:
        steps.setdefault(verb, []).append(unit)

    for unit in sorted(then):
        if not now[unit]["found"]:
            continue
        was, state = str(then[unit]["enabled"]), str(now[unit]["enabled"])
        wanted = was if then[unit]["found"] else "disabled"
        if now[unit]["active"] and not then[unit]["active"]:
            add("stop", unit)
        if state.startswith("masked") and not wanted.startswith("masked"):
            add("unmask", unit)
        if wanted == "masked" and state != "masked":
            add("mask", unit)
        if wanted == "disabled" and state in ("enabled", "enabled-runtime"):
            add("disable", unit)
        if wanted == "enabled" and state != "enabled":
            add("enable", unit)
        if then[unit]["active"] and not now[unit]["active"]:
            add("start", unit)
    return steps


# --- the point --------------------------------------------------------------------------------


def empty_state() -> State:
    """Return a point that knows nothing."""
    return {kind: {} for kind in KINDS}


class Point:
    """One role's remembered state on disk."""

    def __init__(self, node: Node, role: str) -> None:
        if not re.match(r"^[a-z][a-z0-9_]*$", role):
            raise UndoError(f"[UN-102] {role!r} is not a role name. Write it like kernel_tuning.")
        self.node = node
        self.role = role
        self.directory = node.at(STORE + "/" + role)
        self.path = self.directory + "/point.json"

    def exists(self) -> bool:
        """Say whether this role has anything remembered."""
        return os.path.lexists(self.path)

    def load(self) -> State:
        """Read the point; a broken one is never guessed at."""
        if not self.exists():
            return empty_state()
        try:
            data = json.loads(read_bytes(self.path).decode())
            if data["schema"] != SCHEMA or data["role"] != self.role:
                raise ValueError(f"schema {data['schema']!r}, role {data['role']!r}")
            return {kind: dict(data[kind]) for kind in KINDS}
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise self.broken(f"{exc.__class__.__name__}: {exc}") from exc

    def broken(self, why: str) -> UndoError:
        """Word the one error that needs a person."""
        return UndoError(
            f"[UN-101] the undo point of {self.role} cannot be read: {STORE}/{self.role}: {why}. "
            f"Put the files back by hand from {STORE}/{self.role}/blobs (or your backup), "
            "then remove that directory."
        )

    def blob(self, then: Entry) -> bytes:
        """Return a saved file's bytes, proved by their checksum."""
        if then["kind"] != "file":
            return b""
        try:
            content = read_bytes(f"{self.directory}/blobs/{then['sha256']}")
        except OSError as exc:
            raise self.broken(str(exc)) from exc
        if hashlib.sha256(content).hexdigest() != then["sha256"]:
            raise self.broken(f"blob {then['sha256']} was changed")
        return content

    def save(self, state: State, fresh: list[str]) -> None:
        """Write blobs first, the point last: it never names a blob that is not there."""
        blobs = self.directory + "/blobs"
        if not os.path.isdir(blobs):
            os.makedirs(blobs, 0o700)
        for path in (self.node.at(STORE), self.directory, blobs):
            os.chmod(path, 0o700)
        private: Entry = {"uid": os.getuid(), "gid": os.getgid(), "mode": 0o600}
        for path in fresh:
            then = state["files"][path]
            if then["kind"] == "file":
                put_like(f"{blobs}/{then['sha256']}", read_bytes(self.node.at(path)), private)
        document = dict(state, schema=SCHEMA, role=self.role)
        text = json.dumps(document, indent=1, sort_keys=True) + "\n"
        put_like(self.path, text.encode(), private)

    def save_packages(self) -> None:
        """Keep, once, which packages there were: only apt leaves behind what it brought along."""
        if is_dpkg(self.node) and not os.path.lexists(self.directory + "/installed.json"):
            private: Entry = {"uid": os.getuid(), "gid": os.getgid(), "mode": 0o600}
            text = json.dumps(all_packages(self.node))
            put_like(self.directory + "/installed.json", text.encode(), private)

    def brought_along(self) -> list[str]:
        """Name the packages that came since and that nobody needs now that ours are gone."""
        try:
            before = set(json.loads(read_bytes(self.directory + "/installed.json").decode()))
        except OSError:
            return []
        except ValueError as exc:
            raise self.broken(f"installed.json: {exc}") from exc
        return sorted(not_needed(self.node) - before)

    def note(self, step: Step, state: State) -> None:
        """Keep what the role finds when it begins, or has written when it ends."""
        path = written.record_path(self.node.root, self.role)
        now = {one: written.content(observe_file(self.node, one)) for one in state["files"]}
        before = written.load(path)
        after = step(before, now)
        if after != before and now:
            private: Entry = {"uid": os.getuid(), "gid": os.getgid(), "mode": 0o600}
            put_like(path, (json.dumps(after, indent=1, sort_keys=True) + "\n").encode(), private)

    def forget(self) -> None:
        """Drop the point; the store goes with its last one, and what an undo had put aside for them."""
        shutil.rmtree(self.directory)
        try:
            os.rmdir(self.node.at(STORE))
        except OSError:
            return
        if os.path.lexists(self.node.at(written.MANIFESTS[0])):
            os.unlink(self.node.at(written.MANIFESTS[0]))


def observe(node: Node, names: dict[str, list[str]]) -> State:
    """Describe everything that is named, as it is now."""
    return {
        "files": {path: observe_file(node, path) for path in names["files"]},
        "directories": {path: os.path.lexists(node.at(path)) for path in names["directories"]},
        "sysctls": {key: observe_sysctl(node, key) for key in names["sysctls"]},
        "services": observe_units(node, names["services"]),
        "packages": observe_packages(node, names["packages"]),
        "interfaces": observe_interfaces(node, names["interfaces"]),
    }


def remember(node: Node, role: str, wanted: dict[str, list[str]], check: bool) -> Entry:
    """Save what is wanted and not remembered yet."""
    point = Point(node, role)
    state = point.load()
    paths = [clean_path(path) for path in wanted["files"]]
    parents = [parent for path in paths for parent in missing_parents(node, path)]
    directories = [clean_path(path) for path in wanted["directories"]] + parents
    for path in wanted["directories"]:
        directories += missing_parents(node, path)
    full = dict(wanted, directories=directories)
    new = {kind: sorted(set(full[kind]) - set(state[kind])) for kind in KINDS}
    saved = [f"{kind}:{name}" for kind in KINDS for name in new[kind]]
    if saved:
        seen = observe(node, new)
        for kind in KINDS:
            state[kind].update(seen[kind])
        if not check:
            point.save(state, new["files"])
            if new["packages"]:
                point.save_packages()
    if point.exists() and not check:
        point.note(written.begun, state)
    lines = "".join(line + "\n" for line in saved)
    header = "undo point of " + role
    return {
        "changed": bool(saved),
        "saved": saved,
        "exists": point.exists(),
        "diff": {"before": "", "after": lines, "before_header": header, "after_header": header},
    }


def note_written(node: Node, role: str, check: bool) -> Entry:
    """Tell what the role wrote from what others did before it began; that is bookkeeping, no change."""
    point = Point(node, role)
    if point.exists() and not check:
        point.note(written.ended, point.load())
    return {"changed": False, "exists": point.exists()}


def show(entry: Entry, content: bytes) -> str:
    """Print a file for a diff, without handing secrets to the log."""
    if entry["kind"] == "absent":
        return ""
    if entry["kind"] == "link":
        return f"link to {entry['target']}\n"
    head = f"mode {entry['mode']:04o} owner {entry['uid']}:{entry['gid']}\n"
    if not entry["mode"] & stat.S_IROTH or b"\0" in content:
        return head + f"{len(content)} bytes, sha256 {entry['sha256']}\n"
    return head + content.decode("utf-8", "replace")


class Restoration:
    """Puts one point back, in the order that systemd needs: stop, files, reload, start."""

    def __init__(
        self,
        node: Node,
        role: str,
        check: bool,
        restart: list[str],
        leave: Sequence[str] = (),
    ) -> None:
        self.node = node
        self.point = Point(node, role)
        self.check = check
        self.restart = restart
        self.leave = leave
        self.kept: list[dict[str, str]] = []
        self.done: list[str] = []
        self.faults: list[str] = []
        self.diff: list[dict[str, str]] = []

    def run(self) -> Entry:
        """Do it, and say what differed."""
        then = self.point.load()
        now = observe(self.node, {kind: sorted(then[kind]) for kind in KINDS})
        contents = {path: self.point.blob(entry) for path, entry in then["files"].items()}
        changed = self.differing(then, now)
        self.keep(then, now)
        steps = unit_steps(then["services"], now["services"])
        self.units("stop", steps)
        self.units("disable", steps)
        for path in changed:
            self.file(path, then["files"][path], now["files"][path], contents[path])
        self.directories(
            then["directories"], {path for path in changed if self.removes(then, path)}
        )
        self.sysctls(then["sysctls"], now["sysctls"])
        if any(path.startswith(UNIT_DIRECTORIES) for path in changed):
            self.systemctl("daemon-reload", [])
            # A unit whose file came back exists only now.
            now["services"] = observe_units(self.node, sorted(then["services"]))
            steps = unit_steps(then["services"], now["services"])
        for verb in ("unmask", "enable", "mask", "start"):
            self.units(verb, steps)
        if changed:
            self.units("restart", {"restart": self.stale(then, now)})
        return self.result(then, now)

    def only_keep(self) -> Entry:
        """Keep what somebody has changed, for a role that puts its files back by itself."""
        then = self.point.load()
        self.keep(then, observe(self.node, dict(NOTHING, files=sorted(then["files"]))))
        self.refuse_faults()
        return {"changed": bool(self.kept), "exists": self.point.exists(), "kept": self.kept}

    def differing(self, then: State, now: State) -> list[str]:
        """The files that are not as they were, without those that the role has given back."""
        paths = [path for path in sorted(then["files"]) if path not in self.leave]
        return [path for path in paths if then["files"][path] != now["files"][path]]

    def keep(self, then: State, now: State) -> None:
        """Keep each file that is another one than the role wrote, before the one of before takes its place."""
        ours = written.known(self.node.root, self.point.role)
        for path in self.differing(then, now):
            was, stands = then["files"][path], now["files"][path]
            if stands["kind"] == "absent" or written.content(stands) == written.content(was):
                continue
            # Of a file that nobody saw us write, and that was not there before, we are the author.
            last = ours.get(path, written.content(stands) if was["kind"] == "absent" else "")
            if written.content(stands) != last:
                self.set_aside(path, stands)

    def set_aside(self, path: str, stands: Entry) -> None:
        """Copy a file beside itself, under a name that its readers leave out."""
        name = self.free_name(path, stands)
        data = read_bytes(self.node.at(path)) if stands["kind"] == "file" else b""
        try:
            if not self.check and not os.path.lexists(self.node.at(name)):
                put_back_file(self.node, name, stands, data)
        except OSError as exc:
            raise UndoError(
                f"[UN-104] not everything of {self.point.role} could be put back: {path} was changed by somebody, and "
                f"that version could not be kept as {name}: {exc}. Nothing was put back. Make room, or move "
                "the file away, and run the undo again: the point is kept."
            ) from exc
        self.kept.append({"path": path, "kept": name})

    def free_name(self, path: str, stands: Entry) -> str:
        """A name that is free, or has the same version already, of an undo that did not end."""
        date, taken = time.strftime("%Y-%m-%d", time.gmtime()), 0
        name = str(written.kept_name(path, date))
        while os.path.lexists(self.node.at(name)):
            if written.content(observe_file(self.node, name)) == written.content(stands):
                return name
            taken += 1
            name = str(written.kept_name(path, date, taken))
        return name

    def removes(self, then: State, path: str) -> bool:
        """Say whether putting *path* back means that it goes."""
        return bool(then["files"][path]["kind"] == "absent")

    def stale(self, then: State, now: State) -> list[str]:
        """List the units that ran then and run now: they still have our files in memory."""
        both = (then["services"], now["services"])
        return [u for u in self.restart if all(side.get(u, {}).get("active") for side in both)]

    def file(self, path: str, then: Entry, now: Entry, content: bytes) -> None:
        """Put one path back and keep its diff."""
        present = read_bytes(self.node.at(path)) if now["kind"] == "file" else b""
        entry = {"before": show(now, present), "after": show(then, content)}
        self.diff.append(dict(entry, before_header=path, after_header=path))
        self.attempt("file:" + path, lambda: put_back_file(self.node, path, then, content))

    def directories(self, then: dict[str, bool], gone: set[str]) -> None:
        """Remove those we made, deepest first, as far as they are empty without what is *gone*."""
        for path in sorted(then, key=len, reverse=True):
            here = self.node.at(path)
            if then[path] or os.path.islink(here) or not os.path.isdir(here):
                continue
            # in check mode nothing has been kept there yet
            if any(os.path.dirname(one["kept"]) == path for one in self.kept):
                continue
            if all(path + "/" + name in gone for name in os.listdir(here)):
                gone.add(path)
                self.attempt("directory:" + path, functools.partial(os.rmdir, here))

    def sysctls(self, then: dict[str, str | None], now: dict[str, str | None]) -> None:
        """Write the values that differ; a key that left the kernel needs nothing."""
        for key in sorted(then):
            value = then[key]
            if value is None or now[key] is None or now[key] == value:
                continue
            self.diff.append(
                {
                    "before": f"{now[key]}\n",
                    "after": f"{value}\n",
                    "before_header": key,
                    "after_header": key,
                }
            )
            action = functools.partial(put_back_sysctl, self.node, key, value)
            self.attempt("sysctl:" + key, action)

    def units(self, verb: str, steps: dict[str, list[str]]) -> None:
        """Run one verb of systemctl over all units that need it."""
        units = steps.get(verb, [])
        if units:
            self.done += [f"service:{unit} {verb}" for unit in units]
            self.systemctl(verb, units)

    def systemctl(self, verb: str, units: list[str]) -> None:
        """Run it unless we only look; a failure is kept for the end."""
        if self.check:
            return
        rc, out, err = self.node.run(["systemctl", verb, *units])
        if rc != 0:
            self.faults.append(f"systemctl {verb} {' '.join(units)}: {(err or out).strip()}")

    def attempt(self, what: str, action: Action) -> None:
        """Go on after a failure: all faults named beats a stop at the first."""
        self.done.append(what)
        if self.check:
            return
        try:
            action()
        except OSError as exc:
            self.done.remove(what)
            self.faults.append(f"{what}: {exc}")

    def refuse_faults(self) -> None:
        """Raise the one error with every fault in it."""
        if self.faults:
            raise UndoError(
                f"[UN-104] not everything of {self.point.role} could be put back: "
                f"{'; '.join(self.faults)}. "
                "Mend what is named and run the undo again: the point is kept."
            )

    def result(self, then: State, now: State) -> Entry:
        """Assemble the answer."""
        self.refuse_faults()
        before, after = then["packages"], now["packages"]
        units = [
            u
            for u, entry in then["services"].items()
            if entry["found"] and not now["services"][u]["found"]
        ]
        return {
            "changed": bool(self.done),
            "restored": self.done,
            "kept": self.kept,
            "exists": self.point.exists(),
            "missing_units": sorted(units),
            "remove_packages": sorted(
                n for n in before if before[n] != "installed" and after[n] != before[n]
            ),
            "install_packages": sorted(
                n for n in before if before[n] == "installed" and after[n] != "installed"
            ),
            "interfaces": then["interfaces"],
            "diff": self.diff,
        }


def forget(node: Node, role: str, check: bool) -> Entry:
    """Drop a point if there is one, and purge what apt brought along with its packages."""
    point = Point(node, role)
    found = os.path.isdir(point.directory)
    swept = point.brought_along()
    if found and not check:
        if swept:
            purge(node, role, swept)
        point.forget()
    return {"changed": found, "exists": found and check, "swept": swept}


def purge(node: Node, role: str, names: list[str]) -> None:
    """Remove packages with their configuration; another apt is waited for."""
    wait = f"DPkg::Lock::Timeout={LOCK_SECONDS}"
    rc, out, err = node.run(["apt-get", "--quiet", "--yes", "-o", wait, "purge", *names])
    if rc != 0:
        raise UndoError(
            f"[UN-104] not everything of {role} could be put back: apt-get purge "
            f"{' '.join(names)}: {(err or out).strip()[-300:]}. "
            "Mend what is named and run the undo again: the point is kept."
        )
