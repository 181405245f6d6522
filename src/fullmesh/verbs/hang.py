"""``fullmesh hang``: which rank of a running job keeps the others waiting, in which collective, at which line."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence

from fullmesh.catalogue import add_verb, warn_old_spelling
from fullmesh.causes.hang.job import CAUSE
from fullmesh.explain.records import RecordFinding
from fullmesh.faults import InvalidInputError
from fullmesh.hang import ask
from fullmesh.hang.dump import MOST_NAMED, Judged, jobs_to_json
from fullmesh.hang.jobs import find_left_out_processes, group_answers_by_job, number_job_file
from fullmesh.play import options
from fullmesh.play.names import shorten_path
from fullmesh.printed import clean_and_shorten, print_error, print_text
from fullmesh.report import hang
from fullmesh.settings import STARTED_IN
from fullmesh.verbs.watch import resolve_job_hosts

OK, PROBLEM, USAGE = 0, 1, 2
STALLED = 5.0
AGAIN = 3.0


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "hang")
    options.add_inventory_option(parser)
    parser.add_argument(
        "--job",
        default="",
        help="id of torchrun or Slurm, or ADDRESS:PORT of the master (default: all jobs)",
    )
    parser.add_argument(
        "--stalled",
        type=float,
        default=STALLED,
        metavar="SECONDS",
        help=f"time that a collective may take (default {STALLED:g})",
    )
    parser.add_argument(
        "--samples", type=int, default=2, help=f"number of queries, {AGAIN:g} s apart (default 2)"
    )
    parser.add_argument("--looks", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--html",
        metavar="FILE",
        default="",
        help="write a page for each job: its ranks and their collectives",
    )
    options.add_ansible_options(parser, options.CONNECT)
    parser.set_defaults(func=run_hang)


def print_hang_error(code: str, text: str) -> int:
    """Report an error of usage or of the environment."""
    print_error(f"fullmesh: [{code}] {clean_and_shorten(text, 2000)}")
    return USAGE


def run_hang(args: argparse.Namespace) -> int:
    """``fullmesh hang``."""
    if args.looks is not None:
        warn_old_spelling("hang --looks", "hang --samples")
        args.samples = args.looks
    if args.stalled < 0 or args.samples < 1:
        return print_hang_error(
            "HG-183",
            f"--stalled {args.stalled:g} and --samples {args.samples} are invalid. Use at least 0 and 1.",
        )
    try:
        inventory = options.find_inventory(args.inventory)
    except InvalidInputError as error:
        print_error(f"fullmesh: {error}")
        return USAGE
    try:
        part = resolve_job_hosts(inventory, options.list_ansible_words(args))
    except (ValueError, subprocess.TimeoutExpired) as exc:
        return print_hang_error(
            "HG-184", f"Ansible cannot read the inventory {shorten_path(inventory)}: {exc}"
        )
    answers = ask.query_hang_nodes(part["hosts"], args.job, [AGAIN] * (args.samples - 1))
    jobs, rest = group_answers_by_job(part["plan"], answers)
    left_out = find_left_out_processes(answers)
    if not jobs:
        silent = [f"{one.name}: {one.why}" for one in answers if one.why]
        silent += [one.cause for one in left_out] + [f"not judged: job {name}" for name in rest]
        return print_hang_error(
            "HG-181",
            "no rank of a job runs on these nodes, or only ranks of accounts that you cannot inspect"
            + (f" ({'; '.join(silent)})" if silent else "")
            + ". Start the job with fullmesh-torchrun, or find its owner: ps -ef | grep torch",
        )
    judged = [(job, job.findings(args.stalled)) for job in jobs]
    judged[0][1].extend(left_out)
    return print_judged_jobs(args, judged, rest)


def print_judged_jobs(args: argparse.Namespace, judged: Judged, rest: Sequence[str]) -> int:
    """Print the findings of all jobs, and write a page for each."""
    print_text(jobs_to_json(judged, rest) if args.json else render_jobs(judged, rest))
    if args.html:
        try:
            for number, (job, found) in enumerate(judged, 1):
                text = hang.render_hang_report(job.name, job.newest(), found)
                number_job_file(STARTED_IN / args.html, number).write_text(text, "utf-8")
        except OSError as exc:
            return print_hang_error(
                "HG-185", f"The page cannot be written to {args.html}: {exc.strerror}"
            )
    causes = [one for _, found in judged for one in found if one.severity == CAUSE]
    return PROBLEM if causes else OK


def render_jobs(judged: Judged, rest: Sequence[str]) -> str:
    """For people: job after job."""
    lines = []
    for job, found in judged:
        for number, one in enumerate(found, 1):
            lines += [*RecordFinding(one, ()).as_lines(number), ""]
        causes = sum(one.severity == CAUSE for one in found)
        hosts = {one["host"] for one in job.samples[-1]}
        end = f"{causes} cause{'s' if causes != 1 else ''}" if found else "nothing hangs"
        name = clean_and_shorten(f"job {job.name}{job.owner}")
        counts = (
            (len(job.samples[-1]), "rank"),
            (len(hosts), "node"),
            (len(job.samples), "sample"),
        )
        ranks, nodes, samples = (f"{n} {noun}{'s' if n != 1 else ''}" for n, noun in counts)
        lines += [f"{name}: {ranks} on {nodes}, {samples}: {end}.", ""]
    names = ", ".join(clean_and_shorten(name) for name in rest[:MOST_NAMED])
    more = f", and {len(rest) - MOST_NAMED} more" if len(rest) > MOST_NAMED else ""
    lines += [f"Not judged: {names}{more}. Name one: --job NAME", ""] if rest else []
    return "\n".join(lines[:-1])
