"""An account without rights that tries, all the time, to get at what root does on the same node.

``python3 -Es adversary.py settings.json`` there (stdlib only), as that account, until it is ended. What it finds stands
in ``found.jsonl`` in its home, a line each; code that another account ran for it leaves a file named after that
account in ``won``.

It plants in advance: links, directories, fifos and files at every name that somebody could know before, modules and
programs wherever all may write. It watches those folders by inotify, tries to read, write, replace and link what
appears, and plants the names that a careless program takes next. It connects to every listener that appears, speaks
torch's store, sends pickles, and reads the command lines and environments of whoever lets it.

It also is what it is not: ranks and launchers of somebody else's job, and a node_exporter with a folder of its own, in
which it replaces what appears by links (adversary_ranks.py).
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
PERIOD = 2.0  # seconds between two looks at everything
FAST = 0.03  # between two looks at what inotify does not tell
SWAP = 0.0005  # between two looks into the folder of the node_exporter
PLANT_PERIOD = 3.0  # until a name is planted as something else
SIBLINGS = (".new", ".tmp", ".part", "~", ".bak", ".lock", ".old")
KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")
# Only of what runs: files of the system are full of such words.
SECRET = re.compile(rb"(?:token|secret|passw\w*|api_?key)['\"]?\s*[=:]\s*\S{6,}", re.IGNORECASE)


class Adversary:
    """What it knows, and what it has found."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.home: str = settings["home"]
        self.me = os.geteuid()
        self.words = [word.encode() for word in settings["words"]]
        self.lock = threading.Lock()
        self.seen: set[tuple[str, str]] = set()
        self.found = open(os.path.join(self.home, "found.jsonl"), "a")  # noqa: SIM115 (open as long as this runs)
        self.turn = 0
        self.watch = Watch()
        self.pretended: list[subprocess.Popen[bytes]] = []
        settings["spared"] = tuple(settings["spared"])

    def say(self, what: str, where: str, **more: Any) -> None:
        """Write down what succeeded, once."""
        with self.lock:
            if (what, where) in self.seen:
                return
            self.seen.add((what, where))
            self.found.write(json.dumps({"what": what, "where": where, **more}) + "\n")
            self.found.flush()

    def told(self, what: str, where: str, raw: bytes) -> None:
        """Look through something that could be read for what nobody may know."""
        held = [word.decode() for word in self.words if word in raw]
        match = KEY.search(raw) or (what != "file" and SECRET.search(raw))
        if match:
            held.append(match.group().decode("utf-8", "replace")[:80])
        if held:
            self.say("secret", where, by=what, words=held)

    # what lies in files

    def payload(self, name: str) -> str:
        """A Python text that leaves a mark of whoever runs it, unless that is this account."""
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
        """Modules and programs for whoever looks for them where all may write."""
        for folder in self.settings["open"]:
            for module in self.settings["modules"]:
                yield os.path.join(folder, module + ".py"), self.payload("module-" + module), 0o644
            for program in self.settings["programs"]:
                mark = f": >{self.settings['won']}/program-{program}-uid$(id -u)"
                text = f'#!/bin/sh\n[ "$(id -u)" = {self.me} ] || {mark}\nexit 1\n'
                yield os.path.join(folder, program), text, 0o755

    def set_traps(self) -> None:
        """Lay what is missing of them."""
        for path, text, mode in self.traps():
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                with os.fdopen(handle, "w") as stream:
                    stream.write(text)

    def ways(self) -> list[Callable[[str], None]]:
        """What a name can be planted as."""
        links = [partial(os.symlink, to) for to in self.settings["targets"]]
        return [*links, partial(os.mkdir, mode=0o777), os.mkfifo, touch]

    def plant(self, path: str, turn: int) -> None:
        """Take a name before its owner does."""
        ways = self.ways()
        with contextlib.suppress(OSError):
            ways[turn % len(ways)](path)

    def plant_names(self) -> None:
        """Every name that can be known before, each time as something else."""
        self.turn += 1
        for number, path in enumerate(self.settings["names"]):
            self.inside(path)
            self.drop(path)
            self.plant(path, self.turn + number)

    def drop(self, path: str) -> None:
        """Take away what is ours at a name."""
        with contextlib.suppress(OSError):
            info = os.lstat(path)
            if info.st_uid != self.me:
                return
            if stat.S_ISDIR(info.st_mode):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def inside(self, path: str) -> None:
        """Return whether somebody else has put something into a directory or a file of ours."""
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
        """All that can be tried with a path of somebody else's."""
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
        """Read what another has written."""
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as stream:
                raw = stream.read(LARGEST)
            self.say("may read", path, uid=info.st_uid, mode=oct(stat.S_IMODE(info.st_mode)))
            self.told("file", path, raw)

    def enter(self, folder: str) -> None:
        """Watch a directory, and meddle with all that is in it already."""
        self.watch.add(folder)
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if path not in self.watch.folders:
                    self.meddle(path)

    # the loops

    def follow(self) -> None:
        """Answer to what appears, as it appears."""
        while True:
            for path in self.watch.read():
                self.meddle(path)

    def look(self) -> None:
        """Go through all of it from time to time: directories that opened up since, names that are free again."""
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
        """Meddle with every path below a folder that nobody has looked at yet."""
        for where, folders, files in os.walk(folder):
            folders[:] = [one for one in folders if one not in ("site-packages", "__pycache__")]
            for path in (where, *(os.path.join(where, name) for name in files)):
                if ("walked", path) not in self.seen:
                    self.seen.add(("walked", path))
                    self.meddle(path)

    def processes(self) -> None:
        """Read the command line and the environment of every process, as soon as it is there."""
        known: set[str] = set()
        while True:
            present = {name for name in os.listdir("/proc") if name.isdigit()}
            for pid in present - known:
                for kind in ("cmdline", "environ"):
                    with contextlib.suppress(OSError), open(f"/proc/{pid}/{kind}", "rb") as stream:
                        if os.fstat(stream.fileno()).st_uid != self.me:
                            raw = stream.read(LARGEST)
                            shown = raw.replace(b"\0", b" ")[:200].decode("utf-8", "replace")
                            self.told(kind, f"{kind} of {shown}", raw)
            known = present
            time.sleep(FAST)

    def pretend(self) -> None:
        """Be ranks of a job, and a node_exporter, if that is wanted."""
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
        """Replace what is on its way into the folder of the node_exporter by links."""
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
        """Do all of it at the same time, until it is ended."""
        network = Network(self.settings, self.me, self.say, self.told)
        self.pretend()
        self.set_traps()
        self.plant_names()
        loops = (self.follow, self.processes, self.swap)
        for loop in (*loops, network.listeners, network.stores, network.squat):
            threading.Thread(target=kept_up, args=(loop, self.say), daemon=True).start()
        self.say("ready", socket.gethostname())
        self.look()


def kept_up(loop: Callable[[], None], say: Callable[..., None]) -> None:
    """A loop that stumbles goes on, and the test learns of it."""
    while True:
        try:
            loop()
        except Exception as error:  # whatever it meets on the node
            say("stumbled", f"{loop.__name__}: {type(error).__name__}: {error}")
            time.sleep(FAST)


def touch(path: str) -> None:
    """An empty file that all may write to."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    os.chmod(path, 0o666)  # noqa: S103 (that is the trap)


class Watch:
    """The kernel's word of what appears in directories."""

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
        """Wait for something; what appeared."""
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
