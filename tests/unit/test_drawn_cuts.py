"""tests/cuts/drawn.py: the same number draws the same schedule, and the numbers reach all that can be drawn."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "cuts/drawn.py"
SPEC = importlib.util.spec_from_file_location("drawn", PATH)
assert SPEC is not None
assert SPEC.loader is not None
drawn = importlib.util.module_from_spec(SPEC)
sys.modules["drawn"] = drawn
SPEC.loader.exec_module(drawn)
NAMES = ("el1", "ubuntu1")


def test_a_number_is_a_schedule() -> None:
    assert drawn.draw(7, NAMES) == drawn.draw(7, NAMES)
    assert len({drawn.draw(seed, NAMES).words() for seed in range(100)}) == 100


def test_fifty_numbers_reach_every_change_end_and_event() -> None:
    every = [drawn.draw(seed, NAMES) for seed in range(50)]
    events = [one for schedule in every for found in schedule.events.values() for one in found]
    assert {one.kind for one in events} == set(drawn.EVENTS)
    assert {one.change for one in every} == {"network", "firewall"}
    assert {one.dies_at for one in every} == {"", *drawn.TASKS}
    assert {kind for one in every for kind in one.spoilt.values()} == {"right", *drawn.SPOILT}
    assert any(one.killed for one in every)


def test_a_valid_change_is_not_confirmed_and_reboot_comes_last() -> None:
    for schedule in (drawn.draw(seed, NAMES) for seed in range(300)):
        assert ("right" in schedule.spoilt.values()) == bool(schedule.dies_at)
        for found in schedule.events.values():
            assert "reboot" not in [one.kind for one in found[:-1]]
            assert all(one.at >= 0 for one in found)
            assert all((one.seconds > 0) == (one.kind in drawn.LASTING) for one in found)
