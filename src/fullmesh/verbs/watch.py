"""``fullmesh watch``: start a job, and report which ranks are missing, and why, if they do not connect."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fullmesh.catalogue import add_verb, warn_old_spelling
from fullmesh.faults import Fault, InvalidInputError
from fullmesh.hang import on_hang
from fullmesh.hang.on_hang import HangResponse
from fullmesh.hang.slow import SlowReporter
from fullmesh.hang.stalled import StallReporter
from fullmesh.observed.watch import JobProblem, WatchEvent
from fullmesh.play.names import make_run_name
from fullmesh.play.options import find_inventory
from fullmesh.printed import STYLE, clean_and_shorten, print_error, print_text
from fullmesh.settings import ROOT, RUNS, STARTED_IN
from fullmesh.verbs.checkout import print_refusal
from fullmesh.watch import remote as watch_remote
from fullmesh.watch.remote import JobHosts, NodeMessage, WatchedNode

OK, PROBLEM, USAGE = 0, 1, 2
CODES = {
    "WA-101": "A node or rank has not connected to the store or rendezvous",
    "WA-102": "A process cannot reach the store or rendezvous",
    "WA-103": "A data connection between ranks gets no reply",
    "WA-104": "Ranks connected and left before the nodes exchanged any data",
    "WA-105": "watch was called without a command, or with invalid times",
    "WA-106": "The command to watch cannot be started",
    "WA-107": "watch cannot reach the nodes of the inventory by any connection that it supports",
    "WA-108": "The job was ended because its ranks did not connect",
    "WA-109": "The ranks of a job make no progress",
    "WA-110": "The watch on a node cannot tell whether the ranks make progress",
    "WA-111": "The ranks of a job hang, and the nodes could not be queried for the rank that the others wait for",
    "WA-112": "watch --on-hang restart cannot work with this command or inventory",
    "WA-113": "The job was ended because it hangs",
    "WA-114": "A hung job was ended and does not start again",
    "WA-115": "The state of the ranks of a hung job cannot be written to a file",
    "WA-116": "A hung job was ended and starts again without a node",
    "WA-117": "A node has not confirmed the end of the job",
    "WA-180": "A service's port gets no reply, and the job waits",
    "WA-181": "Another program uses the port of the job's coordinator",
    "WA-182": "A job listens only on loopback, although other nodes must reach it",
}
WITHIN = 60.0
STALLED = 60.0
ASKED = 30.0  # seconds to wait for an answer about a hung job after the job has ended
GATHER = 7.5  # seconds from the first problem to its report, since the other nodes probe for 5.5
# Seconds from the leash's end to SIGKILL. A node notices the end within 10 s, and gives its job 10 s after SIGTERM.
END_GRACE = 30.0
DIAGNOSE_SECONDS = 120
# The job itself holds the ports that a diagnosis expects to be free.
OWN_DOING = ("VC-109", "DG-130")


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "watch")
    parser.add_argument(
        "--within",
        type=float,
        default=WITHIN,
        metavar="SECONDS",
        help=f"time in which the ranks must connect (default {WITHIN:g})",
    )
    parser.add_argument(
        "--stalled",
        type=float,
        default=STALLED,
        metavar="SECONDS",
        help=f"report ranks that make no progress for this many seconds (default {STALLED:g}, 0: never)",
    )
    parser.add_argument(
        "--kill-after",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="end a job whose ranks do not connect this long after the report (default: never)",
    )
    parser.add_argument(
        "--on-hang",
        choices=on_hang.ACTIONS,
        default=on_hang.REPORT,
        help="action if the job hangs: report the cause, write the state of all ranks to a folder (dump), also end"
        " the job (stop), or start it once more without the node at fault (restart: only with -i and an elastic"
        " torchrun) (default: report)",
    )
    parser.add_argument(
        "-i",
        "--inventory",
        metavar="INVENTORY",
        default="",
        help="start COMMAND on all nodes of this inventory, and diagnose the links of missing ranks"
        " (default: start it on this machine only)",
    )
    parser.add_argument("--probe", metavar="INVENTORY", default="", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the job, after --")
    parser.set_defaults(func=run_watch)


def print_watch_error(code: str, text: str) -> int:
    """Report a usage error."""
    print_error(f"fullmesh: [{code}] {clean_and_shorten(text, 1000)}")
    return USAGE


def format_watch_options(args: argparse.Namespace) -> list[str]:
    """Format the waiting times for the watch on a node."""
    times = {"within": args.within, "kill-after": args.kill_after, "stalled": args.stalled}
    return [word for name, value in times.items() for word in (f"--{name}", f"{value:g}")]


def find_watch_faults(args: argparse.Namespace, command: Sequence[str]) -> Iterator[Fault]:
    """Yield the errors in a call that need no inventory."""
    if not command:
        yield Fault("WA-105", "No command was given", "Run ./fullmesh watch -- COMMAND")
    if args.within <= 0 or args.kill_after < 0 or args.stalled < 0:
        words = " ".join(format_watch_options(args))
        yield Fault("WA-105", f"{words} are not valid times", "Use numbers above 0")
    if args.on_hang != on_hang.REPORT and not args.stalled:
        text = f"--on-hang {args.on_hang} needs a time after which a job hangs"
        yield Fault("WA-105", text, "Set --stalled above 0")
    if args.on_hang == on_hang.RESTART and not (args.inventory or args.probe):
        yield Fault("WA-112", "--on-hang restart needs all nodes", "Use -i INVENTORY")


def run_watch(args: argparse.Namespace) -> int:
    """``fullmesh watch``."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    faults = list(find_watch_faults(args, command))
    if faults:
        return print_refusal(InvalidInputError(faults))
    if args.probe:
        warn_old_spelling("watch --probe INVENTORY", "watch -i INVENTORY")
    named = args.inventory or args.probe
    if not named:
        return exec_local_watch(args, command)
    try:
        return run_on_all_nodes(args, command, find_inventory(named))
    except InvalidInputError as error:
        return print_refusal(error)


def exec_local_watch(args: argparse.Namespace, command: Sequence[str]) -> int:
    """Replace this process with the watch program for this machine."""
    script = str(ROOT / "node_programs/fullmesh_watch.py")
    os.chdir(STARTED_IN)
    sys.stdout.flush()
    argv = [sys.executable, script, *format_watch_options(args)]
    if args.on_hang != on_hang.REPORT:
        argv += ["--on-hang", args.on_hang, "--dump-to", str(RUNS / make_run_name())]
    argv += ["--", *command]
    os.execv(sys.executable, argv)  # noqa: S606 (the whole point: signals and the exit code are the job's)


def resolve_job_hosts(inventory: Path, more: Sequence[str] = ()) -> JobHosts:
    """Return the plan and the way to reach each node.

    Args:
        inventory: its path.
        more: options of ansible-playbook. The plan also has the nodes that ``--limit`` excludes.

    Raises:
        ValueError: Ansible cannot read the inventory.
    """
    # the play itself runs on localhost, which --limit would exclude
    limits = [word.partition("=")[2] for word in more if word.startswith("--limit=")]
    if limits and limits[-1].startswith("@") and Path(limits[-1][1:]).is_file():
        limits = [",".join(Path(limits[-1][1:]).read_text(encoding="utf-8").split())]
    users = [word.partition("=")[2] for word in more if word.startswith("--user=")]
    with tempfile.TemporaryDirectory(prefix="fullmesh-watch-") as folder:
        path = Path(folder) / "nodes.json"
        command = ["ansible-playbook", "playbooks/watch.yml", "-i", str(inventory.resolve())]
        command += ["-e", json.dumps({"watch_file": str(path), "watch_limit": limits[-1:]})]
        command += [word for word in more if not word.startswith("--limit=")]
        done = subprocess.run(
            command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120
        )
        if not path.is_file():
            raise ValueError((done.stdout + done.stderr)[-2000:])
        found: JobHosts = json.loads(path.read_text(encoding="utf-8"))
    if limits and not found["hosts"]:
        raise ValueError(f"no node matches --limit {limits[-1]}")
    for reach in found["hosts"].values() if users else ():
        reach.setdefault(
            "user", users[-1]
        )  # a host's own ansible_user wins, as it does for Ansible
    return found


@dataclass
class WatchedJob:
    """A job on several nodes."""

    inventory: Path
    nodes: dict[str, WatchedNode]
    said: queue.Queue[NodeMessage]
    names: list[str]
    diagnoses: bool = True
    stalled: StallReporter | None = None
    slow: SlowReporter | None = None
    response: HangResponse = field(default_factory=HangResponse)
    problems: list[JobProblem] = field(default_factory=list)
    known: list[JobProblem] = field(default_factory=list)  # all problems, reported or not
    due: float = 0.0
    together: bool = False
    tried_beside: bool = False  # the diagnosis ran while the job held its ports
    wants_another: bool = False
    diagnosed: tuple[subprocess.Popen[bytes], IO[bytes]] | None = None
    interrupted: int = 0  # the signal that ends the job
    kill_at: float = 0.0  # when ssh is killed on nodes that have not confirmed the end

    def tell(self, text: str) -> None:
        """Print a line of Fullmesh's own."""
        print_error(f"fullmesh watch: {text}")

    def take(self, what: NodeMessage) -> None:
        """Handle one message of a node."""
        node = self.nodes[what.node]
        if what.kind == "end":
            node.code = what.code
            if node.code == watch_remote.SSH_FAILED and not node.started:
                self.tell(
                    f"{node.name} cannot be reached by ssh: {clean_and_shorten(node.last, 300)}"
                )
        elif what.event is not None:
            if self.slow is not None:
                self.slow.take(what)
            self.event(node, what.event)
        else:
            node.last = what.text or node.last
            stream = sys.stdout if what.kind == "stdout" else sys.stderr
            print_text(f"[{node.name}] {STYLE.sub('', what.text)}", stream)

    def event(self, node: WatchedNode, event: WatchEvent) -> None:
        """Handle a finding of a node's watch."""
        node.started = True
        kind = event["event"]
        if "problem" in event:
            # a node's own name may differ from its name in the inventory
            problem: JobProblem = {**event["problem"], "at": node.name}
            self.problems.append(problem)
            self.known.append(problem)
            self.together = False
            self.due = self.due or time.monotonic() + GATHER
        elif kind == "together":
            self.together = True
            self.tell(f"{node.name}: all ranks have connected after all")
        elif kind == "stalled":
            self.tell(f"{node.name}: {clean_and_shorten(event.get('text', ''), 2000)}")
            if self.stalled is not None:
                job = event.get("job", ""), event.get("account", "")
                self.response.note_stall(node.name, *job)
                self.stalled.begin(*job)
        elif kind == "unseen":
            self.tell(f"{node.name}: {clean_and_shorten(event.get('text', ''), 2000)}")
        elif kind == "moving":
            self.tell(f"{node.name}: it goes on again")
            self.response.note_progress(node.name)
            if self.stalled is not None:
                self.stalled.forget()
        elif kind == "killed":
            self.tell(f"[WA-108] {node.name}: the ranks did not connect, so the job is ended.")
        elif kind == "ended":
            node.ended = True

    def report(self) -> None:
        """Report the missing ranks, once both ends have answered, and diagnose the links."""
        if not self.due or time.monotonic() < self.due:
            return
        self.due = 0.0
        for line in watch_remote.merge_problems(self.problems, self.known, self.nodes):
            self.tell(line)
        self.problems.clear()
        if self.diagnoses and self.diagnosed is None:
            self.tried_beside = self.running()
            self.diagnosed = start_diagnosis(self.inventory)

    def show_diagnosis(self) -> None:
        """Print the findings of the diagnosis when it is done."""
        if self.diagnosed is None or self.diagnosed[0].poll() is None or not self.diagnoses:
            return
        self.diagnoses = False
        self.diagnosed[1].seek(0)
        found = list_diagnosis_causes(self.diagnosed[1].read().decode("utf-8", "replace"))
        self.wants_another = not found and self.tried_beside and not self.together
        self.tried_beside = False
        for line in found or ["no problem was found in the parts that could be checked"]:
            self.tell(f"diagnose: {line}")

    def show_stalled(self) -> None:
        """Report the rank for which a hung job waits, when all nodes have answered."""
        for line in self.stalled.lines() if self.stalled is not None else []:
            self.tell(line)

    def show_slow(self) -> None:
        """Report the rank that a job always waits for."""
        for line in self.slow.lines() if self.slow is not None else []:
            self.tell(line)

    def respond_to_hang(self) -> None:
        """Do what the user wants if the job hangs."""
        if self.stalled is not None and not self.kill_at:
            self.response.respond(self.stalled, self.tell, self.end_on_all_nodes)

    def finish_diagnosis(self) -> None:
        """Wait for the diagnosis, if one runs."""
        if self.diagnosed is not None and self.diagnoses:
            try:
                self.diagnosed[0].wait(DIAGNOSE_SECONDS)
            except subprocess.TimeoutExpired:
                self.diagnosed[0].kill()
            self.show_diagnosis()

    def running(self) -> bool:
        """Return whether any node is still running its part."""
        return any(node.code is None for node in self.nodes.values())

    def end_on_all_nodes(self) -> None:
        """End the job on every node, and wait for its end there for a limited time."""
        self.kill_at = self.kill_at or time.monotonic() + END_GRACE
        self.let_go()

    def give_up_waiting(self) -> None:
        """Stop waiting for nodes that have not confirmed the end in time, and kill their ssh."""
        if not self.kill_at or time.monotonic() < self.kill_at:
            return
        for node in (one for one in self.nodes.values() if one.code is None):
            if node.process.poll() is None:
                os.killpg(node.process.pid, signal.SIGKILL)  # it has a session of its own
            # a process that is left may hold the pipes open
            node.code = -signal.SIGKILL
            text = (
                f"{node.name} has not confirmed within {END_GRACE:g} s that the job has ended there"
            )
            self.tell(f"[WA-117] {text}. Check: ./fullmesh hang -i INVENTORY")

    def list_unended(self) -> list[str]:
        """Return the nodes on which the job has started and may still run."""
        return [node.name for node in self.nodes.values() if node.started and not node.ended]

    def let_go(self) -> None:
        """Close every leash: the watches end their jobs."""
        for node in self.nodes.values():
            if node.process.stdin is not None and not node.process.stdin.closed:
                node.process.stdin.close()


def start_diagnosis(inventory: Path) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """Start the diagnosis next to the job. Its result goes to a file, because a pipe would fill."""
    out = tempfile.TemporaryFile()  # noqa: SIM115 (read when it has ended)
    command = [sys.executable, "-m", "fullmesh", "diagnose", "-i", str(inventory.resolve())]
    process = subprocess.Popen(
        [*command, "--json", "--deadline", "60"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.DEVNULL,
    )
    return process, out


def list_diagnosis_causes(text: str) -> list[str]:
    """Return the causes of a diagnosis, one per line, without the effects of the job itself."""
    try:
        result = json.loads(text)
    except json.JSONDecodeError:
        return ["it ended without a result. Run ./fullmesh diagnose for the reason"]
    kept = [f for f in result.get("findings", []) if f.get("code") not in OWN_DOING]
    lines = [
        clean_and_shorten(f"[{f['code']}] {str(f['cause']).rstrip('.')}. {f.get('fix', '')}", 2000)
        for f in kept
    ]
    return lines


def run_on_all_nodes(args: argparse.Namespace, command: Sequence[str], inventory: Path) -> int:
    """Run the job on all nodes.

    Raises:
        InvalidInputError: a restart is wanted, and not possible.
    """
    try:
        found = resolve_job_hosts(inventory)
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        return print_watch_error(
            "WA-107",
            f"{inventory} has no usable nodes: {error}. Run ./fullmesh plan --offline -i {inventory} for details.",
        )
    strange = {
        name: reach["connection"]
        for name, reach in found["hosts"].items()
        if reach.get("connection", "") not in watch_remote.KNOWN_CONNECTIONS
    }
    if strange:
        return print_watch_error(
            "WA-107",
            f"connection {strange} is not ssh. Start the job with fullmesh-watch on the nodes themselves.",
        )
    response = HangResponse(args.on_hang, tuple(found["hosts"]))
    if args.on_hang == on_hang.RESTART:
        response.elastic = on_hang.parse_elastic_job(command, found)
    job = start_on_all_nodes(args, command, inventory, found, response)
    code = follow_job(job)
    without = response.without
    if not without or job.interrupted:
        return code
    busy = [name for name in job.list_unended() if name != without]
    if busy:
        job.tell(f"[WA-114] The job does not start again: it may still run on {', '.join(busy)}.")
        return code
    rest = on_hang.leave_out_node(found, without)
    job.tell(f"[WA-116] The job starts again without {without}, on {', '.join(rest['hosts'])}.")
    last = HangResponse(args.on_hang, tuple(rest["hosts"]), why_not="it was started again once")
    return follow_job(start_on_all_nodes(args, command, inventory, rest, last))


def start_on_all_nodes(
    args: argparse.Namespace,
    command: Sequence[str],
    inventory: Path,
    part: JobHosts,
    response: HangResponse,
) -> WatchedJob:
    """Start the job on all nodes of *part*."""
    said: queue.Queue[NodeMessage] = queue.Queue()
    nodes = {}
    for name, reach in part["hosts"].items():
        text = watch_remote.build_watch_script(
            part["plan"], name, reach.get("python", ""), format_watch_options(args), command
        )
        nodes[name] = watch_remote.start_node_job(
            name, watch_remote.build_ssh_command(reach, name, text), said
        )
    return WatchedJob(
        inventory,
        nodes,
        said,
        list(nodes),
        stalled=StallReporter(part),
        slow=SlowReporter(part),
        response=response,
    )


def follow_job(job: WatchedJob) -> int:
    """Follow a job to its end. A signal ends it on all nodes."""

    def stop(number: int, _frame: object) -> None:
        job.interrupted = job.interrupted or number
        job.end_on_all_nodes()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while job.running() or not job.said.empty():
            with contextlib.suppress(queue.Empty):
                job.take(job.said.get(timeout=0.2))
            job.report()
            job.show_diagnosis()
            job.show_stalled()
            job.show_slow()
            job.respond_to_hang()
            job.give_up_waiting()
    finally:
        job.let_go()
        for number, handler in before.items():
            signal.signal(number, handler)
    report_late_findings(job)
    if job.interrupted:
        return 128 + job.interrupted
    if job.response.ended:
        return PROBLEM
    return find_worst_exit_code([node.code or 0 for node in job.nodes.values()])


def report_late_findings(job: WatchedJob) -> None:
    """Report findings that arrive after the job has ended."""
    if job.stalled is not None:
        job.stalled.wait(ASKED)
        job.show_stalled()
    if job.problems:
        job.due = 1.0
        job.report()
    job.finish_diagnosis()
    if job.diagnosed is not None and job.wants_another:
        # its ports are free now, so the diagnosis can test them as well
        job.tell("the job has ended, so its own ports are tested, too")
        job.diagnosed, job.diagnoses = start_diagnosis(job.inventory), True
        job.finish_diagnosis()


def find_worst_exit_code(codes: Sequence[int]) -> int:
    """Return one exit code for several: that of a signal, as in a shell, else the largest."""
    return max((128 - code if code < 0 else code for code in codes), default=0)
