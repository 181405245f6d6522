"""Undo points: what others changed since is kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import restore as state_restore
from ansible.module_utils.fullmesh.state import undo
from undo_node import (
    HOSTS,
    OURS,
    beside,
    change_mode,
    put,
    replace_by_link,
    restore,
    role_runs,
    wanted,
)


@pytest.mark.parametrize("again", [1, 2])
def test_an_unchanged_role_file_needs_no_backup(node: undo.NodeSystem, again: int) -> None:
    put(node, HOSTS, "theirs\n")
    for _ in range(again):
        role_runs(node)
    result = restore(node)
    assert result["kept"] == []
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"
    assert beside(node, HOSTS) == beside(node, OURS) == []


@pytest.mark.parametrize("path", [HOSTS, OURS])
def test_an_edited_file_is_saved_beside_and_named(node: undo.NodeSystem, path: str) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, path, "ours\nand mine\n", 0o640)
    would = restore(node, check=True)
    assert beside(node, path) == []
    result = restore(node)
    assert result["kept"] == would["kept"]
    assert [one["path"] for one in result["kept"]] == [path]
    kept = Path(node.at(result["kept"][0]["kept"]))
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("ours\nand mine\n", 0o640)
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"
    assert not Path(node.at(OURS)).exists()
    again = restore(node)
    assert (again["changed"], again["kept"], len(beside(node, path))) == (False, [], 1)


def test_check_mode_reports_a_folder_that_stays_for_backups(node: undo.NodeSystem) -> None:
    path = "/etc/demo/conf.d/ours"
    undo.remember_state(node, "demo", wanted(files=[path]), check=False)
    put(node, path, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    put(node, path, "mine\n")
    would, did = restore(node, check=True), restore(node)
    assert would["restored"] == did["restored"] == ["file:" + path]
    assert Path(node.at("/etc/demo/conf.d")).is_dir()


def test_an_edit_that_a_later_run_kept_still_counts(node: undo.NodeSystem) -> None:
    """A network file of others of which we took one line out: the role leaves it alone from then on."""
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "ours\nand mine\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS, OURS]), check=False)
    undo.record_written_files(node, "demo", check=False)
    assert [one["path"] for one in restore(node)["kept"]] == [HOSTS]


def test_an_edit_that_a_later_run_overwrote_is_ours(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "mine\n")
    role_runs(node, **{HOSTS: "ours, newer\n"})
    assert restore(node)["kept"] == []


def test_an_end_without_a_start_claims_nothing(node: undo.NodeSystem) -> None:
    """static_ip remembers nothing in a run that has nothing to do."""
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "mine\n")
    undo.record_written_files(node, "demo", check=False)
    assert [one["path"] for one in restore(node)["kept"]] == [HOSTS]


def test_a_changed_mode_or_missing_file_needs_no_backup(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    change_mode(node)
    Path(node.at(OURS)).unlink()
    assert restore(node)["kept"] == []


def test_an_edited_link_is_saved_as_a_link(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    replace_by_link(node)
    kept = restore(node)["kept"]
    assert os.readlink(node.at(kept[0]["kept"])) == "/elsewhere"
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"


def test_an_unknown_file_is_saved_as_foreign(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS, OURS]), check=False)
    put(node, HOSTS, "who knows\n")
    put(node, OURS, "ours\n")
    assert [one["path"] for one in restore(node)["kept"]] == [HOSTS]


def test_two_versions_of_one_day_are_both_kept(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    for text in ("one\n", "two\n", "one\n"):
        put(node, HOSTS, text)
        restore(node)
    assert sorted(beside(node, HOSTS)) == ["one\n", "two\n"]


def test_a_role_that_gives_its_files_back_by_itself(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "merged\n")
    put(node, OURS, "mine\n")
    back = undo.Restoration(node, "demo", False, [], [HOSTS])
    assert [one["path"] for one in back.only_keep()["kept"]] == [OURS]
    assert (Path(node.at(HOSTS)).read_text(), Path(node.at(OURS)).read_text()) == (
        "merged\n",
        "mine\n",
    )
    assert undo.Restoration(node, "demo", False, [], [HOSTS]).run()["restored"] == ["file:" + OURS]
    assert Path(node.at(HOSTS)).read_text() == "merged\n"


def test_a_file_that_cannot_be_saved_is_not_overwritten(
    node: undo.NodeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "mine\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_restore, "replace_file", full)
    with pytest.raises(undo.UndoError, match=r"UN-104\].*/etc/hosts was changed.*No space left"):
        restore(node)
    assert Path(node.at(HOSTS)).read_text() == "mine\n"
