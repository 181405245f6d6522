"""``fullmesh demo``: the lab, the whole of site.yml on it, the verdict."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from fullmesh.settings import ROOT, RUNS


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``demo``."""
    text = "bring the lab up on this machine, run site.yml on it, print the verdict"
    parser = verbs.add_parser("demo", help=text, description=text)
    parser.add_argument("--nodes", type=int, default=2, help="lab nodes, default 2")
    parser.add_argument(
        "more",
        nargs=argparse.REMAINDER,
        help="after --: options for ansible-playbook (--check, -e …)",
    )
    parser.set_defaults(func=run)


def _say(text: str) -> None:
    print(f"fullmesh: {text}", file=sys.stderr, flush=True)


def results() -> set[Path]:
    """Every result; the link ``latest`` counts as what it points at."""
    return {path.resolve() for path in RUNS.glob("*/result.json")}


def run(args: argparse.Namespace) -> int:
    """Lab, site.yml, verdict; 0 when the cluster is verified."""
    from fullmesh.report import terminal  # noqa: PLC0415 (rich is slow to import; other verbs go without)

    started = time.monotonic()
    lab = [sys.executable, "-m", "fullmesh", "lab", "up", "--nodes", str(args.nodes)]
    code = subprocess.run(lab, cwd=ROOT, check=False).returncode
    if code:
        return code
    _say(f"the lab is up after {time.monotonic() - started:.0f} s; running site.yml on it")
    before = results()
    command = ["ansible-playbook", "site.yml", "-i", "inventory/lab", *args.more]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    new = sorted(results() - before)
    if new:
        verdict = terminal.print_summary(new[-1])
        page = new[-1].with_name("report.html")
        _say(f"the report lies in {(page if page.exists() else new[-1]).relative_to(ROOT)}")
    else:
        _say("site.yml left no result: it ended before the verification, see its output above")
        verdict = 0 if code == 0 and "--check" in args.more else 1
    _say(f"took {time.monotonic() - started:.0f} s in all")
    return verdict if code == 0 else 1
