"""Start the ranks of a test job on this node, detached, and end them.

No rank is trusted to end by itself: Gloo waits 5 times its timeout, and a TCPStore client may wait forever. A
supervisor ends the ranks at the deadline, when the controller asks for it because a rank elsewhere failed, or when the
run's lease is lost (lease.py). If the supervisor dies, the kernel ends the ranks.

If jobs run as the unit fullmesh-job@, so do the ranks (unit_ranks.py). Otherwise they give up root (unprivileged.py).
In both cases their output is not trusted: it must be plain files of limited size in a folder that they cannot write to.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import stat
import subprocess
import time
from typing import TYPE_CHECKING, NamedTuple

from ..detach import remove_run_directory, run_detached, run_directory
from ..foreign_text import parse_foreign_json
from ..lease import POLL_SECONDS, has_lease, is_lease_lost, is_unlocked
from ..schema.ranks import STATES, RankEvent
from ..survey.job_start_program import find_device_groups
from . import processors
from .unit_ranks import CODE as UNIT_CODE
from .unit_ranks import UnitRank, choose_unit_account, start_unit_rank
from .unprivileged import (
    NAME,
    RankRefusedError,
    clean_up_account,
    pick,
    raise_limits,
    refuse_unreadable,
    refuse_unusable_account,
)

if TYPE_CHECKING:
    import pwd
    from typing import Any

    from ..schema.ranks import CollectedRanks, LadderGlooParams, RankReport, RanksEnd

GRACE = 1.5  # between the first rank that failed and the end of the others: they may have their own error
PR_SET_PDEATHSIG = 1  # linux/prctl.h
STOP, SUPERVISED = "stop", "supervised"
SIGN_SECONDS = 1.0  # between two signs of life for the controller
KEEP = 180.0  # how long results wait for the controller
TAIL = 1500
LARGEST = 4 << 20  # bytes of a rank's events or output (a whole verification takes a few thousand)
TEXTS = ("text", "seen", "expected", "check")
LONGEST = 4000  # characters of a text
FIELDS = frozenset(RankEvent.__annotations__)


class RankTeam(NamedTuple):
    """The ranks of this node and their account.

    Attributes:
        want: the module's parameters.
        base: the folder with the directories of runs.
        account: the ranks' own, None if this process is not root.
        groups: needed for the devices.
        unit: the ranks start as the unit of jobs.
    """

    want: LadderGlooParams
    base: str
    account: pwd.struct_passwd | None = None
    groups: tuple[int, ...] = ()
    unit: bool = False

    def place(self, name: str) -> str:
        """Return the path of a file of this run."""
        return locate_run_file(self.want["run"], self.base, name)


def locate_run_file(run: str, base: str, name: str) -> str:
    """Return the path of a file of this run."""
    return os.path.join(run_directory(run, base), name)


def write_run_json(path: str, value: Any) -> None:
    """Write a file that readers see completely or not at all."""
    with open(path + ".new", "w") as stream:
        json.dump(value, stream)
    os.replace(path + ".new", path)


def build_process_environment(team: RankTeam, rank: int, local_rank: int) -> dict[str, str]:
    """Build the environment of one rank. Variables of torch and of root's session are not inherited."""
    prefixes = ("GLOO_", "NCCL_", "MASTER_", "TORCH", "TRITON_", "CUDA_CACHE_")
    session = ("SUDO_", "SSH_", "XDG_", "DBUS_", "ANSIBLE_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(prefixes + session)}
    env.update({str(k): str(v) for k, v in team.want["environment"].items()})
    env.update({"RANK": str(rank), "LOCAL_RANK": str(local_rank)})
    if team.account:
        home = team.place("home")
        env.update({"HOME": home, "TMPDIR": home, "USER": NAME, "LOGNAME": NAME})
    return env


def list_rank_program(team: RankTeam, rank: int) -> list[str]:
    """Return the program of a rank and its arguments."""
    return [team.place(name) for name in ("gloo_ladder.py", "settings.json", f"rank-{rank}.jsonl")]


def start_rank(team: RankTeam, rank: int, local_rank: int) -> subprocess.Popen[bytes] | UnitRank:
    """Start one rank with its output in a file. It never runs as root."""
    account = team.account
    if team.unit:
        with open(team.place(f"rank-{rank}.log"), "wb"):  # systemd's journal has the output
            program, scratch = list_rank_program(team, rank), team.place("home")
        want = team.want
        return start_unit_rank(
            want["run"], program, (rank, local_rank), want["environment"], scratch
        )
    who: Any = (
        {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": team.groups}
        if account
        else {}
    )
    libc, supervisor = ctypes.CDLL(None), os.getpid()

    def follow_supervisor() -> None:
        # after the change of the account, which would undo it (prctl(2))
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)

    with open(team.place(f"rank-{rank}.log"), "wb") as log:
        return subprocess.Popen(
            [team.want["python"], *list_rank_program(team, rank)],
            env=build_process_environment(team, rank, local_rank),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=follow_supervisor,  # noqa: PLW1509 (this process has no threads)
            **who,
        )


def is_output_too_large(team: RankTeam, rank: int) -> bool:
    """Return whether a rank's output is too large for /run, which is in memory."""
    names = (f"rank-{rank}.log", f"rank-{rank}.jsonl")
    return any(os.stat(team.place(name)).st_size > LARGEST for name in names)


def kill_rank(process: subprocess.Popen[bytes] | UnitRank) -> None:
    """Kill a rank."""
    with contextlib.suppress(OSError):
        process.send_signal(signal.SIGKILL)
    process.wait()


class RankSupervision:
    """The running ranks of this node, and how each ended.

    Attributes:
        failed: monotonic time of the first failure, or None.
        lost: whether the lease of the run was lost.
        refused: why the unit of jobs did not start a rank.
    """

    def __init__(self, team: RankTeam) -> None:
        self.team = team
        self.folder = run_directory(team.want["run"], team.base)
        self.leased = has_lease(self.folder)
        self.begun = self.polled = time.monotonic()
        self.ends = self.begun + team.want["deadline"]
        self.running: dict[int, subprocess.Popen[bytes] | UnitRank] = {}
        self.begins: dict[int, float] = {}
        self.codes: dict[str, int] = {}
        self.at: dict[str, float] = {}
        self.killed: list[int] = []
        self.stopped: list[int] = []
        self.failed: float | None = None
        self.lost = False
        self.refused = ""

    def start_all(self) -> None:
        """Start every rank."""
        for index, rank in enumerate(self.team.want["ranks"]):
            self.running[rank] = start_rank(self.team, rank, index)
            self.begins[rank] = time.monotonic()

    def note_ends(self) -> None:
        """Record the ranks that have ended by themselves."""
        for rank in [r for r, process in self.running.items() if process.poll() is not None]:
            process = self.running.pop(rank)
            code = int(process.returncode or 0)
            if isinstance(process, UnitRank):
                code = self.read_unit_end(rank, process)
            self.codes[str(rank)] = code
            self.at[str(rank)] = round(time.monotonic() - self.begins[rank], 3)
            if code and self.failed is None:
                self.failed = time.monotonic()

    def write_unit_log(self, rank: int, process: UnitRank) -> None:
        """Save the output of a rank that ran as a unit."""
        with open(self.team.place(f"rank-{rank}.log"), "w") as log:
            log.write(process.log)

    def read_unit_end(self, rank: int, process: UnitRank) -> int:
        """Save the output of a rank that ran as a unit, and return its exit status."""
        self.write_unit_log(rank, process)
        silent = not os.stat(self.team.place(f"rank-{rank}.jsonl")).st_size
        if silent:
            self.refused = self.refused or process.describe_silence()
        return process.returncode or int(silent)

    def kill_all(self, among: list[int]) -> None:
        """End every rank that is still running."""
        for rank, process in self.running.items():
            kill_rank(process)
            if isinstance(process, UnitRank):
                self.write_unit_log(rank, process)
            among.append(rank)
        self.running = {}

    def look(self) -> None:
        """Record ranks that have ended, and end the others if it is time."""
        self.note_ends()
        now = time.monotonic()
        if self.leased and now > self.polled + POLL_SECONDS:
            self.polled, self.lost = now, is_lease_lost(self.folder)
        over = self.failed is not None and now > self.failed + GRACE
        if self.lost or over or os.path.exists(self.team.place(STOP)):
            self.kill_all(self.stopped)
        elif now > self.ends or any(is_output_too_large(self.team, rank) for rank in self.running):
            self.kill_all(self.killed)


def supervise_ranks(team: RankTeam) -> RanksEnd | None:
    """Run the ranks until all have ended. None if the lease was lost, because no controller will ask."""
    raise_limits()
    before = processors.read_cpu_counters()
    ranks = RankSupervision(team)
    try:
        ranks.start_all()
        while ranks.running:
            time.sleep(0.05)
            ranks.look()
    finally:
        ranks.kill_all(ranks.stopped)
    if ranks.lost:
        return None
    now = time.monotonic()
    # The CPU time that other programs used can only be measured while the ranks run.
    steal, throttled = processors.measure_cpu_loss(before)
    ended: RanksEnd = {
        "codes": ranks.codes,
        "killed": ranks.killed,
        "stopped": ranks.stopped,
        "seconds": round(now - ranks.begun, 3),
        "at": ranks.at,
        "steal": steal,
        "throttled": throttled,
        "load": os.getloadavg()[0],
        "cpus": os.cpu_count() or 1,
    }
    if ranks.refused:
        ended["error"] = f"the unit fullmesh-job@ does not start it: {ranks.refused}"
        ended["code"], ended["fix"] = UNIT_CODE, "systemctl cat fullmesh-job@"
    if ranks.failed is not None:
        ended["failed_for"] = round(now - ranks.failed, 3)
    return ended


def grant_run_access(team: RankTeam) -> None:
    """Let the account read the run's folder, and write only its own events and temporary files."""
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
    os.chmod(folder, 0o750)  # noqa: S103 (the group is the ranks' own, or that of jobs)


def write_rank_program(team: RankTeam, shut: list[str]) -> None:
    """Write the files that the ranks run and read."""
    want = team.want
    mask = os.umask(0o022)  # the account reads the program as one of all
    try:
        for name, text in {**want["modules"], "gloo_ladder.py": want["script"]}.items():
            with open(team.place(os.path.basename(name)), "w") as stream:
                stream.write(text)
        more = {"shut": shut, "scratch": team.place("home")}
        write_run_json(team.place("settings.json"), {**want["settings"], **more})
    finally:
        os.umask(mask)
    grant_run_access(team)


def prepare_team(want: LadderGlooParams, base: str) -> RankTeam:
    """Choose the ranks' account and write their files.

    Raises:
        RankRefusedError: the ranks cannot start on this node. It has the cause and the fix.
        OSError, ValueError: the same, with the system's text.
    """
    unit_account = choose_unit_account(want["python"])
    account = unit_account or pick()
    groups, shut = find_device_groups() if account else ([], [])
    if account:
        refuse_unusable_account(account)
        refuse_unreadable(account, want["python"], run=True)
        refuse_unreadable(account, str(want["settings"].get("environment_file", "")))
    team = RankTeam(want, base, account, tuple(groups), bool(unit_account))
    write_rank_program(team, shut)
    return team


def describe_start_failure(exc: Exception) -> RanksEnd:
    """Describe why no rank of this node could start."""
    # at once, as no other rank has met one of these
    ended: RanksEnd = {"codes": {}, "killed": [], "seconds": 0.0, "failed_for": GRACE}
    ended["error"] = str(exc)
    if isinstance(exc, RankRefusedError):
        ended.update({"code": exc.code, "fix": exc.fix})
    return ended


def wait_for_collector(team: RankTeam) -> None:
    """Keep the results until they are collected, at most for KEEP seconds."""
    folder, ended = run_directory(team.want["run"], team.base), team.place("ended.json")
    leased, forget_at = has_lease(folder), time.monotonic() + KEEP
    while os.path.exists(ended):
        time.sleep(POLL_SECONDS)
        if time.monotonic() > forget_at or (leased and is_lease_lost(folder)):
            remove_run_directory(team.want["run"], team.base)


def start_ranks(want: LadderGlooParams, base: str) -> None:
    """Start a supervisor that runs the ranks. If they cannot run, the reason is recorded as a result."""
    team, failed = RankTeam(want, base), None
    try:
        team = prepare_team(want, base)
    except (OSError, ValueError) as exc:
        failed = describe_start_failure(exc)
    uid = team.account.pw_uid if team.account else os.geteuid()
    write_run_json(team.place("ranks.json"), {"ranks": want["ranks"], "uid": uid})
    lock = os.open(team.place(SUPERVISED), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def work() -> None:
        ended: RanksEnd | None
        try:
            ended = failed or supervise_ranks(team)
        except (OSError, subprocess.SubprocessError) as exc:
            ended = describe_start_failure(exc)
        if team.account and not team.unit:
            clean_up_account(team.account)
        if ended is None:
            remove_run_directory(want["run"], base)
            return
        write_run_json(team.place("ended.json"), ended)
        wait_for_collector(team)

    try:
        run_detached(work, [lock])
    finally:
        os.close(lock)


def read_run_json(path: str) -> Any:
    """Return the content of a JSON file, or None if it does not exist yet."""
    try:
        with open(path) as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def read_rank_output(path: str, owner: int) -> bytes | None:
    """Return a rank's output up to the size limit, or None unless it is a plain file of *owner*."""
    try:
        # O_NONBLOCK: opening a fifo must not block
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != owner or info.st_nlink != 1:
            return None
        return stream.read(LARGEST)


def is_rank_event(event: Any) -> bool:
    """Return whether this is a valid event of a rank. Ranks are not trusted."""
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


def read_event_lines(path: str, owner: int) -> list[RankEvent]:
    """Return the complete lines of a rank up to the first invalid event."""
    raw = read_rank_output(path, owner) or b""
    found: list[RankEvent] = []
    for line in raw.split(b"\n")[:-1]:
        try:
            event = parse_foreign_json(line)
        except ValueError:
            event = None
        if not is_rank_event(event):
            last = found[-1]["step"] if found else "import"
            text = "it wrote a line that is not an event: {}".format(
                line[:200].decode("utf-8", "replace")
            )
            return [*found, {"step": last, "state": "failed", "text": text, "data": {}}]
        found.append(event)
    if len(raw) == LARGEST:
        last = found[-1]["step"] if found else "import"
        text = f"it was ended because it wrote more than {LARGEST} bytes"
        found.append({"step": last, "state": "failed", "text": text, "data": {}})
    return found


def read_log_tail(path: str) -> str:
    """Return the end of a rank's log. The file is not the rank's own: it only has it as standard output."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            return stream.read(TAIL).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def stop_ranks(run: str, base: str) -> None:
    """Tell the supervisor to end the ranks. Does nothing without one."""
    with contextlib.suppress(OSError):
        os.close(os.open(locate_run_file(run, base, STOP), os.O_WRONLY | os.O_CREAT, 0o600))


def wait_for_ranks(run: str, base: str, seconds: float, attached: bool) -> None:
    """Wait until the ranks have ended, their supervisor is gone, or time is over.

    Args:
        run, base: of the run.
        seconds: how long to wait.
        attached: the controller listens (ask/boot.py): send signs of life, and stop when it asks.
    """
    begun = reported = time.monotonic()
    if attached:
        signal.signal(signal.SIGUSR1, lambda *_: stop_ranks(run, base))
    while not os.path.exists(locate_run_file(run, base, "ended.json")):
        now = time.monotonic()
        if now > begun + seconds or is_unlocked(locate_run_file(run, base, SUPERVISED)):
            return
        if attached and now > reported + SIGN_SECONDS:
            reported = now
            os.write(1, b"\n")
        time.sleep(0.1)


def collect_ranks(run: str, base: str, wait: float, attached: bool = False) -> CollectedRanks:
    """Return the events of every rank. ``done`` is false while some still run."""
    wait_for_ranks(run, base, wait, attached)
    ended: RanksEnd | None = read_run_json(locate_run_file(run, base, "ended.json"))
    started = read_run_json(locate_run_file(run, base, "ranks.json"))
    ranks = started["ranks"] if started else []
    owner = started["uid"] if started else -1
    said: dict[str, RankReport] = {
        str(rank): {
            "events": read_event_lines(locate_run_file(run, base, f"rank-{rank}.jsonl"), owner),
            "log": read_log_tail(locate_run_file(run, base, f"rank-{rank}.log")),
        }
        for rank in ranks
    }
    found: CollectedRanks = {
        "done": ended is not None or not started,
        "started": bool(started),
        "ended": ended if ended else {},
        "ranks": said,
        "doing": {rank: get_current_step(one) for rank, one in said.items()},
    }
    if ended and (ended["killed"] or "failed_for" in ended):
        found["broken"] = ended.get("failed_for", GRACE)
        found["why"] = describe_first_failure(ended, said)
    return found


def describe_first_failure(ended: RanksEnd, said: dict[str, RankReport]) -> str:
    """Describe the first failure of a rank on this node in one line."""
    if "error" in ended:
        return "rank {} did not start: {}".format(", ".join(said), ended["error"])
    failed = [rank for rank, code in ended["codes"].items() if code]
    first = min(failed, key=lambda rank: ended["at"][rank], default="")
    if not first:
        return "rank {} ran out of time".format(", ".join(map(str, ended["killed"])))
    events, log = said[first]["events"], said[first]["log"].splitlines()
    text = (events[-1].get("text", "") if events else "") or (log[-1] if log else "")
    step, code = get_current_step(said[first]), ended["codes"][first]
    return f"rank {first} ended in step {step}, exit status {code}: {text[:TAIL]}"


def get_current_step(rank: RankReport) -> str:
    """Return a rank's present step, for the progress line."""
    events = rank["events"]
    return str(events[-1]["step"]) if events else "start"
