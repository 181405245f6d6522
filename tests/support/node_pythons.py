"""The unit tests of what runs on nodes, with the oldest and the newest Python that nodes have.

``python tests/support/node_pythons.py`` makes an environment for each, lays the code out as Ansible does, and runs
every unit test that needs no code of the controller's (node_only.py says which). An interpreter that this machine has
not is named, and none at all is a failure.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pythons import NODES, copy_node_files, find_interpreter

from fullmesh.settings import ROOT

LOCK = ROOT / "tests/support/requirements-nodes.txt"
PLACE = ROOT / ".fullmesh/node-python"
# The lab, the interpreters, the live view and Ansible's plugins: these files do not concern code on nodes.
LEFT_OUT = (
    "lab",
    "test_ansible_private.py",
    "test_gpu_acceptance.py",
    "test_node_python.py",
    "test_play.py",
    "test_preload.py",
)


def make_environment(version: str, python: str) -> Path:
    """Make an environment with the tests' requirements once per lock. Return its interpreter."""
    place = PLACE / version
    stamp = place / "made-of"
    made_of = hashlib.sha256(LOCK.read_bytes() + python.encode()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != made_of:
        subprocess.run([python, "-m", "venv", "--clear", place], check=True)
        pip = [
            str(place / "bin/python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, "--require-hashes", "-r", str(LOCK)], check=True)
        stamp.write_text(made_of)
    return place / "bin/python"


def run_tests(version: str, python: str, more: list[str]) -> int:
    """Run the tests; pytest's exit code."""
    with tempfile.TemporaryDirectory() as top:
        left_out = [f"--ignore=tests/unit/{name}" for name in LEFT_OUT]
        words = ["-m", "pytest", "-q", "-n", "4", "-p", "node_only", "-p", "no:cacheprovider"]
        path = [str(copy_node_files(Path(top))), str(ROOT / "tests/support")]
        done = subprocess.run(
            [make_environment(version, python), *words, *left_out, *(more or ["tests/unit"])],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            check=False,
        )
    return done.returncode


def main() -> int:
    """0 when all passed with every interpreter of this machine, and there is one."""
    codes = {}
    for version in NODES:
        python = find_interpreter(version)
        if not python:
            sys.stdout.write(f"Python {version}: none on this machine, so nothing was tried\n")
            continue
        sys.stdout.write(f"Python {version}: {python}\n")
        sys.stdout.flush()
        codes[version] = run_tests(version, python, sys.argv[1:])
    return max(codes.values(), default=1)


if __name__ == "__main__":
    sys.exit(main())
