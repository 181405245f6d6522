"""The page of systems and tests: its parts are those of the test run, and it keeps what was recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools import parts, systems
from devtools.lab.plan import SYSTEMS
from devtools.systems import PassedRun


def test_the_page_has_the_parts_of_today() -> None:
    text = systems.PAGE.read_text(encoding="utf-8")
    again = systems.render_systems_page(systems.list_system_parts(), systems.parse_runs(text))
    assert text == again


def test_each_system_of_the_lab_has_a_part() -> None:
    covered = [name for part in systems.list_system_parts() for name in part.systems]
    assert all(any(one.startswith(name) for one in covered) for name in SYSTEMS.values())


def test_every_part_with_nodes_names_its_systems() -> None:
    named = {part.name for part in systems.list_system_parts()}
    with_nodes = {
        part.name
        for stage in parts.list_stages()
        for part in stage
        if part.name.startswith(("end to end", "molecule"))
    }
    assert named == with_nodes


def test_systems_without_a_test_are_listed() -> None:
    untested = systems.list_untested_systems()
    assert {"RedHat 10", "Ubuntu 22", "Ubuntu 26"} <= {*untested}
    assert not {"CentOS 9", "Ubuntu 24", "Debian 12", "Debian 13"} & {*untested}


def test_a_passed_part_is_recorded_and_a_selection_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "systems.md"
    cuts, debian = (
        part
        for part in systems.list_system_parts()
        if part.name in ("end to end cuts", "end to end debian")
    )
    earlier = {cuts.name: PassedRun("2026-01-02", "abc", 7)}
    page.write_text(systems.render_systems_page([cuts, debian], earlier), encoding="utf-8")
    monkeypatch.setattr(systems, "PAGE", page)
    systems.record_runs([(parts.select_for_ci(cuts), 3.0), (debian, 61.6)], "def-dirty")
    runs = systems.parse_runs(page.read_text(encoding="utf-8"))
    assert runs[cuts.name] == earlier[cuts.name]
    assert (runs[debian.name].commit, runs[debian.name].seconds) == ("def-dirty", 62)
    assert len(runs) == 2
