"""What ``apply``, ``verify``, ``undo`` and the demo share: a playbook in front of the user, and what it came to."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fullmesh.play import foresight, lines, options, run
from fullmesh.play.names import beside, run_name
from fullmesh.play.run import Outcome
from fullmesh.play.views import Json, View
from fullmesh.settings import ROOT, RUNS

OK, PROBLEM = 0, 1


def closing(shown: View, outcome: Outcome) -> None:
    """Where it stands at the end, and where everything lies."""
    progress = shown.progress
    if outcome.code and not progress.over:
        for line in run.last_words(outcome.log):
            shown.say(line)
    if progress.over:
        shown.say(lines.ending(progress))
    page = report_of(shown)
    if page is not None:
        shown.say(f"report: {beside(page)}")
    shown.say(f"log: {beside(outcome.log)}")


def told_to_programs(shown: View, outcome: Outcome, code: int) -> None:
    """The last line of ``--progress json``."""
    result = str(shown.progress.result or "")
    shown.raw(
        json.dumps({"event": "exit", "code": code, "log": str(outcome.log), "result": result})
    )


def summary(shown: View, *, brief: bool = False) -> int:
    """Print the result of a verification, if there is one; 0 unless it has failed."""
    if shown.progress.result is None:
        return OK
    if isinstance(shown, Json):
        from fullmesh.result import read  # noqa: PLC0415 (as below)

        return OK if read.load(shown.progress.result)["verdict"] == "ok" else PROBLEM
    from fullmesh.report import terminal  # noqa: PLC0415 (rich is slow to import, and a failed run needs none)

    return terminal.print_summary(shown.progress.result, brief=brief)


def play(playbook: str, inventory: str, args: argparse.Namespace) -> int:
    """Run it; 0 when all is well, 1 for a problem."""
    command = ["ansible-playbook", playbook, "-i", inventory, *options.words(args)]
    if options.raw(args):
        return OK if passed_on(command) == 0 else PROBLEM
    shown = run.view(args.progress)
    outcome = run.run(command, shown, RUNS / run_name())
    code = summary(shown)
    code = OK if code == OK and outcome.code == 0 else PROBLEM
    closing(shown, outcome)
    told_to_programs(shown, outcome, code)
    return code


def foresee(playbook: str, inventory: str, args: argparse.Namespace, more: Sequence[str]) -> int:
    """Run it in check mode and show what it would change; 0 when nothing stands in its way."""
    command = [
        "ansible-playbook",
        playbook,
        "-i",
        inventory,
        "--check",
        *more,
        *options.words(args),
    ]
    if options.raw(args):
        return OK if passed_on(command) == 0 else PROBLEM
    shown = run.view(args.progress)
    outcome = run.run(command, shown, RUNS / run_name())
    code = OK if outcome.code == 0 else PROBLEM
    if not isinstance(shown, Json):
        told = foresight.table(shown.progress.changes, len(shown.progress.changed()))
        sys.stdout.write("".join(f"{line}\n" for line in ["", *told, ""] if told))
        sys.stdout.flush()
    closing(shown, outcome)
    told_to_programs(shown, outcome, code)
    return code


def report_of(shown: View) -> Path | None:
    """The page beside the result, or the result where there is none."""
    if shown.progress.result is None:
        return None
    page = shown.progress.result.with_name("report.html")
    return page if page.exists() else shown.progress.result


def passed_on(command: Sequence[str]) -> int:
    """Everything as Ansible prints it."""
    sys.stdout.flush()
    return subprocess.run(list(command), cwd=ROOT, check=False).returncode  # noqa: S603 (our own program, and the user's options)
