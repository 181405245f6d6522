"""Shared by ``apply``, ``verify``, ``undo`` and the demo: run a playbook, and show its progress and its result."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.play import foresight, lines, options, run
from fullmesh.play.names import make_run_name, shorten_path
from fullmesh.play.progress import CONTROLLER
from fullmesh.play.run import RunOutcome
from fullmesh.play.views import JsonView, RunView
from fullmesh.printed import clean_values, measure_width, print_error, print_text
from fullmesh.settings import ROOT, RUNS

OK, PROBLEM = 0, 1
SCHEMA = 1


def show_run_end(shown: RunView, outcome: RunOutcome) -> None:
    """Print the final state and the paths of the log and the result."""
    progress = shown.progress
    if outcome.code and not progress.over:
        for line in run.read_ansible_log_tail(outcome.log):
            shown.say(line)
    if progress.over:
        shown.say(lines.describe_run_changes(progress))
    page = find_report_page(shown)
    if page is not None:
        shown.say(f"report: {shorten_path(page)}")
    shown.say(f"log: {shorten_path(outcome.log)}")


def write_exit_event(shown: RunView, outcome: RunOutcome, code: int) -> None:
    """Write the last line of ``--progress json``."""
    result = str(shown.progress.result or "")
    shown.raw(
        json.dumps({"event": "exit", "code": code, "log": str(outcome.log), "result": result})
    )


def print_verification(shown: RunView, *, brief: bool = False) -> int:
    """Print the result of a verification, if there is one. Return 0 unless it failed."""
    if shown.progress.result is None:
        return OK
    if isinstance(shown, JsonView):
        return read_verification(shown)
    from fullmesh.report import terminal  # noqa: PLC0415 (rich is slow to import, and a failed run needs none)

    return terminal.print_summary(shown.progress.result, brief=brief)


def read_verification(shown: RunView) -> int:
    """Return 0 unless a verification failed. Prints nothing."""
    if shown.progress.result is None:
        return OK
    from fullmesh.result import read  # noqa: PLC0415 (slow to import)

    return OK if read.load_result(shown.progress.result)["verdict"] == "ok" else PROBLEM


def run_playbook_verb(
    playbook: str, inventory: str, args: argparse.Namespace, *, preview: str = ""
) -> int:
    """Run a playbook. Return 0, or 1 if there is a problem. *preview*: the verb that previews its changes."""
    command = ["ansible-playbook", playbook, "-i", inventory, *options.list_ansible_words(args)]
    typed = format_command(preview, inventory, args) if preview else ""
    if options.needs_raw_output(args):
        if typed and not options.has_preview_option(command):
            hosts = list_playbook_tasks(playbook, inventory, options.list_ansible_words(args)).hosts
            print_error(lines.render_change_notice(hosts, typed))
        return OK if run_ansible_raw(command) == 0 else PROBLEM
    shown = choose_run_view(args)
    shown.preview = typed
    outcome = run.run_with_view(command, shown, RUNS / make_run_name())
    code = read_verification(shown) if wants_json(args) else print_verification(shown)
    code = OK if code == OK and outcome.code == 0 else PROBLEM
    show_run_end(shown, outcome)
    write_exit_event(shown, outcome, code)
    if wants_json(args):
        print_text(render_run_document(shown, outcome, code))
    return code


def wants_json(args: argparse.Namespace) -> bool:
    """Return whether the verb prints one JSON document. The demo and init have no such option."""
    return bool(getattr(args, "json", False))


def choose_run_view(args: argparse.Namespace) -> RunView:
    """With ``--json``, standard output has the document, and progress is for people."""
    plain = wants_json(args) and args.progress == options.JSON
    return run.choose_view(options.PLAIN if plain else args.progress)


def render_run_document(shown: RunView, outcome: RunOutcome, code: int) -> str:
    """Describe the result of a run for programs (docs/progress.md)."""
    from fullmesh.result import read  # noqa: PLC0415 (as below)

    progress = shown.progress
    data = {
        "schema": SCHEMA,
        "exit": code,
        "check": progress.check,
        "changed": progress.changed(),
        "changes": [
            {"node": one.host, "role": one.role, "task": one.task, "what": list(one.what)}
            for one in progress.changes
        ],
        "failures": [
            {"nodes": list(one.hosts), "phase": one.phase, "task": one.task, "text": one.message}
            for one in progress.failures
        ],
        "result": read.load_result(progress.result) if progress.result else None,
        "log": str(outcome.log),
    }
    return json.dumps(clean_values(data), indent=2)


def preview_playbook(
    playbook: str, inventory: str, args: argparse.Namespace, more: Sequence[str]
) -> int:
    """Run it in check mode and preview its changes. Return 0 if nothing prevents them."""
    command = [
        "ansible-playbook",
        playbook,
        "-i",
        inventory,
        "--check",
        *more,
        *options.list_ansible_words(args),
    ]
    if options.needs_raw_output(args):
        return OK if run_ansible_raw(command) == 0 else PROBLEM
    shown = choose_run_view(args)
    outcome = run.run_with_view(command, shown, RUNS / make_run_name())
    code = OK if outcome.code == 0 else PROBLEM
    if wants_json(args):
        print_text(render_run_document(shown, outcome, code))
    elif not isinstance(shown, JsonView):
        table = foresight.render_change_table(
            shown.progress.changes, len(shown.progress.changed()), measure_width(sys.stdout)
        )
        if table:
            print_text("\n".join(["", *table, ""]))
    show_run_end(shown, outcome)
    write_exit_event(shown, outcome, code)
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


def list_playbook_tasks(playbook: str, inventory: str, more: Sequence[str]) -> PlaybookListing:
    """Query Ansible for the hosts and tasks of a playbook under these options, without contacting a node.

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
        step = f"Check: ansible-inventory -i {shorten_path(Path(inventory))} --list"
        raise InvalidInputError([Fault("CL-120", f"Ansible cannot list the nodes: {why}", step)])
    hosts = dict.fromkeys(re.findall(r"^ {6}(\S+)$", done.stdout, re.MULTILINE))
    hosts.pop(CONTROLLER, None)
    roles = re.findall(r"^ {6}Undo (?:role|the) (\w+)\t", done.stdout, re.MULTILINE)
    return PlaybookListing(tuple(sorted(hosts)), tuple(roles))


def confirm_undo(playbook: str, inventory: str, args: argparse.Namespace) -> bool:
    """Show the nodes and the roles to undo, and ask on the terminal. Returns whether to continue.

    Raises:
        RefusedError: no terminal can answer.
    """
    if not sys.stdin.isatty():
        text = "undo asks before it changes a node, and standard input is not a terminal"
        raise InvalidInputError([Fault("CL-118", text, "Fix: add --yes")])
    listed = list_playbook_tasks(playbook, inventory, options.list_ansible_words(args))
    if not listed.hosts:
        return True  # no question is needed, and Ansible reports the reason
    typed = format_command("undo --dry-run", inventory, args)
    width = measure_width(sys.stderr) or lines.WIDTH
    for line in lines.render_undo_notice(listed.hosts, listed.roles, typed, width):
        print_error(line)
    sys.stderr.write("Continue? y or n [n]: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    print_error("Nothing was changed.")
    return False


def format_command(verb: str, inventory: str, args: argparse.Namespace) -> str:
    """Return the command of another verb for the same nodes and tasks."""
    chosen = options.format_chosen_options(options.list_ansible_words(args))
    return f"./fullmesh {verb} -i {shorten_path(Path(inventory))}{chosen}"


def find_report_page(shown: RunView) -> Path | None:
    """Return the page next to the result, or the result if there is none."""
    if shown.progress.result is None:
        return None
    page = shown.progress.result.with_name("report.html")
    return page if page.exists() else shown.progress.result


def run_ansible_raw(command: Sequence[str]) -> int:
    """Run it with Ansible's own output."""
    sys.stdout.flush()
    return subprocess.run(list(command), cwd=ROOT, check=False).returncode  # noqa: S603 (our own program, and the user's options)
