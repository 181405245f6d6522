"""Start a job, and report missing ranks with the cause if it does not connect in time.

Runs on nodes.

    fullmesh-watch [--within SECONDS] [--kill-after SECONDS] [--stalled SECONDS] [--on-hang report|dump|stop]
                   [--plan FILE] [--name NODE] -- COMMAND

Signals and the exit code pass through. There is no output for a healthy job.

This file is long because it has the one loop over all parts of the watch, which are in their own files.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import fullmesh_hang as hang
import fullmesh_watch_judge as watch_judge
import fullmesh_watch_look as watch_look
import fullmesh_watch_services as watch_services
import fullmesh_watch_stall as watch_stall

if TYPE_CHECKING:
    from fullmesh.observed.hang import NodeHang, Rank
    from fullmesh.observed.watch import (
        EventKind,
        JobEndpoint,
        JobProblem,
        JobSnapshot,
        PartialParticipants,
        WatchEvent,
        WatchEventFields,
    )

PLAN = "/etc/fullmesh/nodes.json"
SERVICES = "services.json"  # in the same folder
WITHIN = 60.0
STALLED = 60.0  # seconds that connected ranks may hang (0: do not check)
PATIENT = 5  # times as long, for a rank that nothing keeps from its store
PAUSES = 10.0  # seconds between two tries of a service's client (fullmesh-ray 0.5, gRPC with its backoff some)
QUICK, SLOW = 1.0, 10.0  # seconds between two looks: while ranks gather, and later
LAST_WORDS = 10.0  # seconds for unfinished checks after the job has ended
GRACE = 10.0  # seconds from SIGTERM to SIGKILL
USAGE, PROBLEM = 2, 1
CANNOT_START, NOT_FOUND = 126, 127  # a shell's own codes
PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
ACTIONS = ("report", "dump", "stop", "restart")  # on a hang. Only the controller can restart a job
MARK = "\x1efullmesh-watch "  # before an event for the controller
MOST_PACKED = 1_000_000  # characters of an event that the controller takes


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="fullmesh-watch", description=__doc__)
    parser.add_argument("--within", type=float, default=WITHIN, metavar="SECONDS")
    parser.add_argument("--kill-after", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--stalled", type=float, default=STALLED, metavar="SECONDS")
    parser.add_argument("--on-hang", choices=ACTIONS, default="report")
    parser.add_argument("--dump-to", default="", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--plan", default=PLAN, metavar="FILE")
    parser.add_argument("--name", default="")
    parser.add_argument("--json", action="store_true", help="events for the controller")
    parser.add_argument("--leash", action="store_true", help="end the job when stdin ends")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    if args.command[:1] == ["--"]:
        args.command = args.command[1:]
    return args


def find_usage_error(args: argparse.Namespace) -> str:
    """Return what is wrong with a call, or ""."""
    if not args.command:
        return "[WA-105] No command was given"
    if args.within <= 0 or args.kill_after < 0 or args.stalled < 0:
        return (
            f"[WA-105] --within {args.within}, --kill-after {args.kill_after} and --stalled {args.stalled} "
            "are not waiting times"
        )
    if args.on_hang == "restart":
        return "[WA-112] --on-hang restart needs all nodes: run ./fullmesh watch -i INVENTORY on the controller"
    if args.on_hang != "report" and not args.stalled:
        return f"[WA-105] --on-hang {args.on_hang} needs --stalled above 0"
    return ""


def load_plan(path: str) -> PartialParticipants:
    """Read the participants. Without a plan they have no names and are only counted."""
    try:
        if path.startswith("{"):  # from the controller, which writes no file here
            plan: PartialParticipants = json.loads(path)
            return add_known_ranks(plan, load_plan(PLAN))
        with open(path) as stream:
            plan = json.loads(stream.read())
    except (OSError, ValueError):
        return {}
    if not isinstance(plan, dict):
        return {}
    services_file = os.path.join(os.path.dirname(path), SERVICES)
    # a node of an older run has none
    with contextlib.suppress(OSError, ValueError), open(services_file) as stream:
        plan["services"] = json.loads(stream.read())
    return plan


def add_known_ranks(plan: PartialParticipants, kept: PartialParticipants) -> PartialParticipants:
    """Use this node's configured ranks if the inventory leaves them to auto."""
    known = {node["name"]: node for node in kept.get("nodes", [])}
    for node in plan.get("nodes", []):
        if node.pop("auto", False) and node["name"] in known:
            node["first_rank"] = known[node["name"]]["first_rank"]
            node["local_ranks"] = known[node["name"]]["local_ranks"]
    return plan


def find_own_name(plan: PartialParticipants, given: str) -> str:
    """Return this node's name in the plan."""
    address, host = os.environ.get("FULLMESH_ADDRESS", ""), os.uname()[1]
    # a user who starts the watch directly may not have read /etc/fullmesh/env
    known = (node["address"] for node in watch_judge.list_planned_nodes(plan))
    address = address or next(filter(watch_look.is_own_address, known), "")
    return str(given or watch_judge.find_node_name(plan, address) or host)


class JobWatch:
    """A job and its observed state."""

    def __init__(self, args: argparse.Namespace, plan: PartialParticipants) -> None:
        """Save the settings. Nothing is started yet."""
        self.args = args
        self.plan = plan
        self.me = find_own_name(plan, args.name)
        self.names = watch_look.NameResolver()
        self.started = time.monotonic()
        self.first_seen: dict[str, float] = {}
        self.reported: dict[str, float] = {}
        self.later: dict[str, float] = {}  # not to be asked again before
        self.once: dict[int, dict[str, int]] = {}  # port -> node -> most connections
        self.reached: set[tuple[int | None, int]] = set()  # rank and port
        self.unanswered: dict[str, tuple[float, JobProblem]] = {}
        self.linked = (
            False  # data went between nodes, so a rank that leaves from now on has done its work
        )
        self.together: float | None = None
        self.telling: list[threading.Thread] = []
        self.ended_by_us = 0.0
        self.killed = False
        self.hung = False  # the job hangs, and is to be ended
        self.follower: watch_stall.RankFollower | None = None

    def age(self) -> float:
        """Return the seconds since the job was started."""
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        """Print a line among the job's own output."""
        if not self.args.json:
            sys.stderr.write(f"fullmesh-watch: after {self.age():.0f} s: {text}\n")
            sys.stderr.flush()

    def event(self, kind: EventKind, more: WatchEventFields | None = None) -> None:
        """Send an event to the controller."""
        if self.args.json:
            after = round(self.age(), 1)
            data: WatchEvent = {**(more or {}), "event": kind, "node": self.me, "after": after}
            data["sent_ns"] = time.time_ns()
            sys.stderr.write(MARK + json.dumps(data) + "\n")
            sys.stderr.flush()

    def problems(self, picture: JobSnapshot) -> list[JobProblem]:
        """Return all present problems that separate the ranks."""
        found: list[JobProblem] = []
        known = set()
        for where in watch_judge.find_endpoints(picture):
            most = self.most_of(picture, where)
            found += watch_judge.find_absent_ranks(self.plan, where, most, self.me)
            found += self.unreached(picture, where)
            known |= {(a, where["port"]) for a in self.names.addresses(where["host"]) or []}
            if not self.linked:
                found += watch_judge.find_departed_nodes(self.plan, picture, where, self.me, most)
            if where["kind"] == "service":
                found += watch_services.find_taken_ports(
                    self.plan, picture, where, self.own(where), self.me
                )
        self.linked = self.linked or watch_judge.has_peer_connection(
            self.plan, picture, self.me, set(self.once), known
        )
        found += watch_services.find_loopback_services(self.plan, picture, self.me)
        return found + self.kept(
            picture, watch_judge.find_blocked_connections(self.plan, picture, self.me, known)
        )

    def kept(self, picture: JobSnapshot, blocked: list[JobProblem]) -> list[JobProblem]:
        """Return current and recent targets without an answer, because a service's client pauses between its tries."""
        now, found = self.age(), {problem["key"]: problem for problem in blocked}
        for key, problem in found.items():
            if problem["code"] == watch_judge.SHUT:
                self.unanswered[key] = (now, problem)
        for key, (seen, problem) in list(self.unanswered.items()):
            if now - seen > PAUSES or watch_services.is_now_connected(picture, problem):
                del self.unanswered[key]
            else:
                found.setdefault(key, problem)
        return list(found.values())

    def own(self, where: JobEndpoint) -> list[str]:
        """Return an endpoint's addresses if they are this node's."""
        found = self.names.addresses(where["host"]) or []
        return [one for one in found if watch_judge.find_node_name(self.plan, one) == self.me]

    def most_of(self, picture: JobSnapshot, where: JobEndpoint) -> dict[str, int] | None:
        """Return the highest number of connections that each node has had to this endpoint."""
        if not watch_judge.is_hosted_here(picture, where["port"]):
            return None
        most = self.once.setdefault(where["port"], {})
        for name, count in watch_judge.count_node_connections(
            self.plan, picture, where["port"]
        ).items():
            most[name] = max(count, most.get(name, 0))
        return most

    def unreached(self, picture: JobSnapshot, where: JobEndpoint) -> list[JobProblem]:
        """Return the ranks here that have never reached their endpoint. A rank that has may leave it again."""
        found = watch_judge.find_unreached_endpoints(
            self.plan, picture, where, self.me, self.names.addresses
        )
        away = {problem["rank"] for problem in found}
        for one in where["users"]:
            if one["rank"] not in away:
                self.reached.add((one["rank"], where["port"]))
        return [p for p in found if (p["rank"], where["port"]) not in self.reached]

    def explain(self, problem: JobProblem) -> None:
        """Find the cause of a problem. This probes the network, so it runs once for each reported problem."""
        if problem["code"] == watch_judge.UNREACHED:
            addresses = self.names.addresses(problem["host"], watch_look.RESOLVE_SECONDS)
            verdict, own = "waiting" if addresses is None else "unresolved", False
            for address in addresses or []:
                verdict = watch_look.probe_endpoint(address, problem["port"])
                own = watch_judge.find_node_name(self.plan, address) == self.me
                if verdict == "open":
                    break
                if address.startswith("127.") or address == "::1":
                    verdict = "loopback"
            watch_judge.explain_unreached(problem, self.plan, verdict, own)
        elif problem["code"] == watch_judge.MISSING:
            address = problem["address"]
            verdict = watch_look.probe_endpoint(address, problem["port"]) if address else ""
            zone = watch_look.find_blocking_zone(address, problem["port"]) if address else ""
            watch_judge.explain_missing(problem, verdict, zone, self.me)
        elif problem["code"] == watch_judge.TAKEN:
            watch_services.explain_taken_port(
                problem, watch_look.find_socket_holder(problem["inode"])
            )

    def tell(self, problem: JobProblem) -> None:
        """Find the cause of a problem and report it."""
        self.explain(problem)
        if (
            problem["verdict"] == "open"
            and self.age() - self.started_waiting(problem) < PATIENT * self.args.within
        ):
            # no problem on the path: it still imports, or reads its data
            self.later[problem["key"]] = self.age() + self.args.within
            self.reported.pop(problem["key"], None)
            return
        problem["sentence"] = watch_judge.describe_problem(problem)
        self.say(problem["sentence"])
        self.event("problem", {"problem": problem})

    def started_waiting(self, problem: JobProblem) -> float:
        """Return when a problem was first seen."""
        return self.first_seen.get(problem["key"], 0.0)

    def report(self, problem: JobProblem) -> None:
        """Report in a thread: probes and firewalld take seconds, and signals must still be forwarded."""
        thread = threading.Thread(target=self.tell, args=(problem,))
        thread.daemon = True
        thread.start()
        self.telling.append(thread)

    def finish(self) -> None:
        """Wait for the checks that still run, so that their results are printed."""
        if self.follower is not None:
            self.follower.ended = True
        deadline = time.monotonic() + LAST_WORDS
        for thread in self.telling:
            thread.join(max(0.0, deadline - time.monotonic()))

    def follow_ranks(self, root: int) -> None:
        """Watch in a thread whether the ranks make progress."""
        if not self.args.stalled:
            return
        self.follower = watch_stall.RankFollower(
            self.args.stalled,
            lambda: watch_stall.read_process_ranks(watch_look.list_process_tree(root), self.me),
        )
        tell = (self.tell_progress, self.tell_failure, self.share_ranks)
        threading.Thread(target=self.follower.run, args=tell, daemon=True).start()

    def tell_progress(self, what: EventKind, seen: NodeHang) -> None:
        """Report that the job hangs, or that it continues."""
        if what == "stalled":
            text = watch_stall.describe_stall(seen["ranks"], hang.describe_rank)
            self.say(text)
            ranks = [one for one in seen["ranks"] if one["entries"]]
            account = ranks[0].get("account", "") if ranks else ""
            job = ranks[0].get("job", "") if ranks else ""
            self.event(what, {"text": text, "job": job, "account": account})
            if self.args.on_hang != "report":
                self.respond_to_hang(seen["ranks"])
        else:
            self.hung = False
            self.say("it goes on again")
            self.event(what)

    def share_ranks(self, seen: NodeHang) -> None:
        """Send the ranks to the controller, which compares those of all nodes, and the time more than once."""
        packed = hang.pack_answer(seen) if self.args.json else ""
        if 0 < len(packed) <= MOST_PACKED:
            self.event("ranks", {"text": packed})
            for _ in range(hang.STAMPS):
                time.sleep(hang.STAMP_PAUSE)
                self.event("clock")

    def respond_to_hang(self, ranks: list[Rank]) -> None:
        """Write the state of this node's ranks to files, and have the job ended if the user wants it."""
        try:
            folder = watch_stall.write_ranks(ranks, self.args.dump_to)
            text = f"the state of the ranks here is in {folder}. Read it with ./fullmesh explain-log {folder}"
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
            text = f"[WA-115] The state of the ranks cannot be written to {why}. Fix: change to another folder."
        self.say(text)
        self.hung = self.args.on_hang == "stop"

    def tell_failure(self, why: str) -> None:
        """Report that the ranks could not be checked. The next check follows."""
        text = (
            f"[WA-110] Fullmesh cannot tell whether the ranks make progress: {hang.make_printable(why)}. "
            "The job and the watch continue. Check: fullmesh-hang"
        )
        self.say(text)
        self.event("unseen", {"text": text})

    def judge_now(self, picture: JobSnapshot) -> None:
        """Report problems that last too long, and those that are over."""
        found = {problem["key"]: problem for problem in self.problems(picture)}
        now = self.age()
        self.first_seen = {key: self.first_seen.get(key, now) for key in found}
        for key, problem in found.items():
            waited = now - self.first_seen[key] >= self.args.within
            if key not in self.reported and waited and now >= self.later.get(key, 0.0):
                self.reported[key] = now
                self.report(problem)
        over = [key for key in self.reported if key not in found]
        for key in over:
            del self.reported[key]
        if over and not self.reported:
            self.say("it is connected now")
            self.event("together")
        if not found and watch_judge.find_endpoints(picture) and self.together is None:
            self.together = now

    def overdue(self) -> bool:
        """Return whether a reported problem has lasted longer than the user's limit."""
        limit = self.args.kill_after
        since = [
            when for key, when in self.reported.items() if not key.startswith(watch_services.HINTS)
        ]
        return bool(limit and since and self.age() - min(since) >= limit)

    def find_reason_to_end(self) -> str:
        """Return the sentence with which the watch ends the job, or ""."""
        if self.hung:
            return "[WA-113] The job hangs, so it is ended (--on-hang stop)."
        if self.overdue():
            return "[WA-108] The ranks did not connect, so the job is ended (--kill-after)."
        return ""

    def pause(self) -> float:
        """Return the seconds until the next check."""
        if self.ended_by_us:
            return 0.2
        quick = (
            not self.linked
            or self.together is None
            or self.age() - self.together < self.args.within
        )
        return min(QUICK, max(0.1, self.args.within / 4)) if quick or self.reported else SLOW


def start_job(
    command: list[str], mask: set[int | signal.Signals], leash: bool
) -> subprocess.Popen[bytes]:
    """Start the job with this process's original signal mask."""

    def restore() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    return subprocess.Popen(
        command,
        preexec_fn=restore,  # noqa: PLW1509 (no thread runs yet)
        stdin=subprocess.DEVNULL if leash else None,
    )


def send_signal(pid: int, number: int) -> None:
    """Send a signal. A process that has ended is ignored."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def end_job(watch: JobWatch, job: subprocess.Popen[bytes], number: int) -> None:
    """Ask the job to end, and kill it the second time."""
    watch.ended_by_us = watch.ended_by_us or watch.age()
    late = watch.age() - watch.ended_by_us > GRACE
    for pid in watch_look.list_process_tree(job.pid) if late else [job.pid]:
        send_signal(pid, signal.SIGKILL if late else number)


def is_controller_gone() -> bool:
    """Return whether the controller at the other end of stdin is gone."""
    if not select.select([0], [], [], 0)[0]:
        return False
    return not os.read(0, 4096)


def forward_signal(job: subprocess.Popen[bytes], info: signal.struct_siginfo) -> None:
    """Forward a signal to the job, unless the terminal has already sent it to the whole group."""
    if info.si_code <= 0 and info.si_signo in [int(number) for number in PASSED_ON]:
        send_signal(job.pid, info.si_signo)


def check_job(watch: JobWatch, job: subprocess.Popen[bytes]) -> None:
    """Look at the job once, and end it if there is a reason."""
    if watch.args.leash and not watch.ended_by_us and is_controller_gone():
        end_job(watch, job, signal.SIGTERM)
    elif watch.ended_by_us:
        if watch.age() - watch.ended_by_us > GRACE:
            end_job(watch, job, signal.SIGKILL)
    else:
        watch.judge_now(watch_look.observe_job(job.pid))
        why = watch.find_reason_to_end()
        if why:
            watch.say(why)
            watch.event("killed")
            watch.killed = True
            end_job(watch, job, signal.SIGTERM)


def wait_for_job(watch: JobWatch, job: subprocess.Popen[bytes]) -> int:
    """Watch the job to its end. Return its code as subprocess has it."""
    waited = [*PASSED_ON, signal.SIGCHLD]
    due = watch.age() + watch.pause()
    while job.poll() is None:
        # a signal must not delay the next check: one arrives whenever a helper of the watch ends
        info = signal.sigtimedwait(waited, max(0.0, due - watch.age()))
        if info is not None:
            forward_signal(job, info)
            continue
        check_job(watch, job)
        due = watch.age() + watch.pause()
    return int(job.returncode)


def exit_like_job(code: int) -> int:
    """End like the job, with its code or by its signal."""
    if code >= 0:
        return code
    number = -code
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # this process's core dump would be useless, and the job has left its own
    import resource  # noqa: PLC0415 (only here)

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.kill(os.getpid(), number)
    return 128 + number


def main(argv: list[str]) -> int:
    """Run the job under watch."""
    args = parse_arguments(argv)
    wrong = find_usage_error(args)
    if wrong:
        usage = "Usage: fullmesh-watch [--within SECONDS] -- COMMAND"
        sys.stderr.write(f"{wrong}. {usage}\n")
        return USAGE
    watch = JobWatch(args, load_plan(args.plan))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [*PASSED_ON, signal.SIGCHLD])
    try:
        job = start_job(args.command, mask, args.leash)
    except OSError as error:
        text = "[WA-106] {} cannot be started: {}. Fix: use an existing program.\n"
        sys.stderr.write(text.format(args.command[0], error.strerror))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_START
    watch.event("started", {"pid": job.pid})
    watch.follow_ranks(job.pid)
    code = wait_for_job(watch, job)
    watch.finish()
    watch.event("ended", {"code": code})
    return PROBLEM if watch.killed else exit_like_job(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
