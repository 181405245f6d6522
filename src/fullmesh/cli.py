"""The command line: thin verbs over ansible-playbook and the lab.

Exit codes: 0 all well, 1 a problem was found, 2 usage or environment.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fullmesh import __version__, demo, testing
from fullmesh.explain import cli as explain_cli
from fullmesh.lab import cli as lab_cli
from fullmesh.settings import ROOT

OK, PROBLEM, USAGE = 0, 1, 2

CODES = {
    "CL-101": "a system package is missing and cannot be installed from here",
    "CL-102": "apt-get failed",
    "CL-103": "no Python 3.11 or newer",
    "CL-104": "pip could not install the locked requirements",
    "CL-105": "another fullmesh holds the virtual environment's lock",
    "CL-106": "an inventory that does not exist",
    "CL-107": "no run to report on",
    "CL-108": "a test part or scenario that does not exist",
    "CL-109": "a code that does not exist",
    "CL-110": "a log that cannot be read",
    "CL-111": "a data range on the command line that is none",
}


def playbook(name: str, inventory: str, more: Sequence[str]) -> int:
    """Run a playbook of this checkout; ansible-playbook's failures become exit code 1."""
    if not Path(inventory).exists():
        print(
            f"fullmesh: [CL-106] no inventory at {inventory}. Copy inventory/prod and name it with -i.",
            file=sys.stderr,
        )
        return USAGE
    command = ["ansible-playbook", name, "-i", str(Path(inventory).resolve()), *more]
    done = subprocess.run(command, cwd=ROOT, check=False)
    return OK if done.returncode == 0 else PROBLEM


def _apply(args: argparse.Namespace) -> int:
    return playbook("site.yml", args.inventory, args.more)


def _verify(args: argparse.Namespace) -> int:
    return playbook("playbooks/verify.yml", args.inventory, args.more)


def _plan(args: argparse.Namespace) -> int:
    return playbook("playbooks/show_plan.yml", args.inventory, args.more)


def _undo(args: argparse.Namespace) -> int:
    return playbook("playbooks/undo.yml", args.inventory, args.more)


def _report(args: argparse.Namespace) -> int:
    from fullmesh import report  # noqa: PLC0415 (rich is slow to import; other verbs go without)

    runs = sorted((ROOT / "runs").glob("*/result.json"))
    path = Path(args.run) if args.run else (runs[-1] if runs else None)
    if path is not None and path.is_dir():
        path = path / "result.json"
    if path is None or not path.is_file():
        print(
            f"fullmesh: [CL-107] no result at {path or ROOT / 'runs'}. Run ./fullmesh verify first.",
            file=sys.stderr,
        )
        return USAGE
    return report.print_summary(path)


def _lock(_args: argparse.Namespace) -> int:
    flags = "--universal --generate-hashes --python-version 3.11 --no-header --no-emit-index-url"
    for name, more in (("requirements", []), ("requirements-dev", ["-c", "requirements.txt"])):
        command = ["uv", "pip", "compile", "--quiet", *flags.split(), "--no-emit-find-links", *more]
        command += [f"{name}.in", "-o", f"{name}.txt"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            return PROBLEM
    return OK


def _inventory_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=text, description=text)
    parser.add_argument(
        "-i", "--inventory", default="inventory/prod", help="default: inventory/prod"
    )
    parser.add_argument(
        "more",
        nargs=argparse.REMAINDER,
        help="after --: options for ansible-playbook (--check, --limit …)",
    )
    return parser


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="fullmesh", description="From bare nodes to a verified PyTorch-distributed cluster."
    )
    parser.add_argument("--version", action="version", version=f"fullmesh {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    demo.register(verbs)
    testing.register(verbs)
    lab_cli.register(verbs)
    explain_cli.register(verbs)
    for name, text, func in (
        ("apply", "run site.yml: configure and verify the nodes", _apply),
        ("verify", "run only the verification ladder; changes nothing", _verify),
        ("plan", "print the cluster plan of an inventory; contacts no node", _plan),
        ("undo", "give the nodes back as they were", _undo),
    ):
        _inventory_verb(verbs, name, text).set_defaults(func=func)
    report = verbs.add_parser("report", help="print the verdict of a run (default: the last one)")
    report.add_argument("run", nargs="?", help="runs/<time> or a result.json")
    report.set_defaults(func=_report)
    lock = verbs.add_parser("lock", help="write requirements*.txt anew from the .in files")
    lock.set_defaults(func=_lock)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    os.chdir(ROOT)
    args = build_parser().parse_args(argv)
    if getattr(args, "more", None) and args.more[0] == "--":
        args.more = args.more[1:]
    try:
        return int(args.func(args))
    except KeyboardInterrupt:
        print("fullmesh: interrupted", file=sys.stderr)
        return 130
