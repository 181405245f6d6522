"""The verb ``status``: show the nodes, their drift, their running jobs and the last verdict. Changes nothing."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fullmesh.catalogue import add_verb
from fullmesh.faults import Fault, InvalidInputError
from fullmesh.play import options
from fullmesh.play.names import shorten_path
from fullmesh.play.options import JSON, PLAIN
from fullmesh.printed import clean_values, measure_width, print_error, print_text
from fullmesh.verbs.checkout import print_refusal

if TYPE_CHECKING:  # slow to import, and other verbs do not need it
    from fullmesh.cluster_status import LastRun, RunningJob, StatusReport
    from fullmesh.hang.ask import HangAnswer
    from fullmesh.watch.remote import JobHosts

OK, PROBLEM, USAGE = 0, 1, 2
DEADLINE = 45.0  # seconds for everything
LEAST_JOBS = 5.0  # seconds that the query for jobs gets in any case
RUNS_READ = 20  # results that may be of other nodes


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "status")
    options.add_inventory_option(parser)
    parser.add_argument("--json", action="store_true", help="print the status as JSON")
    parser.add_argument(
        "--since",
        action="store_true",
        help="show since when each node is fit for jobs or not (role node_health)",
    )
    parser.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=float,
        default=DEADLINE,
        help=f"time for all queries (default {DEADLINE:g})",
    )
    options.add_playbook_options(parser, (*options.CONNECT, *options.RUN))
    parser.set_defaults(func=run_status)


def run_status(args: argparse.Namespace) -> int:
    """``fullmesh status``."""
    from fullmesh import cluster_status  # noqa: PLC0415 (see above)

    if not args.deadline > 0:  # also not a number
        step = "Fix: name a number of seconds above 0"
        return print_refusal(
            InvalidInputError([Fault("CL-124", f"--deadline is {args.deadline:g}", step)])
        )
    begun = time.monotonic()
    try:
        inventory = options.find_inventory(args.inventory)
        found = query_cluster(args, inventory)
    except InvalidInputError as error:
        return print_refusal(error)
    if found is None:
        return PROBLEM if options.needs_raw_output(args) else USAGE
    nodes = found["nodes"]
    left = max(args.deadline - (time.monotonic() - begun), LEAST_JOBS)
    answered = [name for name, node in nodes.items() if node["state"] != "no answer"]
    jobs, unasked = query_jobs(found["reach"], answered, left)
    report: StatusReport = clean_values(
        {
            "schema": cluster_status.SCHEMA,
            "inventory": shorten_path(inventory),
            "nodes": nodes,
            "faults": found["faults"],
            "last_run": find_last_run(list(nodes)),
            "jobs": jobs,
            "unasked": unasked,
        }
    )
    problems = cluster_status.find_status_problems(report)
    if args.json:
        print_text(json.dumps({**report, "problems": [str(one) for one in problems]}, indent=2))
    else:
        print_text("\n".join(cluster_status.render_status(report, measure_width(sys.stdout))))
    if not answered:
        return USAGE
    return PROBLEM if problems or report["faults"] else OK


def query_cluster(args: argparse.Namespace, inventory: Path) -> dict[str, Any] | None:
    """Query all nodes once. Return None if there is no answer, after printing the reason.

    Raises:
        InvalidInputError: Ansible could not run, or not in time.
    """
    from fullmesh.play import run as runner  # noqa: PLC0415 (msgspec is slow to import)
    from fullmesh.verbs import diagnose, playbook  # noqa: PLC0415 (as above)

    with tempfile.TemporaryDirectory(prefix="fullmesh-status-") as folder:
        path = Path(folder) / "status.json"
        command = ["ansible-playbook", "playbooks/status.yml", "-i", str(inventory)]
        command += ["-e", json.dumps({"status_file": str(path), "status_since": args.since})]
        command += options.list_ansible_words(args)
        if options.needs_raw_output(args):
            playbook.run_ansible_raw(command)
        else:
            view = PLAIN if args.json and args.progress == JSON else args.progress
            shown = runner.choose_view(view)
            outcome = runner.run_with_view(
                command,
                shown,
                Path(folder),
                env=diagnose.build_diagnose_env(args.deadline),
                deadline=args.deadline,
            )
            if not path.is_file():
                # the view has shown the failure of a task
                tail = [] if shown.progress.over else runner.read_ansible_log_tail(outcome.log)
                for line in tail:
                    print_error(line)
                why = "Ansible failed" if outcome.in_time else "the deadline passed"
                step = "Fix: the first error above" if outcome.in_time else "Fix: raise --deadline"
                raise InvalidInputError([Fault("ST-105", f"No status: {why}", step)])
        if not path.is_file():
            return None
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def query_jobs(
    reach: JobHosts, answered: Sequence[str], seconds: float
) -> tuple[list[RunningJob] | None, dict[str, str]]:
    """Query the nodes that answered for their running ranks.

    Returns:
        The jobs (None if the answers took too long), and node -> the reason why its jobs are unknown.
    """
    from fullmesh.cluster_status import group_running_jobs  # noqa: PLC0415 (see above)
    from fullmesh.hang import ask, jobs  # noqa: PLC0415 (see above)

    answers: list[HangAnswer] = []
    hosts = {name: one for name, one in reach["hosts"].items() if name in answered}
    thread = threading.Thread(
        target=lambda: answers.extend(ask.query_hang_nodes(hosts, "", [])), daemon=True
    )
    thread.start()
    thread.join(seconds)
    if thread.is_alive() or not hosts:
        return None, {}
    ranks: dict[tuple[str, str], list[Any]] = {}
    for answer in answers:
        for last in answer.looks[-1:]:
            for rank in last["ranks"]:
                ranks.setdefault(jobs.make_job_key(rank, last), []).append(rank)
    return group_running_jobs(ranks), {one.name: one.why for one in answers if one.why}


def find_last_run(nodes: Sequence[str]) -> LastRun | None:
    """Return the newest result with one of these nodes."""
    from fullmesh.report.model import format_headline  # noqa: PLC0415 (see above)
    from fullmesh.result import read  # noqa: PLC0415 (see above)
    from fullmesh.verbs.report import list_runs  # noqa: PLC0415 (see above)

    for path in reversed(list_runs()[-RUNS_READ:]):
        try:
            result = read.load_result(path)
        except ValueError:
            continue  # of another version
        if set(result["nodes"]) & set(nodes):
            return {
                "run": result["run"],
                "kind": str(result.get("kind", "verify")),
                "verdict": result["verdict"],
                "headline": format_headline(result),
                "finished": result["finished"],
                "path": shorten_path(path.parent),
            }
    return None
