"""Kill the transaction engine at every call that changes a file or starts a program, then check the node.

The model of a node has its /etc, a daemon that read it, systemd's units, and boots. Each process of
a change (the module, the guard's rollback, the boot-time unit) is a fork of this process. It ends
at its k-th call by ``_exit``, as SIGKILL would end it, or gets an error from the call. Data in the
page cache survives. `tests/unit/rollback` covers a power loss: it checks that every name is synced
before success is reported.

After each crash, the node has either all old files, or all new ones if the confirmation had begun.
The daemon has read the files that are there. A later edit by the user is never reverted. No file of
Fullmesh remains.

python tests/support/crash_points.py [--ends EVERY] [--pairs EVERY] [--errors]

prints one JSON object: the number of crashes, and each one that left a mixed node.
"""

from __future__ import annotations

import argparse
import builtins
import errno
import importlib.util
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ENGINE = Path(__file__).parents[2] / "module_utils/fullmesh/transaction/engine.py"
NAME, OTHER, TOKEN = "peer_firewall", "static_ip", "run"
ENDED = 99
CALLS = (
    *("rename", "replace", "unlink", "remove", "rmdir", "mkdir", "symlink", "link"),
    *("chmod", "chown", "utime", "setxattr", "fsync", "truncate"),
)
ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EPERM, errno.ENOMEM, errno.EDQUOT)
RENAME = os.rename  # the model uses the real one, the engine gets a wrapped one
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def load_engine() -> ModuleType:
    """Import the engine as a separate module, with its source text as on a node."""
    spec = importlib.util.spec_from_file_location("engine", ENGINE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Seam:
    """Wraps the calls of one process, and ends the process at one of them."""

    def __init__(self, at: int, error: int = 0) -> None:
        self.at, self.error, self.count = at, error, 0

    def point(self) -> None:
        """Count one call."""
        self.count += 1
        if self.count == self.at:
            if not self.error:
                os._exit(ENDED)
            raise OSError(self.error, os.strerror(self.error))

    def wrapped(self, real: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
        """Wrap a call, and count it if it changes something."""

        def call(*words: Any, **named: Any) -> Any:
            if counts(*words, **named):
                self.point()
            return real(*words, **named)

        return call

    def install(self, engine: ModuleType, world: World) -> None:
        """Install the wrappers between the engine and the system, in this process only."""
        for name in CALLS:
            setattr(os, name, self.wrapped(getattr(os, name), lambda *_, **__: True))

        def writes(_path: Any, flags: int = 0, *_: Any, **__: Any) -> bool:
            return bool(flags & WRITES)

        def for_writing(_path: Any, mode: str = "r", *_: Any, **__: Any) -> bool:
            return bool(set(mode) & set("wax+"))

        os.open = self.wrapped(os.open, writes)
        builtins.open = self.wrapped(io.open, for_writing)

        def call(command: Any, *_: Any, **__: Any) -> tuple[int, str]:
            try:
                self.point()
            except OSError as exc:
                return 127, str(exc)
            return world.call(command)

        engine.run_with_deadline = call


class World:
    """The model of one node."""

    def __init__(self, top: Path, engine: ModuleType) -> None:
        self.top, self.engine = top, engine
        self.etc, self.store, self.units = top / "etc", top / "store", top / "units"
        self.systemd = top / "systemd"
        for folder in (self.etc, self.units, self.systemd):
            folder.mkdir(parents=True)
        (self.etc / "changed").write_text("old\n")
        (self.etc / "owned").write_text("old\n")
        (self.etc / "owned").chmod(0o640)
        (self.etc / "gone").write_text("old\n")
        (self.etc / "link").symlink_to("changed")
        self.set("boot", "0")
        self.set("running", self.manifest())
        self.old = self.manifest()
        engine.STORE, engine.UNITS = str(self.store), str(self.units)
        engine.boot_mark = lambda: self.get("boot")
        self.later = 0.0
        engine.time = SimpleNamespace(
            monotonic=lambda: time.monotonic() + self.later,
            sleep=lambda _seconds: None,
            strftime=time.strftime,
            gmtime=time.gmtime,
        )

    # --- calls that are not wrapped
    # ---------------------------------------------------------------------

    def set(self, name: str, text: str) -> None:
        """Store a value of the model."""
        with io.open(self.systemd / name, "w") as stream:  # noqa: UP020 (builtins.open is wrapped)
            stream.write(text)

    def get(self, name: str) -> str:
        """Return a value of the model, or an empty string."""
        try:
            with io.open(self.systemd / name) as stream:  # noqa: UP020 (builtins.open is wrapped)
                return stream.read()
        except FileNotFoundError:
            return ""

    def forget(self, name: str) -> None:
        """Delete a value of the model."""
        if (self.systemd / name).exists():
            RENAME(self.systemd / name, self.systemd / "dropped")

    def manifest(self) -> str:
        """Return all of /etc in one text."""
        found = []
        for path in sorted(self.etc.rglob("*")):
            info = path.lstat()
            what = os.readlink(path) if path.is_symlink() else ""
            if path.is_file() and not path.is_symlink():
                with io.open(path) as stream:  # noqa: UP020 (builtins.open is wrapped)
                    what = stream.read()
            found.append(f"{path.relative_to(self.etc)} {info.st_mode:o} {what!r}")
        return "\n".join(found)

    def call(self, command: list[str] | str) -> tuple[int, str]:
        """Act as systemd and the daemon, as far as the engine uses them."""
        words = [command] if isinstance(command, str) else command
        if words == ["reload"]:
            self.set("running", self.manifest())
        elif words[:2] == ["systemctl", "stop"]:
            for one in words[2:]:
                self.forget(one)
        elif words[:1] == ["systemd-run"] and words[-1].endswith(" rehearse"):
            self.engine.rehearse(os.path.dirname(words[-1].split()[-3]))
        elif words[:1] == ["systemd-run"]:
            (unit,) = (word[len("--unit=") :] for word in words if word.startswith("--unit="))
            guard = words[-1].endswith(" guard")
            self.set(unit + ".service" if guard else unit, json.dumps(words))
        return 0, ""

    # --- the processes
    # ----------------------------------------------------------------------------------

    error_text = ""

    def run(self, command: list[str]) -> tuple[int, str]:
        """Run a command, as a module does for the engine."""
        return tuple(self.engine.run_with_deadline(command))  # type: ignore[return-value]

    def change(self) -> None:
        """Run a whole module, like the firewall's: arm, write, reload, confirm."""
        self.unconfirmed()
        self.set("confirming", "yes")
        self.engine.disarm(self.run, NAME, TOKEN)

    def unconfirmed(self) -> None:
        """Run a module up to the confirmation."""
        paths = [str(self.etc / one) for one in ("changed", "owned", "gone", "link", "new/file")]
        self.engine.arm(
            self.run, NAME, 30, paths, ["reload"], boot=self.at_boot_commands, token=TOKEN
        )
        self.set("armed", "yes")
        self.engine.write_file(paths[0], b"new\n", 0o644)
        self.engine.write_file(paths[1], b"new\n", 0o600)
        os.unlink(paths[2])
        os.unlink(paths[3])
        os.symlink("owned", paths[3])
        os.mkdir(str(self.etc / "new"))
        self.engine.write_file(paths[4], b"new\n", 0o644)
        self.engine.run_with_deadline("reload")
        self.engine.mark_change_applied(NAME)

    at_boot_commands: list[str] | None = None

    def guard(self) -> None:
        """Run a guard whose time is over. Do nothing if it was never started or was stopped."""
        if self.get("fullmesh-rollback-peer-firewall.service"):
            self.later += 60
            self.engine.main(["guard", str(self.store / NAME), "", "0", TOKEN])
            self.forget("fullmesh-rollback-peer-firewall.service")

    def boot(self) -> None:
        """Run the boot-time unit if it is enabled, then the unit that it started."""
        path, link = self.engine.boot_paths()
        if os.path.exists(path) and os.path.islink(link):
            self.engine.main(["boot", str(self.store)])

    def late(self) -> None:
        """Run the unit that the boot-time unit started."""
        if self.get("fullmesh-rollback-peer-firewall-late"):
            self.engine.main(["late", str(self.store / NAME)])
            self.forget("fullmesh-rollback-peer-firewall-late")

    def next_run(self, name: str = OTHER) -> None:
        """Run a later change, with its confirmation."""
        self.engine.arm(self.run, name, 30, [], [], token=TOKEN)
        self.engine.disarm(self.run, name, TOKEN)

    def process(self, work: Callable[[], None], at: int = 0, error: int = 0) -> int:
        """Run *work* in its own process. Return its number of calls, 0 if it was killed. Set ``error_text``."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            seam = Seam(at, error)
            error_text = ""
            try:
                seam.install(self.engine, self)
                work()
            except self.engine.RollbackError as exc:
                error_text = str(exc)
            except BaseException as exc:
                error_text = f"raised {exc!r}"
            os.write(writing, json.dumps([seam.count, error_text]).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            text = stream.read()
        _, status = os.waitpid(child, 0)
        self.error_text = ""
        if os.waitstatus_to_exitcode(status) == ENDED:
            return 0
        count, self.error_text = json.loads(text)
        return int(count)

    def reboot(self) -> None:
        """Lose everything in memory. Daemons read their files after the boot."""
        self.set("boot", self.get("boot") + "+")
        for path in self.systemd.iterdir():
            if path.name not in ("boot", "running", "confirming", "armed"):
                path.unlink()

    # --- checks
    # -----------------------------------------------------------------------------------------

    def faults(self, expect: str = "") -> Iterator[str]:
        """List the faults of a node after a change has ended."""
        now = self.manifest()
        new = now != self.old
        if new and not self.get("confirming"):
            yield "not as before"
        if new and self.get("confirming") and "'old" in now:
            yield "mixed"
        if expect and (expect == "new") is not new:
            yield f"not {expect}"
        if self.get("running") != now:
            yield "the daemon has read something else"

    def litter(self) -> Iterator[str]:
        """List files of Fullmesh that remain at the end."""
        yield from (f"units: {path.name}" for path in self.units.rglob("*"))
        kept = {"lock", "log", "engine.py", NAME, OTHER}
        if self.store.exists():
            names = sorted(os.listdir(self.store))
            yield from (f"store: {name}" for name in names if name not in kept)
            for name in (NAME, OTHER):
                state = self.engine.state_of(str(self.store / name))
                if state not in ("", "fired"):
                    yield f"{name} is {state}"
        yield from (str(one.name) for one in self.etc.rglob(".fullmesh-*"))


def edit_files(world: World) -> str:
    """Edit every file afterwards, as a user would."""
    for name in ("changed", "owned", "gone", "link", "new/file"):
        path = world.etc / name
        path.parent.mkdir(exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_text(f"{name} of the user\n")
    return world.manifest()


# When a boot applies the old files: at its end with the change's commands, or early with separate
# boot commands.
BOOTS = {"both": (False, True), "late": (False,), "early": (True,)}
# How a node recovers from a crash: its guard, a reboot, a reboot during the guard, or a later run
# with the same name after the guard. That run ends before it changes anything.
WAYS = ("guard", "boot", "guard, then boot", "guard, then a run")


def recover_node(world: World, way: str, second: int) -> int:
    """Let the node recover, with a second crash in the middle. Return the number of calls at which that can be."""
    if way == "guard, then a run":
        world.process(world.guard)
        return 0
    first = world.guard if way.startswith("guard") else world.boot
    if way == "boot":
        world.reboot()
    calls = world.process(first, second)
    if not calls and way == "guard":
        world.process(first)  # systemd restarts it (Restart=on-failure)
    if not calls and way != "guard":
        world.reboot()
        world.process(world.boot)
    if way != "guard":
        world.process(world.late)
        if way == "boot" or not calls:
            world.set("running", world.manifest())
    return calls


def try_crash(
    engine: ModuleType, first: int, way: str, second: int, boot: bool
) -> tuple[int, list[str]]:
    """Crash once or twice. Return the faults."""
    with tempfile.TemporaryDirectory(dir=find_memory_folder()) as top:
        world = World(Path(top), engine)
        world.at_boot_commands = [] if boot else None
        whole = world.process(world.change, first)
        found = [f"the change: {world.error_text}"] if world.error_text else []
        calls = recover_node(world, way, second)
        found += world.faults("new" if whole else "")
        edited = edit_files(world)
        world.later = 1000.0
        if way == "guard, then a run":
            calls = world.process(lambda: world.next_run(NAME), second)
            world.reboot()
            world.process(world.boot)
        world.process(world.next_run)
        found += [f"the next run: {world.error_text}"] if world.error_text else []
        world.reboot()
        world.process(world.boot)
        world.process(world.late)
        if world.manifest() != edited:
            found.append("the user's edits are gone")
        found += world.litter()
        return calls, found


def try_error_in_change(engine: ModuleType, first: int, error: int) -> tuple[int, list[str]]:
    """Return an error from one call of the change, then run its guard."""
    with tempfile.TemporaryDirectory(dir=find_memory_folder()) as top:
        world = World(Path(top), engine)
        count = world.process(world.change, first, error)
        error_text = world.error_text
        found = []
        if error_text.startswith("raised") and not world.get("armed"):
            found.append(f"arm {error_text}")
        world.process(world.guard)
        confirmed = not error_text
        now = world.manifest()
        if confirmed and now == world.old:
            found.append("confirmed and gone")
        if not confirmed and now != world.old:
            found.append(f"neither confirmed nor as before: {error_text}")
        return count, found


def try_error_in_rollback(engine: ModuleType, second: int, error: int) -> tuple[int, list[str]]:
    """Return an error from one call of the rollback of an applied change."""
    with tempfile.TemporaryDirectory(dir=find_memory_folder()) as top:
        world = World(Path(top), engine)
        world.process(world.unconfirmed)
        count = world.process(world.guard, second, error)
        if world.error_text:
            world.process(world.guard)  # as above: systemd restarts a program that fails
        found = [f"the rollback: {world.error_text}"] if world.error_text else []
        report = engine.report_of(NAME)
        if engine.state_of(str(world.store / NAME)) != "fired":
            found.append("it never ended")
        if world.manifest() != world.old and not report.get("faults"):
            found.append("not as before, and nobody says so")
        return count, found


def find_memory_folder() -> str | None:
    """Return a folder in memory, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 (a folder with a random name is made in it)


def try_crash_points(
    ends: int, pairs: int, boots: tuple[bool, ...]
) -> tuple[int, dict[str, list[str]]]:
    """Try every *ends*-th crash and, after each, every *pairs*-th second crash (0 for none).

    *boots*: whether the change has its own commands for a boot.
    """
    engine, tried = load_engine(), 0
    wrong: dict[str, list[str]] = {}
    for boot in boots:
        with tempfile.TemporaryDirectory(dir=find_memory_folder()) as top:
            whole = World(Path(top), engine)
            calls = whole.process(whole.change)
        assert calls > 100, f"{calls} calls: the seam sees nothing"
        for first in range(1, calls + 2, ends):
            for way in WAYS:
                steps, found = try_crash(engine, first, way, 0, boot)
                seconds = range(1 + first % pairs, steps + 1, pairs) if pairs else range(0)
                seen = [(0, found)]
                seen += [(one, try_crash(engine, first, way, one, boot)[1]) for one in seconds]
                tried += len(seen)
                for second, faults in seen:
                    if faults:
                        wrong[f"{first}/{calls} {way} {second}/{steps} boot={boot}"] = faults
    return tried, wrong


def try_errors(every: int) -> tuple[int, dict[str, list[str]]]:
    """Try every error at every *every*-th call of the change and of the rollback."""
    engine, tried = load_engine(), 0
    wrong: dict[str, list[str]] = {}
    for name, one in (("change", try_error_in_change), ("rollback", try_error_in_rollback)):
        calls, _ = one(engine, 0, errno.EIO)
        assert calls > 50, f"{calls} calls: the seam sees nothing"
        for error in ERRORS:
            for at in range(1, calls + 1, every):
                _, found = one(engine, at, error)
                tried += 1
                if found:
                    wrong[f"{name} {at}/{calls} {errno.errorcode[error]}"] = found
    return tried, wrong


def main() -> int:
    """Parse the arguments, run the trials, print the result."""
    parser = argparse.ArgumentParser(description="End the transaction engine everywhere.")
    parser.add_argument("--ends", type=int, default=1, metavar="EVERY", help="not each call")
    parser.add_argument("--pairs", type=int, default=0, metavar="EVERY", help="second ends as well")
    parser.add_argument("--errors", action="store_true", help="errors instead of ends")
    parser.add_argument("--boot", choices=BOOTS, default="both", help="one half of it")
    args = parser.parse_args()
    begun = time.monotonic()
    ends = try_crash_points(args.ends, args.pairs, BOOTS[args.boot]) if not args.errors else None
    tried, wrong = ends or try_errors(args.ends)
    seconds = round(time.monotonic() - begun, 1)
    json.dump({"tried": tried, "seconds": seconds, "wrong": wrong}, sys.stdout, indent=1)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
