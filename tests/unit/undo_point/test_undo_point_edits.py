"""Undo points: later edits of others are kept."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import restore as state_restore
from ansible.module_utils.fullmesh.state import undo
from undo_node import (
    HOSTS,
    ROLE_FILE,
    change_hosts_mode,
    list_kept_files,
    replace_hosts_by_link,
    restore_state,
    run_role,
    select_state,
    write_file,
)


@pytest.mark.parametrize("runs", [1, 2])
def test_unchanged_role_file_is_not_kept(node: undo.NodeSystem, runs: int) -> None:
    write_file(node, HOSTS, "theirs\n")
    for _ in range(runs):
        run_role(node)
    result = restore_state(node)
    assert result["kept"] == []
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"
    assert list_kept_files(node, HOSTS) == list_kept_files(node, ROLE_FILE) == []


@pytest.mark.parametrize("path", [HOSTS, ROLE_FILE])
def test_edited_file_is_kept_and_named(node: undo.NodeSystem, path: str) -> None:
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    write_file(node, path, "ours\nand mine\n", 0o640)
    preview = restore_state(node, check=True)
    assert list_kept_files(node, path) == []
    result = restore_state(node)
    assert result["kept"] == preview["kept"]
    assert [one["path"] for one in result["kept"]] == [path]
    kept = Path(node.at(result["kept"][0]["kept"]))
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("ours\nand mine\n", 0o640)
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"
    assert not Path(node.at(ROLE_FILE)).exists()
    runs = restore_state(node)
    assert (runs["changed"], runs["kept"], len(list_kept_files(node, path))) == (False, [], 1)


def test_check_mode_predicts_a_folder_kept_for_backups(node: undo.NodeSystem) -> None:
    path = "/etc/demo/conf.d/ours"
    undo.remember_state(node, "demo", select_state(files=[path]), check=False)
    write_file(node, path, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    write_file(node, path, "mine\n")
    preview, result = restore_state(node, check=True), restore_state(node)
    assert preview["restored"] == result["restored"] == ["file:" + path]
    assert Path(node.at("/etc/demo/conf.d")).is_dir()


def test_edit_kept_by_a_later_run_is_saved(node: undo.NodeSystem) -> None:
    """The role has removed one line of a foreign network file, and does not change the file in later runs."""
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    write_file(node, HOSTS, "ours\nand mine\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS, ROLE_FILE]), check=False)
    undo.record_written_files(node, "demo", check=False)
    assert [one["path"] for one in restore_state(node)["kept"]] == [HOSTS]


def test_edit_overwritten_by_a_later_run_is_not_saved(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    write_file(node, HOSTS, "mine\n")
    run_role(node, **{HOSTS: "ours, newer\n"})
    assert restore_state(node)["kept"] == []


def test_record_without_saved_state_claims_no_edit(node: undo.NodeSystem) -> None:
    """static_ip saves nothing in a run without changes."""
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    write_file(node, HOSTS, "mine\n")
    undo.record_written_files(node, "demo", check=False)
    assert [one["path"] for one in restore_state(node)["kept"]] == [HOSTS]


def test_changed_mode_or_missing_file_is_not_kept(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    change_hosts_mode(node)
    Path(node.at(ROLE_FILE)).unlink()
    assert restore_state(node)["kept"] == []


def test_new_link_is_kept_as_a_link(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    replace_hosts_by_link(node)
    kept = restore_state(node)["kept"]
    assert os.readlink(node.at(kept[0]["kept"])) == "/elsewhere"
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"


def test_unrecorded_file_is_kept(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS, ROLE_FILE]), check=False)
    write_file(node, HOSTS, "who knows\n")
    write_file(node, ROLE_FILE, "ours\n")
    assert [one["path"] for one in restore_state(node)["kept"]] == [HOSTS]


def test_two_versions_of_one_day_are_both_kept(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    for text in ("one\n", "two\n", "one\n"):
        write_file(node, HOSTS, text)
        restore_state(node)
    assert sorted(list_kept_files(node, HOSTS)) == ["one\n", "two\n"]


def test_files_that_the_role_restores_are_left_out(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    write_file(node, HOSTS, "merged\n")
    write_file(node, ROLE_FILE, "mine\n")
    restoration = undo.Restoration(node, "demo", False, [], [HOSTS])
    assert [one["path"] for one in restoration.only_keep()["kept"]] == [ROLE_FILE]
    assert (Path(node.at(HOSTS)).read_text(), Path(node.at(ROLE_FILE)).read_text()) == (
        "merged\n",
        "mine\n",
    )
    assert undo.Restoration(node, "demo", False, [], [HOSTS]).run()["restored"] == [
        "file:" + ROLE_FILE
    ]
    assert Path(node.at(HOSTS)).read_text() == "merged\n"


def test_file_is_not_overwritten_if_it_cannot_be_kept(
    node: undo.NodeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    write_file(node, HOSTS, "mine\n")

    def fail_without_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_restore, "replace_file", fail_without_space)
    with pytest.raises(undo.UndoError, match=r"UN-104\].*/etc/hosts was changed.*No space left"):
        restore_state(node)
    assert Path(node.at(HOSTS)).read_text() == "mine\n"
