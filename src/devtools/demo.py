"""The verb ``fullmesh demo``: start the lab, run site.yml on it and print the verdict. ``--break`` makes a mistake."""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from devtools.breaks import BREAKS, NAMES, Break
from devtools.lab import plan
from devtools.lab.plan import CLUSTER_INTERFACE
from fullmesh.catalogue import add_verb
from fullmesh.play import options
from fullmesh.play.names import make_run_name
from fullmesh.printed import print_text
from fullmesh.settings import ROOT, RUNS

if TYPE_CHECKING:  # slow to import
    from fullmesh.play.views import RunView

OK, PROBLEM = 0, 1
LAST_LINES = 20
LAB = [sys.executable, "-m", "fullmesh", "lab"]
# A mistake that a killed demo left on a node: the next demo reverts it first.
LEFT = ROOT / ".fullmesh/demo-break.json"
NEXT = (
    ("./fullmesh demo --break", "break something at random, and watch the diagnosis find it"),
    ("./fullmesh lab exec el1 -- bash", "look around on a node"),
    ("./fullmesh lab down", "take the lab away"),
    ("./fullmesh init", "your own machines"),
)


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``demo``."""
    parser = add_verb(verbs, "demo")
    parser.add_argument("--nodes", type=int, default=2, help="number of nodes (default 2)")
    parser.add_argument(
        "--break",
        dest="broken",
        nargs="?",
        const="random",
        choices=("random", *NAMES),
        metavar="CASE",
        help="break one thing on a node, let the diagnosis find it, and repair it (default: one at random):"
        f" {', '.join(NAMES)}",
    )
    parser.add_argument("--name", default=plan.DEFAULT_NAME, help="name of the lab (default demo)")
    options.add_playbook_options(parser)
    parser.set_defaults(func=run)


def lab_up(args: argparse.Namespace, shown: RunView, log: Path) -> Described | int:
    """Bring the lab up. Its output goes to the log, its last line to the view. Return its exit code if it fails."""
    from fullmesh.play.progress import RunPhase  # noqa: PLC0415 (slow to import; other verbs go without)

    phase = RunPhase("lab", time.time())
    shown.status("lab: starting")
    with log.open("ab") as stream:
        command = [*LAB, "up", "--name", args.name, "--nodes", str(args.nodes)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=stream)
        try:
            while process.poll() is None:
                time.sleep(0.1)
                words = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
                shown.status(words[-1] if words else "lab: starting")
                shown.tick()
        finally:
            if process.poll() is None:
                process.wait()
            shown.status("")
    phase.ended = time.time()
    if process.returncode:
        shown.close()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]:
            shown.say(line)
        shown.say(f"log: {log}")
        return process.returncode
    lab = described(args.name)
    phase.remark = ", ".join(f"{node['name']} ({node['os']})" for node in lab["nodes"])
    shown.ended(phase)
    return lab


class Node(TypedDict):
    """A node of the lab, as the lab describes it."""

    name: str
    os: str


class Described(TypedDict):
    """The lab, as it describes itself."""

    inventory: str
    nodes: list[Node]


def described(name: str) -> Described:
    """Ask the lab for its description."""
    command = [*LAB, "status", "--json", "--name", name]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: Described = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class Shell:
    """A shell as root on the nodes of a lab."""

    lab: str

    def on(self, node: str, script: str) -> str:
        """Run a script and return its output.

        Raises:
            RuntimeError: the script failed, with its output.
        """
        command = [*LAB, "exec", "--name", self.lab, node, "--", "sh", "-euc", script]
        done = subprocess.run(
            command, cwd=ROOT, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{node}: {done.stderr.strip()}")
        return done.stdout.strip()


def run(args: argparse.Namespace) -> int:
    """Run lab, site.yml and verdict; 0 if the cluster is verified."""
    from fullmesh.play import run as runner  # noqa: PLC0415 (msgspec is slow to import)
    from fullmesh.verbs import playbook  # noqa: PLC0415 (see above)

    folder = RUNS / make_run_name()
    folder.mkdir(parents=True)
    shown = runner.choose_view(args.progress, brief=True)
    started = time.monotonic()
    lab = lab_up(args, shown, folder / "lab.log")
    if isinstance(lab, int):
        return lab
    take_back_what_was_left()
    command = [
        "ansible-playbook",
        "site.yml",
        "-i",
        lab["inventory"],
        *options.list_ansible_words(args),
    ]
    if options.needs_raw_output(args):
        shown.close()
        return OK if playbook.run_ansible_raw(command) == 0 else PROBLEM
    outcome = runner.run_with_view(command, shown, folder)
    code = playbook.print_verification(shown, brief=True) if outcome.code or not args.broken else OK
    code = OK if code == OK and outcome.code == 0 else PROBLEM
    if shown.progress.result is None and outcome.code == 0 and not shown.progress.check:
        code = PROBLEM  # site.yml ended well and verified nothing
    playbook.show_run_end(shown, outcome)
    shown.say(f"took {time.monotonic() - started:.0f} s in all")
    if code == OK and args.broken:
        return break_one(args, lab)
    if code == OK:
        shown.say("next:")
        for typed, what in NEXT:
            shown.say(f"  {typed:<32} {what}")
    playbook.write_exit_event(shown, outcome, code)
    return code


def chosen(name: str) -> Break:
    """Choose the mistake to make."""
    if name == "random":
        return random.choice(BREAKS)  # noqa: S311 (a surprise, no secret)
    return next(one for one in BREAKS if one.case == name)


@contextmanager
def made(one: Break, shell: Shell, victim: str, peer: str) -> Iterator[None]:
    """Make the mistake, and revert it in any case."""
    first, last = shell.on(victim, "sysctl -n net.ipv4.ip_local_port_range").split()
    knows = f"FIRST={first}; LAST={last}; NIC={CLUSTER_INTERFACE}; P_NAME={peer}; "
    LEFT.parent.mkdir(exist_ok=True)
    LEFT.write_text(json.dumps({"lab": shell.lab, "node": victim, "undo": knows + one.undo}))
    try:
        shell.on(victim, knows + one.do)
        yield
    finally:
        shell.on(victim, knows + one.undo)
        LEFT.unlink()


def take_back_what_was_left() -> None:
    """Revert the mistake of a killed demo, unless its lab is gone."""
    if LEFT.exists():
        left = json.loads(LEFT.read_text())
        with contextlib.suppress(RuntimeError):
            Shell(left["lab"]).on(left["node"], left["undo"])
        LEFT.unlink()


def break_one(args: argparse.Namespace, lab: Described) -> int:
    """Break one thing, let the diagnosis find it, revert it; 0 if it was found."""
    from fullmesh.verbs import diagnose as diagnose_cli  # noqa: PLC0415 (as above)

    one, names = chosen(args.broken), [node["name"] for node in lab["nodes"]]
    victim, peer = (names[0], names[1]) if one.master else (names[1], names[0])
    print_text(f"\nOn {victim}, {one.story}. ./fullmesh diagnose says what is wrong:\n")
    wanted = argparse.Namespace(
        inventory=lab["inventory"],
        progress=args.progress,
        json=False,
        bandwidth=False,
        no_job=False,
        deadline=3 * diagnose_cli.DEADLINE,  # the nodes share this machine's CPUs
        more=[],
    )
    with made(one, Shell(args.name), victim, peer):
        folder, in_time = diagnose_cli.run_diagnose_playbook(wanted)
        diagnose_cli.print_diagnosis(folder, folder / "ansible.log", as_json=False, in_time=in_time)
    if one.code in diagnose_cli.read_found_codes(folder):
        print_text(
            f"\n{victim} is repaired. ./fullmesh explain {one.code} says more about this cause."
        )
        return OK
    problem = (
        f"The diagnosis should have reported [{one.code}]. This is a defect of Fullmesh."
        if in_time
        else "The diagnosis did not end in time. Fix: try again when this machine is less busy."
    )
    print_text(f"\n{victim} is repaired. {problem}")
    return PROBLEM
