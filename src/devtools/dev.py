"""``fullmesh dev``: a shell, or one command, with everything that changing Fullmesh takes; and ``fullmesh lock``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from fullmesh.catalogue import add_verb
from fullmesh.settings import ROOT

SHELL = "/bin/bash"
WELCOME = f"""\
The developer's environment of {ROOT}: pytest, ruff, mypy, molecule, ansible-lint and the rest by
their names; leave it with exit.
  pytest -q tests/unit/test_plan.py      ./fullmesh test --fast      ./fullmesh docs      CONTRIBUTING.md
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs ``dev`` and ``lock``."""
    parser = add_verb(verbs, "dev")
    parser.add_argument(
        "more", nargs=argparse.REMAINDER, metavar="COMMAND", help="default: your shell"
    )
    parser.set_defaults(func=run)
    add_verb(verbs, "lock").set_defaults(func=write_lock_files)


def run(args: argparse.Namespace) -> int:
    """Hand over; the exit code is the command's."""
    command = list(args.more) or [os.environ.get("SHELL", SHELL)]
    if not args.more:
        sys.stderr.write(WELCOME)
    # the launcher has put the environment's programs and the sources on the paths
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def write_lock_files(_args: argparse.Namespace) -> int:
    """``fullmesh lock``."""
    flags = "--universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links"
    same = ["-c", "requirements.txt"]
    both = [*same, "-c", "requirements-ec2.txt"]
    # the oldest Python that each is for: the controller's, and a node's
    locks: tuple[tuple[str, str, list[str]], ...] = (
        ("requirements", "3.11", []),
        ("requirements-ec2", "3.11", same),
        ("requirements-docs", "3.11", same),
        ("requirements-dev", "3.11", [*both, "-c", "requirements-docs.txt"]),
        ("requirements-reliability", "3.11", [*both, "-c", "requirements-dev.txt"]),
        ("tests/support/requirements-nodes", "3.9", []),
        ("tests/support/requirements-navigator", "3.11", ["-c", "requirements-dev.txt"]),
    )
    for name, python, more in locks:
        command = ["uv", "pip", "compile", "--quiet", *flags.split(), "--python-version", python]
        command += [*more, f"{name}.in", "-o", f"{name}.txt"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            return 1
    return 0
