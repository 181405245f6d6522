"""Undo points: files in folders of other accounts."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import undo_point
from ansible.module_utils.fullmesh.state import restore as state_restore
from ansible.module_utils.fullmesh.state import undo, written
from undo_node import HOSTS, beside, put, restore, role_runs, wanted

PROM = "/srv/text/fullmesh.prom"


STRANGER = 65534


AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can be led to files of others")


@pytest.fixture
def theirs(node: undo.NodeSystem) -> Path:
    folder = Path(node.at(os.path.dirname(PROM)))
    folder.mkdir(parents=True)
    os.chown(folder, STRANGER, STRANGER)
    return folder


@AS_ROOT
@pytest.mark.parametrize("before", ["theirs\n", ""])
def test_an_undo_in_an_accounts_folder_works_as_that_account(
    node: undo.NodeSystem, theirs: Path, before: str
) -> None:
    if before:
        put(node, PROM, before)
        os.chown(node.at(PROM), STRANGER, STRANGER)
    undo.remember_state(node, "demo", wanted(files=[PROM]), check=False)
    put(node, PROM, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    put(node, PROM, "mine\n")
    os.chown(node.at(PROM), STRANGER, STRANGER)
    found = restore(node)
    assert found["restored"] == ["file:" + PROM]
    assert beside(node, PROM) == ["mine\n"]
    assert all(path.stat().st_uid == STRANGER for path in theirs.iterdir())
    assert [path.read_text() for path in theirs.glob("*.prom")] == [before] * bool(before)


@AS_ROOT
def test_an_undo_gives_no_root_file_to_an_account(
    node: undo.NodeSystem, theirs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The review's second proof: the account's own file is remembered, and then a link takes its name."""
    secret = Path(node.at("/secret"))
    secret.write_text("secret\n")
    secret.chmod(0o600)
    put(node, PROM, "theirs\n")
    os.chown(node.at(PROM), STRANGER, STRANGER)
    undo.remember_state(node, "demo", wanted(files=[PROM]), check=False)
    put(node, PROM, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    replace = state_restore.replace_file

    def swapped(here: str, *args: Any) -> None:
        os.unlink(here)
        os.symlink(secret, here)
        replace(here, *args)

    monkeypatch.setattr(state_restore, "replace_file", swapped)
    restore(node)
    assert (secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)
    assert secret.read_text() == "secret\n"
    # while it is remembered: between the look at the name and its opening
    lstat = os.lstat
    Path(node.at(PROM)).unlink()
    put(node, PROM, "theirs\n")
    os.chown(node.at(PROM), STRANGER, STRANGER)

    def looked(path: str, **more: Any) -> os.stat_result:
        info = lstat(path, **more)
        if path.endswith("fullmesh.prom"):
            os.unlink(path)
            os.symlink(secret, path)
        return info

    monkeypatch.setattr(os, "lstat", looked)
    with pytest.raises(OSError, match=r"as nobody: .*Permission denied"):
        undo.remember_state(node, "other", wanted(files=[PROM]), check=False)


@AS_ROOT
def test_a_folder_of_roots_that_others_can_change_is_refused(
    node: undo.NodeSystem, theirs: Path
) -> None:
    put(node, PROM, "theirs\n")
    role_runs(node)
    undo.remember_state(node, "demo", wanted(files=[PROM]), check=False)
    put(node, PROM, "ours\n")
    os.chown(theirs, 0, STRANGER)
    theirs.chmod(0o775)
    with pytest.raises(
        undo.UndoError, match=r"^\[UN-107\] root cannot work safely with .*chmod go-w"
    ):
        restore(node)
    assert Path(node.at(PROM)).read_text() == "ours\n"
    theirs.chmod(0o755)
    assert "file:" + PROM in restore(node)["restored"]


@AS_ROOT
def test_a_special_file_in_an_accounts_folder_is_refused(
    node: undo.NodeSystem, theirs: Path
) -> None:
    os.mkfifo(node.at(PROM))
    with pytest.raises(undo.UndoError, match=r"^\[UN-102\] .*neither a file nor a link"):
        undo.remember_state(node, "demo", wanted(files=[PROM]), check=False)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        # what reads every file: NetworkManager and apt leave out a name that ends in a tilde
        ("/etc/hosts", "/etc/hosts.fullmesh-kept-2026-11-22~"),
        ("/etc/network/interfaces.d/a", "/etc/network/interfaces.d/.a.fullmesh-kept-2026-11-22~"),
    ],
)
def test_a_kept_file_has_a_name_that_no_program_reads(path: str, name: str) -> None:
    assert written.make_kept_name(path, "2026-11-22") == name
    assert written.make_kept_name(path, "2026-11-22", 1) == name[:-1] + "-2~"


def test_the_module_warns_of_each(
    node: undo.NodeSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []

    class Module:
        def __init__(self, **_: Any) -> None:
            self.params: dict[str, Any] = wanted() | {"paths": []}
            self.params |= {"role": "demo", "state": "restored", "restart": [], "leave": []}
            self.check_mode = False

        def warn(self, text: str) -> None:
            told.append(text)

        def exit_json(self, **result: Any) -> None:
            raise SystemExit(json.dumps(result))

    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "mine\n")
    monkeypatch.setattr(undo_point, "AnsibleModule", Module)
    monkeypatch.setattr(undo_point, "NodeSystem", lambda *_: node)
    with pytest.raises(SystemExit, match='"kept"'):
        undo_point.main()
    assert len(told) == 1
    assert told[0].startswith("[UN-105] /etc/hosts was changed since Fullmesh wrote it. ")
    assert "fullmesh-kept-" in told[0]
