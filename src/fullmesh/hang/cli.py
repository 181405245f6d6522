"""``fullmesh hang``: which rank of a running job keeps the others waiting, in which collective, at which line."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from typing import Any

from fullmesh.explain.records import LONGEST, Told
from fullmesh.hang import ask, pages
from fullmesh.hang.jobs import AskedJob, list_left_out, number_file, sort_jobs
from fullmesh.hang.types import CAUSE, Finding
from fullmesh.model.faults import RefusedError
from fullmesh.play import options
from fullmesh.play.names import beside
from fullmesh.printed import clean, print_error, print_text
from fullmesh.report import hang as report
from fullmesh.settings import STARTED_IN
from fullmesh.watch.cli import who_takes_part

OK, PROBLEM, USAGE = 0, 1, 2
SCHEMA = 1
STALLED = 5.0
AGAIN = 3.0
MOST_NAMED = 8  # of the jobs that are not judged


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    text = "say which rank of a running job keeps the others waiting, in which collective, at which line"
    parser = verbs.add_parser(
        "hang",
        help=text,
        description=f"{text}. Changes nothing in the job. Exit code 0: nothing stands, 1: a cause was found.",
    )
    options.add_inventory(parser)
    parser.add_argument(
        "--job",
        default="",
        help="torchrun's or Slurm's id, or ADDRESS:PORT of its master (default: all jobs)",
    )
    parser.add_argument(
        "--stalled",
        type=float,
        default=STALLED,
        metavar="SECONDS",
        help=f"that a collective may take (default {STALLED:g})",
    )
    parser.add_argument(
        "--looks", type=int, default=2, help=f"how often to look, {AGAIN:g} s apart (default 2)"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--html",
        metavar="FILE",
        default="",
        help="write a page for each job with its ranks against collectives",
    )
    options.add_ansible_options(parser, options.CONNECT)
    parser.set_defaults(func=run)


def fail(code: str, text: str) -> int:
    """Say a fault of usage or of the environment."""
    print_error(f"fullmesh: [{code}] {clean(text, 2000)}")
    return USAGE


def run(args: argparse.Namespace) -> int:
    """``fullmesh hang``."""
    if args.stalled < 0 or args.looks < 1:
        return fail(
            "HG-183",
            f"--stalled {args.stalled:g} and --looks {args.looks} make no look. Use 0 and 1 or more.",
        )
    try:
        inventory = options.find_inventory(args.inventory)
    except RefusedError as error:
        print_error(f"fullmesh: {error}")
        return USAGE
    try:
        part = who_takes_part(inventory, options.words(args))
    except (ValueError, subprocess.TimeoutExpired) as exc:
        return fail("HG-184", f"Ansible cannot read the inventory {beside(inventory)}: {exc}")
    answers = ask.nodes(part["hosts"], args.job, [AGAIN] * (args.looks - 1))
    jobs, rest = sort_jobs(part["plan"], answers)
    left_out = list_left_out(answers)
    if not jobs:
        silent = [f"{one.name}: {one.why}" for one in answers if one.why]
        silent += [one.cause for one in left_out] + [f"not judged: job {name}" for name in rest]
        return fail(
            "HG-181",
            "no rank of a job runs on these nodes, or none of an account that may be looked at"
            + (f" ({'; '.join(silent)})" if silent else "")
            + ". Start the job with fullmesh-torchrun, or see who runs it: ps -ef | grep torch",
        )
    judged = [(job, job.findings(args.stalled)) for job in jobs]
    judged[0][1].extend(left_out)
    return show(args, judged, rest)


Judged = Sequence[tuple[AskedJob, Sequence[Finding]]]


def show(args: argparse.Namespace, judged: Judged, rest: Sequence[str]) -> int:
    """Print the findings of all jobs, and write a page for each."""
    print_text(as_json(judged, rest) if args.json else as_text(judged, rest))
    if args.html:
        try:
            for number, (job, found) in enumerate(judged, 1):
                text = report.render(job.name, job.newest(), found)
                number_file(STARTED_IN / args.html, number).write_text(text, "utf-8")
        except OSError as exc:
            return fail("HG-185", f"the page cannot be written to {args.html}: {exc.strerror}")
    causes = [one for _, found in judged for one in found if one.severity == CAUSE]
    return PROBLEM if causes else OK


def as_json(judged: Judged, rest: Sequence[str]) -> str:
    """For programs: the first job, and the others as ``others``."""
    first, *others = [
        {
            "schema": SCHEMA,
            "job": clean(job.name),
            "account": clean(job.account),
            "ranks": len(job.samples[-1]),
            "looks": len(job.samples),
            "findings": [plain(one) for one in found],
        }
        for job, found in judged
    ]
    data = {**first, "others": others, "not_judged": [clean(name) for name in rest[:MOST_NAMED]]}
    return json.dumps(data, indent=2)


def plain(finding: Finding) -> dict[str, Any]:
    """A finding for programs: rank, collective and line are fields of their own."""
    found = {
        name: clean(value, LONGEST) if isinstance(value, str) else value
        for name, value in finding.as_dict().items()
    }
    page = pages.PAGES[finding.code]
    follows = [plain(one) for one in finding.follows]
    return {**found, "prove": page.prove, "page": pages.page_of(finding.code), "follows": follows}


def as_text(judged: Judged, rest: Sequence[str]) -> str:
    """For people: job after job."""
    lines = []
    for job, found in judged:
        for number, one in enumerate(found, 1):
            lines += [*Told(one, ()).as_lines(number), ""]
        causes = sum(one.severity == CAUSE for one in found)
        hosts = {one["host"] for one in job.samples[-1]}
        end = f"{causes} cause{'s' if causes != 1 else ''}" if found else "nothing stands"
        name = clean(f"job {job.name}{job.owner}")
        seen = f"{len(job.samples[-1])} ranks on {len(hosts)} nodes"
        lines += [f"{name}: {seen}, looked at {len(job.samples)} times: {end}.", ""]
    names = ", ".join(clean(name) for name in rest[:MOST_NAMED])
    more = f", and {len(rest) - MOST_NAMED} more" if len(rest) > MOST_NAMED else ""
    lines += [f"Not judged: {names}{more}. Name one: --job NAME", ""] if rest else []
    return "\n".join(lines[:-1])
