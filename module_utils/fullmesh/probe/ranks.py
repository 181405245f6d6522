"""Start the ranks of a test job on this node, detached, and end them at the deadline.

Gloo waits five times its timeout and a TCPStore client may wait for ever, so no rank is trusted to
end by itself: a supervisor without ties to the controller does it. The ranks give up root (unprivileged.py), so
what they hand over is read as a stranger's: plain files in a folder that they cannot write to, of a limited size.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from ..detach import detach, drop_run_directory, run_directory
from ..foreign_text import parse_foreign_json
from ..schema.ranks import STATES, Event
from . import processors
from .unprivileged import NAME, devices, pick, raise_limits, refuse, sweep

if TYPE_CHECKING:
    import pwd
    from typing import Any

    from ..schema.ranks import Collected, Ended, RankSaid, RanksWant

GRACE = 3.0  # between the first rank that died and the end of the others on this node
KEEP = 180.0  # how long results wait for the controller
TAIL = 1500
LARGEST = 4 << 20  # bytes of a rank's events or words; a whole climb takes some thousand
TEXTS = ("text", "seen", "expected", "check")
LONGEST = 4000  # characters of a text
FIELDS = frozenset(Event.__annotations__)


class Team(NamedTuple):
    """The ranks of this node, and as whom they run.

    Attributes:
        want: what the module was asked for.
        base: where directories of runs are.
        account: the ranks' own; None where there is no root to give up.
        groups: that the devices need.
    """

    want: RanksWant
    base: str
    account: pwd.struct_passwd | None = None
    groups: tuple[int, ...] = ()

    def place(self, name: str) -> str:
        """Name a file of this run."""
        return place(self.want["run"], self.base, name)


def place(run: str, base: str, name: str) -> str:
    """Name a file of this run."""
    return os.path.join(run_directory(run, base), name)


def write_json(path: str, value: Any) -> None:
    """Write a file that readers see whole or not at all."""
    with open(path + ".new", "w") as stream:
        json.dump(value, stream)
    os.replace(path + ".new", path)


def rank_environment(team: Team, rank: int, local_rank: int) -> dict[str, str]:
    """Build the environment of one rank; nothing of torch's, or of root's own session, is inherited from this shell."""
    prefixes = ("GLOO_", "NCCL_", "MASTER_", "TORCH", "TRITON_", "CUDA_CACHE_")
    session = ("SUDO_", "SSH_", "XDG_", "DBUS_", "ANSIBLE_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(prefixes + session)}
    env.update({str(k): str(v) for k, v in team.want["environment"].items()})
    env.update({"RANK": str(rank), "LOCAL_RANK": str(local_rank)})
    if team.account:
        home = team.place("home")
        env.update({"HOME": home, "TMPDIR": home, "USER": NAME, "LOGNAME": NAME})
    return env


def spawn(team: Team, rank: int, local_rank: int) -> subprocess.Popen[bytes]:
    """Start one rank, its output in a file; whatever the account, it is not root."""
    account = team.account
    who: Any = (
        {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": team.groups}
        if account
        else {}
    )
    with open(team.place(f"rank-{rank}.log"), "wb") as log:
        return subprocess.Popen(
            [
                team.want["python"],
                team.place("gloo_ladder.py"),
                team.place("settings.json"),
                team.place(f"rank-{rank}.jsonl"),
            ],
            env=rank_environment(team, rank, local_rank),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            **who,
        )


def too_much(team: Team, rank: int) -> bool:
    """Whether a rank fills the memory that /run is, instead of saying what it does."""
    names = (f"rank-{rank}.log", f"rank-{rank}.jsonl")
    return any(os.stat(team.place(name)).st_size > LARGEST for name in names)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a rank for good."""
    with contextlib.suppress(OSError):
        process.send_signal(signal.SIGKILL)
    process.wait()


def supervise(team: Team) -> Ended:
    """Run the ranks to their end or to the deadline."""
    raise_limits()
    before = processors.look()
    begun = time.monotonic()
    ends = begun + team.want["deadline"]
    running: dict[int, subprocess.Popen[bytes]] = {}
    begins: dict[int, float] = {}
    for index, rank in enumerate(team.want["ranks"]):
        running[rank], begins[rank] = spawn(team, rank, index), time.monotonic()
    codes: dict[str, int] = {}
    at: dict[str, float] = {}
    killed: list[int] = []
    while running:
        time.sleep(0.05)
        for rank in [r for r, process in running.items() if process.poll() is not None]:
            code = int(running.pop(rank).returncode)
            codes[str(rank)] = code
            at[str(rank)] = round(time.monotonic() - begins[rank], 3)
            if code:
                ends = min(ends, time.monotonic() + GRACE)
        if any(too_much(team, rank) for rank in running):
            ends = begun
        if time.monotonic() > ends:
            for rank, process in running.items():
                kill(process)
                killed.append(rank)
            running = {}
    # Whether a deadline ended because the processors were busy elsewhere is only to be seen while they are.
    steal, throttled = processors.kept_since(before)
    return {
        "codes": codes,
        "killed": killed,
        "seconds": round(time.monotonic() - begun, 3),
        "at": at,
        "steal": steal,
        "throttled": throttled,
        "load": os.getloadavg()[0],
        "cpus": os.cpu_count() or 1,
    }


def hand_over(team: Team) -> None:
    """Let the account read the run's folder and write its own events and temporary files, nothing else."""
    folder = run_directory(team.want["run"], team.base)
    uid, gid = (team.account.pw_uid, team.account.pw_gid) if team.account else (-1, -1)
    os.mkdir(team.place("home"), 0o700)
    os.chown(team.place("home"), uid, gid)
    for rank in team.want["ranks"]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        handle = os.open(team.place(f"rank-{rank}.jsonl"), flags, 0o600)
        try:
            os.fchown(handle, uid, gid)
        finally:
            os.close(handle)
    os.chown(folder, -1, gid)
    os.chmod(folder, 0o750)  # noqa: S103 (the group is the ranks' own, of this run)


def start_ranks(want: RanksWant, base: str) -> None:
    """Write what the ranks need and leave a supervisor behind.

    Raises:
        PermissionError: there is no account that could be the ranks', or it may not run the interpreter.
    """
    run, account = want["run"], pick()
    groups, shut = devices() if account else ([], [])
    if account:
        refuse(account, want["python"])
    team = Team(want, base, account, tuple(groups))
    mask = os.umask(0o022)  # the account reads the program as one of all
    try:
        for name, text in {**want["modules"], "gloo_ladder.py": want["script"]}.items():
            with open(team.place(os.path.basename(name)), "w") as stream:
                stream.write(text)
        write_json(team.place("settings.json"), {**want["settings"], "shut": shut})
    finally:
        os.umask(mask)
    held = {"ranks": want["ranks"], "uid": account.pw_uid if account else os.geteuid()}
    write_json(team.place("ranks.json"), held)
    hand_over(team)

    def work() -> None:
        try:
            ended = supervise(team)
        except OSError as exc:
            ended = {"codes": {}, "killed": [], "seconds": 0.0, "error": str(exc)}
        if account:
            sweep(account)
        write_json(team.place("ended.json"), ended)
        forget_at = time.monotonic() + KEEP
        while os.path.isdir(run_directory(run, base)) and time.monotonic() < forget_at:
            time.sleep(1.0)
        drop_run_directory(run, base)

    detach(work)


def read_json(path: str) -> Any:
    """Return what a file holds, None while it is not there."""
    try:
        with open(path) as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def read_foreign(path: str, owner: int) -> bytes | None:
    """What a rank has written; None where it is no plain file of *owner*'s. At most what a rank may write."""
    try:
        # O_NONBLOCK: a fifo must not hold us
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != owner or info.st_nlink != 1:
            return None
        return stream.read(LARGEST)


def is_event(event: Any) -> bool:
    """Whether this is what a rank says of a step, and nothing that would surprise whoever judges it."""
    if not isinstance(event, dict) or not isinstance(event.get("step"), str):
        return False
    fine = [event.get("state") in STATES, isinstance(event.get("data", {}), dict)]
    fine.append(event.keys() <= FIELDS)
    fine += [isinstance(event.get(name, 0), (int, float)) for name in ("seconds", "at")]
    fine += [
        isinstance(event.get(name, ""), str) and len(event.get(name, "")) <= LONGEST
        for name in TEXTS
    ]
    ranks = event.get("ranks", [])
    fine.append(isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks))
    return all(fine)


def read_events(path: str, owner: int) -> list[Event]:
    """Return the complete lines that a rank has written so far, up to the first that is no event."""
    raw = read_foreign(path, owner) or b""
    found: list[Event] = []
    for line in raw.split(b"\n")[:-1]:
        try:
            event = parse_foreign_json(line)
        except ValueError:
            event = None
        if not is_event(event):
            last = found[-1]["step"] if found else "import"
            text = "it wrote a line that is no event: {}".format(
                line[:200].decode("utf-8", "replace")
            )
            return [*found, {"step": last, "state": "failed", "text": text, "data": {}}]
        found.append(event)
    if len(raw) == LARGEST:
        last = found[-1]["step"] if found else "import"
        text = f"it was ended because it wrote more than {LARGEST} bytes"
        found.append({"step": last, "state": "failed", "text": text, "data": {}})
    return found


def read_tail(path: str) -> str:
    """Return the last words of a rank; the file is ours, a rank only ever had it as its output."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            return stream.read(TAIL).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def collect_ranks(run: str, base: str, wait: float) -> Collected:
    """Return what every rank has said; done is false while some are still at it."""
    ended_path = place(run, base, "ended.json")
    until = time.monotonic() + wait
    while not os.path.exists(ended_path) and time.monotonic() < until:
        time.sleep(0.1)
    ended: Ended | None = read_json(ended_path)
    started = read_json(place(run, base, "ranks.json"))
    ranks = started["ranks"] if started else []
    owner = started["uid"] if started else -1
    said: dict[str, RankSaid] = {
        str(rank): {
            "events": read_events(place(run, base, f"rank-{rank}.jsonl"), owner),
            "log": read_tail(place(run, base, f"rank-{rank}.log")),
        }
        for rank in ranks
    }
    return {
        "done": ended is not None or not started,
        "started": bool(started),
        "ended": ended if ended else {},
        "ranks": said,
        "doing": {rank: current_step(one) for rank, one in said.items()},
    }


def current_step(rank: RankSaid) -> str:
    """Say what a rank is doing, for the line that is shown while we wait."""
    events = rank["events"]
    return str(events[-1]["step"]) if events else "start"
