"""All that the small size in tests/unit tries a part of: every call, every pair of calls, every error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.transaction import engine
from test_crash_points import PROGRAM, count_ends


@pytest.mark.parametrize("boot", ["late", "early"])
def test_every_end_and_every_second_end(boot: str) -> None:
    assert count_ends("--pairs", "1", "--boot", boot) > 9000


def test_every_error_at_every_call() -> None:
    assert count_ends("--errors") > 1000


SECOND = ("--ends", "15", "--pairs", "1")
# What stood in the engine, or could have: the program has to see it.
BROKEN = {
    "a transaction goes file by file": (
        "os.rename(directory, aside)",
        "aside = directory",
        "the user's edits are gone",
        SECOND,
    ),
    "a rollback that is through begins again": (
        'write_report(directory, report, "back")',
        "pass",
        "the user's edits are gone",
        SECOND,
    ),
    "half written files stay": (
        "        remove_temporary_files(parent)",
        "        pass",
        "not as before",
        (),
    ),
    "no daemon is told": (
        'report["faults"] += run_all(commands or [])',
        "pass",
        "the daemon has read",
        (),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_engine_is_seen(tmp_path: Path, name: str) -> None:
    old, new, says, words = BROKEN[name]
    place = tmp_path / "module_utils/fullmesh/transaction/engine.py"
    program = tmp_path / "tests/support/crash_points.py"
    for path in (place, program):
        path.parent.mkdir(parents=True)
    source = Path(engine.__file__).read_text()
    assert old in source
    place.write_text(source.replace(old, new))
    program.write_bytes(PROGRAM.read_bytes())
    command = [sys.executable, str(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert says in done.stdout, done.stdout[-2000:] + done.stderr
