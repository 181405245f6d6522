"""What ``apply``, ``verify``, ``undo`` and the demo share: a playbook in front of the user, and what it came to."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fullmesh.model.faults import Fault, RefusedError
from fullmesh.play import foresight, lines, options, run
from fullmesh.play.names import beside, run_name
from fullmesh.play.progress import CONTROLLER
from fullmesh.play.run import Outcome
from fullmesh.play.views import Json, View
from fullmesh.printed import print_error, print_text
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


def play(playbook: str, inventory: str, args: argparse.Namespace, *, preview: str = "") -> int:
    """Run it; 0 when all is well, 1 for a problem. *preview*: the verb that shows what it would change."""
    command = ["ansible-playbook", playbook, "-i", inventory, *options.words(args)]
    typed = format_command(preview, inventory, args) if preview else ""
    if options.raw(args):
        if typed and not options.changes_nothing(command):
            hosts = list_tasks(playbook, inventory, options.words(args)).hosts
            print_error(lines.change_notice(hosts, typed))
        return OK if passed_on(command) == 0 else PROBLEM
    shown = run.view(args.progress)
    shown.preview = typed
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
        if told:
            print_text("\n".join(["", *told, ""]))
    closing(shown, outcome)
    told_to_programs(shown, outcome, code)
    return code


@dataclass(frozen=True)
class PlaybookListing:
    """The hosts and roles of a playbook, by Ansible's own lists.

    Attributes:
        hosts: of its plays, without the controller.
        roles: that ``undo`` would undo, in their order.
    """

    hosts: tuple[str, ...]
    roles: tuple[str, ...]


def list_tasks(playbook: str, inventory: str, more: Sequence[str]) -> PlaybookListing:
    """Ask Ansible which hosts and tasks a playbook has under these options; contacts no node.

    Raises:
        RefusedError: Ansible cannot read the inventory or the options.
    """
    kept = [word for word in more if not options.ANSIBLES_OWN.match(word)]
    command = ["ansible-playbook", playbook, "-i", inventory, *kept, "--list-hosts", "--list-tasks"]
    done = subprocess.run(  # noqa: S603 (our own program, and the user's options)
        command, cwd=ROOT, check=False, capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        why = " ".join((done.stderr.strip() or done.stdout.strip()).split())
        step = f"Check: ansible-inventory -i {beside(Path(inventory))} --list"
        raise RefusedError([Fault("CL-120", f"Ansible cannot list the nodes: {why}", step)])
    hosts = dict.fromkeys(re.findall(r"^ {6}(\S+)$", done.stdout, re.MULTILINE))
    hosts.pop(CONTROLLER, None)
    roles = re.findall(r"^ {6}Undo (?:the )?(\w+)\t", done.stdout, re.MULTILINE)
    return PlaybookListing(tuple(sorted(hosts)), tuple(roles))


def confirm_undo(playbook: str, inventory: str, args: argparse.Namespace) -> bool:
    """Show the nodes and the roles to undo, and ask on the terminal. Returns whether to go on.

    Raises:
        RefusedError: no terminal can answer.
    """
    if not sys.stdin.isatty():
        text = "undo asks before it changes a node, and standard input is not a terminal"
        raise RefusedError([Fault("CL-118", text, "Fix: add --yes")])
    listed = list_tasks(playbook, inventory, options.words(args))
    if not listed.hosts:
        return True  # there is nothing to ask, and Ansible says why
    for line in lines.undo_notice(
        listed.hosts, listed.roles, format_command("undo --plan", inventory, args)
    ):
        print_error(line)
    sys.stderr.write("Continue? y or n [n]: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print_error("Nothing was changed.")
    return False


def format_command(verb: str, inventory: str, args: argparse.Namespace) -> str:
    """Return the command of another verb for the same nodes and tasks."""
    chosen = options.repeat_choice(options.words(args))
    return f"./fullmesh {verb} -i {beside(Path(inventory))}{chosen}"


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
