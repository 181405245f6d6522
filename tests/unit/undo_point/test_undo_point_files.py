"""Undo points: files, folders and links are restored."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import undo, written
from undo_node import (
    HOSTS,
    change_hosts_mode,
    remove_hosts,
    replace_hosts_by_link,
    restore_state,
    select_state,
    write_file,
)


def edit_hosts(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "ours\n", 0o600)


@pytest.mark.parametrize(
    "damage", [edit_hosts, remove_hosts, replace_hosts_by_link, change_hosts_mode]
)
def test_a_file_is_restored_with_bytes_and_mode(
    node: undo.NodeSystem, damage: Callable[[undo.NodeSystem], None]
) -> None:
    file = write_file(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    damage(node)
    result = restore_state(node)
    assert result["restored"] == ["file:" + HOSTS]
    assert not file.is_symlink()
    assert file.read_text() == "theirs\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert restore_state(node)["changed"] is False


def test_a_new_file_is_removed_with_its_new_folders(node: undo.NodeSystem) -> None:
    path = "/etc/demo/conf.d/60-demo.conf"
    undo.remember_state(node, "demo", select_state(files=[path]), check=False)
    write_file(node, path, "ours\n")
    before = restore_state(node, check=True)
    assert Path(node.at(path)).exists()
    assert restore_state(node)["restored"] == before["restored"]
    assert before["restored"] == [
        "file:" + path,
        "directory:/etc/demo/conf.d",
        "directory:/etc/demo",
    ]
    assert not Path(node.at("/etc/demo")).exists()


def test_a_folder_with_a_foreign_file_stays(node: undo.NodeSystem) -> None:
    undo.remember_state(node, "demo", select_state(directories=["/etc/demo"]), check=False)
    other = write_file(node, "/etc/demo/other", "theirs\n")
    assert restore_state(node)["changed"] is False
    assert other.exists()


def test_existing_directory_is_kept(node: undo.NodeSystem) -> None:
    Path(node.at("/etc/demo")).mkdir()
    undo.remember_state(node, "demo", select_state(directories=["/etc/demo"]), check=False)
    assert restore_state(node)["changed"] is False
    assert Path(node.at("/etc/demo")).is_dir()


def test_a_link_is_restored(node: undo.NodeSystem) -> None:
    link = Path(node.at("/etc/demo"))
    link.symlink_to("/usr/lib/demo")
    undo.remember_state(node, "demo", select_state(files=["/etc/demo"]), check=False)
    link.unlink()
    write_file(node, "/etc/demo", "ours\n")
    assert restore_state(node)["changed"] is True
    assert os.readlink(link) == "/usr/lib/demo"


def test_first_saved_state_is_the_original(node: undo.NodeSystem) -> None:
    file = write_file(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    file.write_text("ours\n")
    second = undo.remember_state(node, "demo", select_state(files=[HOSTS, "/etc/new"]), check=False)
    assert second["saved"] == ["files:/etc/new"]
    assert (
        undo.remember_state(node, "demo", select_state(files=[HOSTS, "/etc/new"]), False)["changed"]
        is False
    )
    restore_state(node)
    assert file.read_text() == "theirs\n"


def test_check_mode_lists_what_it_would_save(node: undo.NodeSystem) -> None:
    result = undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=True)
    assert result["saved"] == ["files:" + HOSTS]
    assert "files:" + HOSTS in result["diff"]["after"]
    assert not Path(node.at("/var/lib/fullmesh")).exists()


def test_the_store_is_private(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    store = Path(node.at(written.STORE))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [store, *store.rglob("*")]}
    assert modes == {0o700, 0o600}


def test_a_mounted_file_is_written_in_place(
    node: undo.NodeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_file(node, HOSTS, "theirs\n")
    inode = file.stat().st_ino
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    write_file(node, HOSTS, "ours, and longer\n", 0o600)
    undo.record_written_files(node, "demo", check=False)

    def fail_as_busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "rename", fail_as_busy)
    restore_state(node)
    assert (file.read_text(), file.stat().st_ino) == ("theirs\n", inode)
    assert [path.name for path in file.parent.iterdir()] == ["hosts"]


@pytest.mark.parametrize("path", ["hosts", "/", "/etc/../hosts", "/etc//hosts", "/etc/"])
def test_unclear_path_is_rejected(node: undo.NodeSystem, path: str) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        undo.remember_state(node, "demo", select_state(files=[path]), check=False)


def test_directory_as_a_file_is_rejected(node: undo.NodeSystem) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        undo.remember_state(node, "demo", select_state(files=["/etc"]), check=False)


@pytest.mark.parametrize("role", ["", "../up", "Demo"])
def test_invalid_role_name_is_rejected(node: undo.NodeSystem, role: str) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        undo.remember_state(node, role, select_state(), check=False)
