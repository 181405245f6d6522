"""The schedules of tests/unit, as many as it takes; and engines with a fault, which they have to see."""

from __future__ import annotations

from pathlib import Path

import crash_points
import pytest
from ansible.module_utils.fullmesh.transaction import engine
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from test_schedules import FOUND, Schedules

LARGE = settings(
    max_examples=600,
    stateful_step_count=50,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


def test_ten_thousand_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    monkeypatch.setattr(Schedules, "check_invariants", counted(steps))
    run_state_machine_as_test(Schedules, settings=LARGE)
    print(len(steps), "steps")  # noqa: T201 (a figure of docs/development/reliability.md)
    assert len(steps) > 10_000


def counted(steps: list[int]) -> object:
    """What Hypothesis calls after each step, and counts."""
    real = Schedules.check_invariants

    def check(self: Schedules, *words: object, **named: object) -> None:
        steps.append(1)
        real(self, *words, **named)

    return check


# Possible defects of the engine. Each needs more than one event to show.
BROKEN = {
    # looked at before, and while it is claimed
    "anybody may confirm": (
        ('waits and journal.get("token") != token', "False"),
        ('if json.load(stream).get("token") != token:', "if False:"),
    ),
    # by the guard, before and while it is claimed
    "a late timer ends whatever has its name": (
        (
            'other = bool(token) and (journal_of(directory) or {}).get("token") != token',
            "other = False",
        ),
        ('if json.load(stream).get("token") != token:', "if False:"),
        ('while journal and journal["token"] == token and', "while journal and"),
    ),
    "what was confirmed leaves its unit": (
        (
            'gone = state not in ("confirmed", "") or remove_boot(journal.get("boot_unit", []))',
            "gone = True",
        ),
    ),
    "a second run does not finish the first": (
        (
            'if state in ("armed", "restoring"):\n            restore_transaction(',
            "if False:\n            restore_transaction(",
        ),
    ),
    "a boot forgets what was being restored": (
        (
            'if state in ("armed", "restoring"):\n            try:',
            'if state == "armed":\n            try:',
        ),
    ),
    "the daemon is not told at boot": (("run_all(commands or [])", "run_all([])"),),
}


def known_and_drawn() -> None:
    """The orders that were found before, and many more."""
    for order in FOUND:
        order()
    run_state_machine_as_test(Schedules, settings=settings(LARGE, phases=[Phase.generate]))


@pytest.mark.parametrize("name", BROKEN)
def test_a_fault_that_needs_several_events_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    source = Path(engine.__file__).read_text()
    for old, new in BROKEN[name]:
        assert old in source
        source = source.replace(old, new, 1)
    (tmp_path / "engine.py").write_text(source)
    monkeypatch.setattr(crash_points, "ENGINE", tmp_path / "engine.py")
    with pytest.raises(AssertionError):
        known_and_drawn()
