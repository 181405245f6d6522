"""The verbs ``fullmesh dev`` (a shell or one command in the developer's environment) and ``fullmesh lock``."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

from fullmesh.catalogue import add_verb
from fullmesh.settings import ROOT

SHELL = "/bin/bash"
WELCOME = f"""\
The developer's environment of {ROOT}: pytest, ruff, mypy, molecule, ansible-lint and the rest by
their names; leave it with exit.
  pytest -q tests/unit/test_plan.py      ./fullmesh test --fast      ./fullmesh docs      docs/CONTRIBUTING.md
"""

EXPORT = ("export", "--quiet", "--frozen", "--no-emit-project", "--no-annotate", "--no-header")
# Locks that pip installs without uv. One file has packages alone, since uv writes its own command line into a header.
EXPORTED = {
    "requirements.txt": (),
    "requirements-ec2.txt": ("--only-group", "ec2"),
    ".config/uv.txt": ("--only-group", "uv"),
}
# Nodes have an older Python than the controller, and a project of uv has only one oldest Python.
NODES = "tests/support/requirements-nodes"
COMPILE = "pip compile --quiet --no-config --universal --generate-hashes --no-header --no-annotate"


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs ``dev`` and ``lock``."""
    parser = add_verb(verbs, "dev")
    parser.add_argument(
        "more", nargs=argparse.REMAINDER, metavar="COMMAND", help="default: your shell"
    )
    parser.set_defaults(func=run)
    add_verb(verbs, "lock").set_defaults(func=write_lock_files)


def run(args: argparse.Namespace) -> int:
    """Run the command; return its exit code."""
    command = list(args.more) or [os.environ.get("SHELL", SHELL)]
    if not args.more:
        sys.stderr.write(WELCOME)
    # the launcher has added the environment's programs and the sources to the paths
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def write_lock_files(_args: argparse.Namespace) -> int:
    """Lock the dependencies, and export the files for pip; 0 if uv succeeded."""
    nodes = [
        *COMPILE.split(),
        "--no-emit-index-url",
        "--python-version",
        "3.9",
        f"{NODES}.in",
        "-o",
        f"{NODES}.txt",
    ]
    exports = ([*EXPORT, *which, "-o", name] for name, which in EXPORTED.items())
    for words in (["lock"], *exports, nodes):
        code = subprocess.run(["uv", *words], cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
        if code.returncode:
            return 1
    for path in (ROOT / name for name in (*EXPORTED, f"{NODES}.txt")):
        path.write_text(join_hash_lines(path.read_text()))
    return 0


def join_hash_lines(lock: str) -> str:
    """Return a lock with one line for each package, so that a diff shows packages and not hashes."""
    return re.sub(r" \\\n\s+--hash", " --hash", lock)
