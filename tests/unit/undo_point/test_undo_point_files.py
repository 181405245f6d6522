"""Undo points: files, folders and links come back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import undo, written
from undo_node import HOSTS, change_mode, put, remove, replace_by_link, restore, wanted


def edit(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "ours\n", 0o600)


@pytest.mark.parametrize("damage", [edit, remove, replace_by_link, change_mode])
def test_a_file_is_restored_with_bytes_and_mode(
    node: undo.NodeSystem, damage: Callable[[undo.NodeSystem], None]
) -> None:
    file = put(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS]), check=False)
    damage(node)
    result = restore(node)
    assert result["restored"] == ["file:" + HOSTS]
    assert not file.is_symlink()
    assert file.read_text() == "theirs\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert restore(node)["changed"] is False


def test_a_new_file_is_removed_with_its_new_folders(node: undo.NodeSystem) -> None:
    path = "/etc/demo/conf.d/60-demo.conf"
    undo.remember_state(node, "demo", wanted(files=[path]), check=False)
    put(node, path, "ours\n")
    before = restore(node, check=True)
    assert Path(node.at(path)).exists()
    assert restore(node)["restored"] == before["restored"]
    assert before["restored"] == [
        "file:" + path,
        "directory:/etc/demo/conf.d",
        "directory:/etc/demo",
    ]
    assert not Path(node.at("/etc/demo")).exists()


def test_a_folder_with_a_foreign_file_stays(node: undo.NodeSystem) -> None:
    undo.remember_state(node, "demo", wanted(directories=["/etc/demo"]), check=False)
    other = put(node, "/etc/demo/other", "theirs\n")
    assert restore(node)["changed"] is False
    assert other.exists()


def test_a_directory_that_was_there_stays(node: undo.NodeSystem) -> None:
    Path(node.at("/etc/demo")).mkdir()
    undo.remember_state(node, "demo", wanted(directories=["/etc/demo"]), check=False)
    assert restore(node)["changed"] is False
    assert Path(node.at("/etc/demo")).is_dir()


def test_a_link_is_restored(node: undo.NodeSystem) -> None:
    link = Path(node.at("/etc/demo"))
    link.symlink_to("/usr/lib/demo")
    undo.remember_state(node, "demo", wanted(files=["/etc/demo"]), check=False)
    link.unlink()
    put(node, "/etc/demo", "ours\n")
    assert restore(node)["changed"] is True
    assert os.readlink(link) == "/usr/lib/demo"


def test_the_first_state_stays_the_original(node: undo.NodeSystem) -> None:
    file = put(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS]), check=False)
    file.write_text("ours\n")
    second = undo.remember_state(node, "demo", wanted(files=[HOSTS, "/etc/new"]), check=False)
    assert second["saved"] == ["files:/etc/new"]
    assert (
        undo.remember_state(node, "demo", wanted(files=[HOSTS, "/etc/new"]), False)["changed"]
        is False
    )
    restore(node)
    assert file.read_text() == "theirs\n"


def test_check_mode_lists_what_it_would_save(node: undo.NodeSystem) -> None:
    result = undo.remember_state(node, "demo", wanted(files=[HOSTS]), check=True)
    assert result["saved"] == ["files:" + HOSTS]
    assert "files:" + HOSTS in result["diff"]["after"]
    assert not Path(node.at("/var/lib/fullmesh")).exists()


def test_the_store_is_private(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS]), check=False)
    store = Path(node.at(written.STORE))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [store, *store.rglob("*")]}
    assert modes == {0o700, 0o600}


def test_a_mounted_file_is_written_in_place(
    node: undo.NodeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(node, HOSTS, "theirs\n")
    inode = file.stat().st_ino
    undo.remember_state(node, "demo", wanted(files=[HOSTS]), check=False)
    put(node, HOSTS, "ours, and longer\n", 0o600)
    undo.record_written_files(node, "demo", check=False)

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "rename", busy)
    restore(node)
    assert (file.read_text(), file.stat().st_ino) == ("theirs\n", inode)
    assert [path.name for path in file.parent.iterdir()] == ["hosts"]


@pytest.mark.parametrize("path", ["hosts", "/", "/etc/../hosts", "/etc//hosts", "/etc/"])
def test_an_unclear_path_is_refused(node: undo.NodeSystem, path: str) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        undo.remember_state(node, "demo", wanted(files=[path]), check=False)


def test_a_directory_among_the_paths_is_refused(node: undo.NodeSystem) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        undo.remember_state(node, "demo", wanted(files=["/etc"]), check=False)


@pytest.mark.parametrize("role", ["", "../up", "Demo"])
def test_an_unclear_role_is_refused(node: undo.NodeSystem, role: str) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        undo.remember_state(node, role, wanted(), check=False)
