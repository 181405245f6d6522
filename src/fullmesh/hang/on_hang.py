"""Act on a hung job: write a dump, end the job on all nodes, or start it once more without the node at fault."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.hang.dump import write_hang_dump
from fullmesh.hang.stalled import StallReporter, StallVerdict
from fullmesh.model.participants import build_job_members
from fullmesh.model.types import ClusterPlan, PlanNode
from fullmesh.play.names import make_run_name, shorten_path
from fullmesh.settings import RUNS
from fullmesh.watch.remote import JobHosts

REPORT, DUMP, STOP, RESTART = ACTIONS = ("report", "dump", "stop", "restart")
# The same program takes the same wrong path on any nodes: other calls, sizes, orders, partners or members.
PROGRAM_ERRORS = frozenset(f"HG-{number}" for number in (121, 122, 123, 124, 141, 142, 143, 144))
AGAIN = 60.0  # seconds to the next query of a job that hangs without a cause that Fullmesh knows
MOST_DUMPS = 8  # of a job that hangs and goes on again and again
NAMED = 4
TORCHRUN, OWN = "torchrun", "fullmesh-torchrun"
MODES = ("--c10d", "--static", "--etcd", "--launch")
# Options without a value. The first other word without a dash is the script.
FLAGS = frozenset(
    [
        *MODES,
        "--dry-run",
        "--standalone",
        "--module",
        "-m",
        "--no-python",
        "--run-path",
        "--virtual-local-rank",
    ]
)
UNFIT = "WA-112"
RANGE = re.compile(r"(\d{1,6}):(\d{1,6})")


@dataclass(frozen=True)
class ElasticJob:
    """A job that torchrun can start with fewer nodes: at least *least*, with the rendezvous on *host*."""

    least: int
    host: str


def read_launch_options(command: Sequence[str]) -> dict[str, str] | None:
    """Return the options of torchrun or fullmesh-torchrun, "" for one without a value. None for other commands."""
    program, rest = PurePath(command[0]).name, list(command[1:])
    if program.startswith("python") and rest[:2] == ["-m", "torch.distributed.run"]:
        program, rest = TORCHRUN, rest[2:]
    if program not in (TORCHRUN, OWN):
        return None
    found = {"": program}
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        name = name.replace("_", "-")
        if not equals and name not in FLAGS and rest:
            value = rest.pop(0)
        found.pop(name, None)
        found[name] = value  # the last one counts
    return found


def find_node_at(part: JobHosts, endpoint: str) -> str:
    """Return the node that an endpoint ``HOST[:PORT]`` is on, or ""."""
    host = endpoint
    if endpoint.startswith("["):
        host = endpoint[1:].partition("]")[0]
    elif endpoint.count(":") == 1:
        host = endpoint.partition(":")[0]
    for node in build_job_members(part["plan"])["nodes"]:
        reached = part["hosts"].get(node["name"], {}).get("host", "")
        if host and host in (node["name"], reached, *node["addresses"], *node["names"]):
            return node["name"]
    return ""


def parse_elastic_job(command: Sequence[str], part: JobHosts) -> ElasticJob:
    """Return the job if its launcher can start it with fewer nodes.

    Raises:
        InvalidInputError: it cannot, with all reasons.
    """
    options = read_launch_options(command)
    if options is None:
        text = f"--on-hang restart cannot start {command[0]} with fewer nodes"
        step = f"Begin COMMAND with {OWN} or {TORCHRUN}"
        raise InvalidInputError([Fault(UNFIT, text, step)])
    own = options[""] == OWN
    given = RANGE.fullmatch(options.get("--nnodes", ""))
    least = int(given[1]) if given else 0
    endpoint = options.get("--rdzv-endpoint", "")
    endpoint = endpoint or (part["plan"]["rendezvous"]["endpoint"] if own else "")
    host = find_node_at(part, endpoint)
    faults = []
    if not given or not 0 < least <= int(given[2]):
        text = (
            f"--on-hang restart needs a range of nodes (seen: {options.get('--nnodes') or 'none'})"
        )
        faults.append(Fault(UNFIT, text, "Add --nnodes=MIN:MAX"))
    elif least >= len(part["hosts"]):
        text = f"The job needs {least} nodes, and the inventory has {len(part['hosts'])}"
        faults.append(Fault(UNFIT, text, "Lower MIN in --nnodes=MIN:MAX"))
    mode = next((one for one in reversed(options) if one in MODES), "")
    is_c10d = mode == "--c10d" if own else options.get("--rdzv-backend") == "c10d"
    if not is_c10d or "--standalone" in options:
        text = "--on-hang restart needs the rendezvous c10d, without --standalone"
        faults.append(Fault(UNFIT, text, f"Add {'--c10d' if own else '--rdzv-backend=c10d'}"))
    if not host:
        text = f"No node of the inventory has the rendezvous (seen: {endpoint or 'none'})"
        faults.append(Fault(UNFIT, text, "Add --rdzv-endpoint=NODE:PORT with a node's address"))
    if faults:
        raise InvalidInputError(faults)
    return ElasticJob(least, host)


def name_some(names: Collection[str]) -> str:
    """Return a few names for a sentence."""
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(itertools.islice(sorted(names), NAMED)) + rest


@dataclass(frozen=True)
class RestartChoice:
    """The node to leave out, or the reason why the job does not start again."""

    node: str = ""
    why_not: str = ""


def find_reasons_against_restart(
    verdict: StallVerdict, nodes: Collection[str], elastic: ElasticJob
) -> Iterator[str]:
    """Yield the reasons why a hung job does not start again. A reason may follow from the one before."""
    causes = verdict.causes()
    program = sorted({one.code for one in causes} & PROGRAM_ERRORS)
    if program:
        yield f"{', '.join(program)} is an error of the program, which would hang again"
    if len(verdict.judged) > 1:
        yield f"{len(verdict.judged)} jobs have its name"
    for rank in sorted({rank for one in causes for rank in one.ranks} & set(verdict.disputed)):
        yield f"{name_some(verdict.disputed[rank])} all say that they run rank {rank}"
    named = {host for one in causes for host in one.hosts}
    if not named or named - set(nodes):
        yield "the findings name a rank whose node is not known"
    if len(named) > 1:
        yield f"the findings name {len(named)} nodes ({name_some(named)}), not exactly one"
    if elastic.host in named:
        yield f"{elastic.host} has the rendezvous, which the other nodes need"
    left = len(nodes) - len(named)
    if left < elastic.least:
        text = f"without {name_some(named)}, only {left} of the {elastic.least} nodes remain"
        yield f"{text} that it needs"


def choose_restart(
    verdict: StallVerdict, nodes: Collection[str], elastic: ElasticJob
) -> RestartChoice:
    """Decide whether a hung job starts again, and without which of its nodes."""
    why_not = next(find_reasons_against_restart(verdict, nodes, elastic), "")
    named = [host for one in verdict.causes() for host in one.hosts]
    return RestartChoice(why_not=why_not) if why_not else RestartChoice(named[0])


def leave_out_node(part: JobHosts, name: str) -> JobHosts:
    """Return the plan and the hosts without a node. The ranks of the others move up."""
    plan, first = part["plan"], 0
    left_out = plan["nodes"][name]["local_ranks"]
    nodes: dict[str, PlanNode] = {}
    for one, node in plan["nodes"].items():
        if one != name:
            nodes[one] = {**node, "node_rank": len(nodes), "first_rank": first}
            first += node["local_ranks"]
    less: ClusterPlan = {
        **plan,
        "nodes": nodes,
        "nnodes": plan["nnodes"] - 1,
        "world_size": plan["world_size"] - left_out,
    }
    return {"plan": less, "hosts": {one: how for one, how in part["hosts"].items() if one != name}}


@dataclass
class HangResponse:
    """What follows when a job on all nodes hangs.

    Attributes:
        action: the user's choice.
        nodes: of the job.
        elastic: the job, if it can start with fewer nodes.
        why_not: the reason why it does not start again, known before it hangs.
        ended: the job was ended because it hangs.
        without: the node that it starts again without.
        hung: nodes that report no progress, with the job's name and account.
        query_at: when to query the nodes again.
    """

    action: str = REPORT
    nodes: tuple[str, ...] = ()
    elastic: ElasticJob | None = None
    why_not: str = ""
    ended: bool = False
    without: str = ""
    hung: dict[str, tuple[str, str]] = field(default_factory=dict)
    query_at: float = 0.0
    dumps: int = 0

    def note_stall(self, node: str, job: str, account: str) -> None:
        """Record that a node's ranks make no progress."""
        self.hung[node] = (job, account)
        self.query_at = time.monotonic() + AGAIN

    def note_progress(self, node: str) -> None:
        """Record that a node's ranks continue."""
        self.hung.pop(node, None)

    def respond(
        self, reporter: StallReporter, tell: Callable[[str], None], end_job: Callable[[], None]
    ) -> None:
        """Act on new causes. As long as there are none, query the nodes of a job that still hangs again."""
        verdict = reporter.take_verdict()
        if self.action == REPORT or self.ended or not self.hung:
            return
        if verdict is None:
            if time.monotonic() >= self.query_at:
                self.query_at = time.monotonic() + AGAIN
                reporter.begin(*next(iter(self.hung.values())))
            return
        self.query_at = math.inf
        self.dump(verdict, tell)
        if self.action == DUMP:
            return
        choice = RestartChoice(why_not=self.why_not)
        if self.elastic is not None:
            choice = choose_restart(verdict, self.nodes, self.elastic)
        if choice.why_not:
            tell(f"[WA-114] The job does not start again: {choice.why_not}.")
        tell(f"[WA-113] The job hangs, so it is ended on all nodes (--on-hang {self.action}).")
        self.ended, self.without = True, choice.node
        end_job()

    def dump(self, verdict: StallVerdict, tell: Callable[[str], None]) -> None:
        """Write the state of all ranks to a folder of a run."""
        if self.dumps >= MOST_DUMPS:
            return
        self.dumps += 1
        folder = RUNS / make_run_name()
        try:
            ranks = write_hang_dump(folder, verdict.judged)
        except OSError as error:
            text = f"The state of the ranks cannot be written to {shorten_path(folder)}: {error.strerror}."
            tell(f"[WA-115] {text} Fix: free space there, or change its owner.")
            return
        tell(
            f"the state of all ranks is in {shorten_path(folder)}. "
            f"Read it with ./fullmesh explain-log {shorten_path(ranks)}"
        )
