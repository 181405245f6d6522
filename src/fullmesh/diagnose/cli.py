"""The verb ``diagnose``."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from fullmesh.diagnose import show
from fullmesh.settings import ROOT, RUNS

OK, PROBLEM, USAGE = 0, 1, 2
DEADLINE = 60.0  # seconds for everything
SSH_SHARE, SSH_LEAST, SSH_MOST = (
    0.25,
    2,
    10,
)  # of the deadline, for a node that does not answer; seconds
SIGN_OF_LIFE = 8.0  # seconds of silence, then a line that says what is waited for
BANDWIDTH_MIB = 8
TAIL = 30


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    text = "name what is wrong between the nodes, and the cure; changes nothing"
    parser = verbs.add_parser(
        "diagnose",
        help=text,
        description=f"{text}. Works on nodes that Fullmesh never configured, too. Exit code 0: nothing wrong, 1: causes"
        " were found, 2: usage or environment.",
    )
    parser.add_argument(
        "-i", "--inventory", default="inventory/prod", help="default: inventory/prod"
    )
    parser.add_argument("--json", action="store_true", help="print the result for programs")
    parser.add_argument(
        "--deadline",
        type=float,
        default=DEADLINE,
        help=f"seconds for everything, default {DEADLINE:g}",
    )
    parser.add_argument(
        "--bandwidth",
        action="store_true",
        help="measure the rate of every link, one after the other",
    )
    parser.add_argument(
        "more",
        nargs=argparse.REMAINDER,
        help="after --: options for ansible-playbook (--limit, -b …)",
    )
    parser.set_defaults(func=run)


def run_name() -> str:
    """Name of the directory of this run."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def command(args: argparse.Namespace, name: str) -> list[str]:
    """The call of ansible-playbook."""
    settings = {
        "diagnose_run": name,
        "diagnose_runs_dir": str(RUNS),
        "diagnose_quiet": True,
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
        *args.more,
    ]


def environment(deadline: float) -> dict[str, str]:
    """Ansible's settings for a run that must end in time."""
    wait = int(min(SSH_MOST, max(SSH_LEAST, deadline * SSH_SHARE)))
    return dict(os.environ, ANSIBLE_TIMEOUT=str(wait), ANSIBLE_NOCOLOR="1")


def wait_for(process: subprocess.Popen[str], deadline: float) -> bool:
    """Wait, with a sign of life; False when the deadline passed and the run was ended."""
    begun = time.monotonic()
    while True:
        left = deadline - (time.monotonic() - begun)
        try:
            process.wait(timeout=min(SIGN_OF_LIFE, max(0.1, left)))
            return True
        except subprocess.TimeoutExpired:
            spent = time.monotonic() - begun
            if spent >= deadline:
                process.terminate()
                process.wait()
                return False
            sys.stderr.write(
                f"fullmesh: {spent:.0f} s of at most {deadline:.0f}: waiting for nodes to answer\n"
            )


def run(args: argparse.Namespace) -> int:
    """``fullmesh diagnose``."""
    if not Path(args.inventory).exists():
        sys.stderr.write(
            f"fullmesh: [CL-106] no inventory at {args.inventory}. Copy inventory/prod and name it with -i.\n"
        )
        return USAGE
    name = run_name()
    folder = RUNS / name
    folder.mkdir(parents=True)
    log = folder / "ansible.log"
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(  # noqa: S603 (the program's name stands in our own code)
            command(args, name),
            cwd=ROOT,
            env=environment(args.deadline),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            in_time = wait_for(process, args.deadline)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    return report(folder, log, as_json=args.json, in_time=in_time)


def report(folder: Path, log: Path, *, as_json: bool, in_time: bool) -> int:
    """Print the result, or why there is none."""
    path = folder / "result.json"
    if not path.is_file():
        words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-TAIL:]
        why = "Ansible failed" if in_time else "the deadline passed"
        sys.stderr.write("\n".join(words) + "\n")
        sys.stderr.write(
            f"fullmesh: [CL-112] no diagnosis: {why}. See {log}; raise --deadline, or fix the inventory.\n"
        )
        return USAGE
    from fullmesh.result import read  # noqa: PLC0415 (msgspec is slow to import; other verbs go without)

    try:
        found = read.load(path)
    except ValueError as error:
        sys.stderr.write(f"fullmesh: {error}\n")
        return USAGE
    if as_json:
        sys.stdout.write(path.read_text(encoding="utf-8"))
    else:
        sys.stdout.write("\n".join([*show.lines(found), f"result: {path}"]) + "\n")
    return PROBLEM if found["verdict"] == "failed" else OK
