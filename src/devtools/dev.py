"""``fullmesh dev``: a shell, or one command, with everything that changing Fullmesh takes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from fullmesh.settings import ROOT

SHELL = "/bin/bash"
WELCOME = f"""\
The developer's environment of {ROOT}: pytest, ruff, mypy, molecule, ansible-lint and the rest by
their names; leave it with exit.
  pytest -q tests/unit/test_plan.py      ./fullmesh test --fast      ./fullmesh docs      CONTRIBUTING.md
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``dev``."""
    text = "make the developer's environment, and open a shell or run one command in it"
    parser = verbs.add_parser("dev", help=text, description=text)
    parser.add_argument(
        "more", nargs=argparse.REMAINDER, metavar="COMMAND", help="default: your shell"
    )
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Hand over; the exit code is the command's."""
    command = list(args.more) or [os.environ.get("SHELL", SHELL)]
    if not args.more:
        sys.stderr.write(WELCOME)
    # the launcher has put the environment's programs and the sources on the paths
    return subprocess.run(command, cwd=ROOT, check=False).returncode
