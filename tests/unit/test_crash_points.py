"""The transaction engine is ended, or gets an error, at every call that it makes (tests/support/crash_points.py)."""

from __future__ import annotations

import json
import subprocess
import sys

from fullmesh.settings import ROOT

PROGRAM = ROOT / "tests/support/crash_points.py"


def count_ends(*words: str) -> int:
    """How many ends were tried; none of them left a mixed node."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    print(words, said["tried"], said["seconds"])  # noqa: T201 (the figures of docs/development/reliability.md)
    assert said["wrong"] == {}
    return int(said["tried"])


def test_some_ends_and_some_errors() -> None:
    assert count_ends("--ends", "5") > 100
    assert count_ends("--errors", "--ends", "7") > 100
