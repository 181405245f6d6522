"""The verb ``diagnose``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import threading
from pathlib import Path

from fullmesh.catalogue import add_verb
from fullmesh.faults import InvalidInputError
from fullmesh.play import options
from fullmesh.play.names import make_run_name, shorten_path
from fullmesh.play.options import JSON, PLAIN
from fullmesh.printed import measure_width, print_error, print_text
from fullmesh.settings import RUNS

OK, PROBLEM, USAGE = 0, 1, 2
SHOW = "fullmesh.diagnose.show"
DEADLINE = 60.0  # seconds for everything
SSH_SHARE, SSH_LEAST, SSH_MOST = (
    0.25,
    2,
    10,
)  # of the deadline, for a node that does not answer; seconds
# of the deadline, for a node's answer to each of three queries (a hung node gets one or two of them)
CALL_SHARE, CALL_LEAST = 0.4, 5
BANDWIDTH_MIB = 8
TAIL = 30


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "diagnose")
    options.add_inventory_option(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=float,
        default=DEADLINE,
        help=f"time for the whole diagnosis (default {DEADLINE:g})",
    )
    parser.add_argument(
        "--bandwidth",
        action="store_true",
        help="measure the rate of every link, and name the slow NIC, node or link",
    )
    parser.add_argument(
        "--no-job",
        action="store_true",
        help="do not test a login of the account that runs jobs",
    )
    options.add_playbook_options(parser, (*options.CONNECT, *options.RUN))
    parser.set_defaults(func=run_diagnose)


def build_diagnose_command(args: argparse.Namespace, name: str, *, quiet: bool = True) -> list[str]:
    """Build the call of ansible-playbook."""
    settings = {
        "diagnose_run": name,
        "diagnose_call_seconds": max(CALL_LEAST, int(args.deadline * CALL_SHARE)),
        "diagnose_runs_dir": str(RUNS),
        "diagnose_quiet": quiet,
        "diagnose_no_job": args.no_job,
        "diagnose_bandwidth": BANDWIDTH_MIB if args.bandwidth else 0,
    }
    inventory = str(Path(args.inventory).resolve())
    return [
        "ansible-playbook",
        "playbooks/diagnose.yml",
        "-i",
        inventory,
        "-e",
        json.dumps(settings),
        *options.list_ansible_words(args),
    ]


def build_diagnose_env(deadline: float) -> dict[str, str]:
    """Ansible's settings for a run that must end in time."""
    wait = int(min(SSH_MOST, max(SSH_LEAST, deadline * SSH_SHARE)))
    return dict(os.environ, ANSIBLE_TIMEOUT=str(wait), ANSIBLE_NOCOLOR="1")


def run_diagnose_playbook(args: argparse.Namespace) -> tuple[Path, bool]:
    """Run the diagnosis and show it. Return the run's folder, and whether it ended in time."""
    from fullmesh.play import run as runner  # noqa: PLC0415 (msgspec is slow to import; other verbs go without)

    name = make_run_name()
    # import the rules (0.2 s) while the nodes answer
    threading.Thread(target=importlib.import_module, args=(SHOW,), daemon=True).start()
    # with --json the result is what programs read, and progress is for people
    shown = runner.choose_view(PLAIN if args.json and args.progress == JSON else args.progress)
    outcome = runner.run_with_view(
        build_diagnose_command(args, name),
        shown,
        RUNS / name,
        env=build_diagnose_env(args.deadline),
        deadline=args.deadline,
    )
    return RUNS / name, outcome.in_time


def read_found_codes(folder: Path) -> set[str]:
    """Return the codes of a diagnosis's findings. None if it has no result."""
    from fullmesh.result import read  # noqa: PLC0415 (as above)

    path = folder / "result.json"
    return {row["code"] for row in read.load_result(path)["findings"]} if path.is_file() else set()


def run_diagnose(args: argparse.Namespace) -> int:
    """``fullmesh diagnose``."""
    try:
        args.inventory = str(options.find_inventory(args.inventory))
    except InvalidInputError as error:
        print_error(f"fullmesh: {error}")
        return USAGE
    if options.needs_raw_output(args):
        from fullmesh.verbs import playbook  # noqa: PLC0415 (as above)

        return (
            OK
            if playbook.run_ansible_raw(build_diagnose_command(args, make_run_name(), quiet=False))
            == 0
            else PROBLEM
        )
    folder, in_time = run_diagnose_playbook(args)
    return print_diagnosis(folder, folder / "ansible.log", as_json=args.json, in_time=in_time)


def print_diagnosis(folder: Path, log: Path, *, as_json: bool, in_time: bool) -> int:
    """Print the result, or why there is none."""
    path = folder / "result.json"
    if not path.is_file():
        words = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")[-TAIL:]
        why = "Ansible failed" if in_time else "the deadline passed"
        print_error("\n".join(words))
        print_error(
            f"fullmesh: [CL-112] No diagnosis: {why}. See {log}, then raise --deadline or fix the inventory."
        )
        return USAGE
    from fullmesh.diagnose import show  # noqa: PLC0415 (see look)
    from fullmesh.result import read  # noqa: PLC0415 (msgspec is slow to import; other verbs go without)

    try:
        found = read.load_result(path)
    except ValueError as error:
        print_error(f"fullmesh: {error}")
        return USAGE
    if as_json:
        print_text(path.read_text(encoding="utf-8").rstrip("\n"))
    else:
        lines = show.format_diagnosis(found, measure_width(sys.stdout))
        print_text("\n".join([*lines, f"result: {shorten_path(path)}"]))
    return PROBLEM if found["verdict"] == "failed" else OK
