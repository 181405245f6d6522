"""``fullmesh hang``: which rank of a running job keeps the others waiting, in which collective, at which line."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from fullmesh.explain.model import clean
from fullmesh.explain.records import LONGEST, Told
from fullmesh.hang import ask, pages
from fullmesh.hang.judge import judge
from fullmesh.hang.types import CAUSE, Finding, Sample
from fullmesh.model.faults import RefusedError
from fullmesh.observed.hang import Rank
from fullmesh.play import options
from fullmesh.play.names import beside
from fullmesh.report import hang as report
from fullmesh.settings import STARTED_IN
from fullmesh.watch.cli import who_takes_part

OK, PROBLEM, USAGE = 0, 1, 2
SCHEMA = 1
STALLED = 5.0
AGAIN = 3.0


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
        help="torchrun's or Slurm's id, or ADDRESS:PORT of its master, where several jobs run",
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
        "--html", metavar="FILE", default="", help="write a page with its ranks against collectives"
    )
    options.add_ansible_options(parser, options.CONNECT)
    parser.set_defaults(func=run)


def fail(code: str, text: str) -> int:
    """Say a fault of usage or of the environment."""
    sys.stderr.write(f"fullmesh: [{code}] {clean(text, 2000)}\n")
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
        sys.stderr.write(f"fullmesh: {error}\n")
        return USAGE
    try:
        part = who_takes_part(inventory, options.words(args))
    except (ValueError, subprocess.TimeoutExpired) as exc:
        return fail("HG-184", f"Ansible cannot read the inventory {beside(inventory)}: {exc}")
    answers = ask.nodes(part["hosts"], args.job, [AGAIN] * (args.looks - 1))
    jobs = sorted({job for one in answers for look in one.looks for job in look["jobs"]})
    if len(jobs) > 1:
        return fail("HG-182", f"several jobs run: {', '.join(jobs)}. Name one: --job {jobs[0]}")
    samples = ask.samples(part["plan"], answers)
    if not samples:
        silent = "; ".join(f"{one.name}: {one.why}" for one in answers if one.why)
        return fail(
            "HG-181",
            "no rank of a job runs on these nodes, or none of an account that may be looked at"
            + (f" ({silent})" if silent else "")
            + ". Start the job with fullmesh-torchrun, or see who runs it: ps -ef | grep torch",
        )
    return show(args, jobs[0], samples, judge(samples, args.stalled))


def show(
    args: argparse.Namespace,
    job: str,
    samples: Sequence[Sequence[Rank]],
    found: Sequence[Finding],
) -> int:
    """Say what was found, and write the page."""
    sys.stdout.write(as_json(job, samples, found) if args.json else as_text(job, samples, found))
    if args.html:
        try:
            (STARTED_IN / args.html).write_text(report.render(job, newest(samples), found), "utf-8")
        except OSError as exc:
            return fail("HG-185", f"the page cannot be written to {args.html}: {exc.strerror}")
    return PROBLEM if any(one.severity == CAUSE for one in found) else OK


def newest(samples: Sequence[Sequence[Rank]]) -> Sample:
    """All ranks at the last look."""
    return Sample({one["rank"]: one for one in samples[-1]})


def as_json(job: str, samples: Sequence[Sequence[Rank]], found: Sequence[Finding]) -> str:
    """For programs."""
    data = {
        "schema": SCHEMA,
        "job": clean(job),
        "ranks": len(samples[-1]),
        "looks": len(samples),
        "findings": [plain(one) for one in found],
    }
    return json.dumps(data, indent=2) + "\n"


def plain(finding: Finding) -> dict[str, Any]:
    """A finding for programs: rank, collective and line are fields of their own."""
    found = {
        name: clean(value, LONGEST) if isinstance(value, str) else value
        for name, value in finding.as_dict().items()
    }
    page = pages.PAGES[finding.code]
    follows = [plain(one) for one in finding.follows]
    return {**found, "prove": page.prove, "page": pages.page_of(finding.code), "follows": follows}


def as_text(job: str, samples: Sequence[Sequence[Rank]], found: Sequence[Finding]) -> str:
    """For people."""
    lines = []
    for number, one in enumerate(found, 1):
        lines += [*Told(one, ()).as_lines(number), ""]
    causes = sum(one.severity == CAUSE for one in found)
    hosts = {one["host"] for one in samples[-1]}
    seen = f"job {clean(job)}: {len(samples[-1])} ranks on {len(hosts)} nodes, looked at {len(samples)} times"
    end = f"{causes} cause{'s' if causes != 1 else ''}" if found else "nothing stands"
    return "\n".join([*lines, f"{seen}: {end}."]) + "\n"
