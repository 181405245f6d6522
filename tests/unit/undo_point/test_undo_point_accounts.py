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
from undo_node import HOSTS, list_kept_files, restore_state, run_role, select_state, write_file

PROM = "/srv/text/fullmesh.prom"


ACCOUNT = 65534


needs_root = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can change files of other accounts"
)


@pytest.fixture
def account_folder(node: undo.NodeSystem) -> Path:
    folder = Path(node.at(os.path.dirname(PROM)))
    folder.mkdir(parents=True)
    os.chown(folder, ACCOUNT, ACCOUNT)
    return folder


@needs_root
@pytest.mark.parametrize("before", ["theirs\n", ""])
def test_undo_in_an_accounts_folder_runs_as_that_account(
    node: undo.NodeSystem, account_folder: Path, before: str
) -> None:
    if before:
        write_file(node, PROM, before)
        os.chown(node.at(PROM), ACCOUNT, ACCOUNT)
    undo.remember_state(node, "demo", select_state(files=[PROM]), check=False)
    write_file(node, PROM, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    write_file(node, PROM, "mine\n")
    os.chown(node.at(PROM), ACCOUNT, ACCOUNT)
    found = restore_state(node)
    assert found["restored"] == ["file:" + PROM]
    assert list_kept_files(node, PROM) == ["mine\n"]
    assert all(path.stat().st_uid == ACCOUNT for path in account_folder.iterdir())
    assert [path.read_text() for path in account_folder.glob("*.prom")] == [before] * bool(before)


@needs_root
def test_undo_does_not_follow_an_accounts_link(
    node: undo.NodeSystem, account_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link replaces the account's file after the role has saved it."""
    secret = Path(node.at("/secret"))
    secret.write_text("secret\n")
    secret.chmod(0o600)
    write_file(node, PROM, "theirs\n")
    os.chown(node.at(PROM), ACCOUNT, ACCOUNT)
    undo.remember_state(node, "demo", select_state(files=[PROM]), check=False)
    write_file(node, PROM, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    replace = state_restore.replace_file

    def swap_and_replace(here: str, *args: Any) -> None:
        os.unlink(here)
        os.symlink(secret, here)
        replace(here, *args)

    monkeypatch.setattr(state_restore, "replace_file", swap_and_replace)
    restore_state(node)
    assert (secret.stat().st_uid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)
    assert secret.read_text() == "secret\n"
    # the same during the saving, between lstat() and open()
    lstat = os.lstat
    Path(node.at(PROM)).unlink()
    write_file(node, PROM, "theirs\n")
    os.chown(node.at(PROM), ACCOUNT, ACCOUNT)

    def stat_and_swap(path: str, **more: Any) -> os.stat_result:
        info = lstat(path, **more)
        if path.endswith("fullmesh.prom"):
            os.unlink(path)
            os.symlink(secret, path)
        return info

    monkeypatch.setattr(os, "lstat", stat_and_swap)
    with pytest.raises(OSError, match=r"as nobody: .*Permission denied"):
        undo.remember_state(node, "other", select_state(files=[PROM]), check=False)


@needs_root
def test_folder_that_others_can_change_is_rejected(
    node: undo.NodeSystem, account_folder: Path
) -> None:
    write_file(node, PROM, "theirs\n")
    run_role(node)
    undo.remember_state(node, "demo", select_state(files=[PROM]), check=False)
    write_file(node, PROM, "ours\n")
    os.chown(account_folder, 0, ACCOUNT)
    account_folder.chmod(0o775)
    with pytest.raises(
        undo.UndoError, match=r"^\[UN-107\] root cannot work safely with .*chmod go-w"
    ):
        restore_state(node)
    assert Path(node.at(PROM)).read_text() == "ours\n"
    account_folder.chmod(0o755)
    assert "file:" + PROM in restore_state(node)["restored"]


@needs_root
def test_special_file_in_an_accounts_folder_is_rejected(
    node: undo.NodeSystem, account_folder: Path
) -> None:
    os.mkfifo(node.at(PROM))
    with pytest.raises(undo.UndoError, match=r"^\[UN-102\] .*neither a file nor a link"):
        undo.remember_state(node, "demo", select_state(files=[PROM]), check=False)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        # names that no program reads: NetworkManager and apt skip a name that ends in a tilde
        ("/etc/hosts", "/etc/hosts.fullmesh-kept-2026-11-22~"),
        ("/etc/network/interfaces.d/a", "/etc/network/interfaces.d/.a.fullmesh-kept-2026-11-22~"),
    ],
)
def test_kept_file_has_a_name_that_no_program_reads(path: str, name: str) -> None:
    assert written.make_kept_name(path, "2026-11-22") == name
    assert written.make_kept_name(path, "2026-11-22", 1) == name[:-1] + "-2~"


def test_module_warns_of_each_kept_file(
    node: undo.NodeSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    warnings: list[str] = []

    class Module:
        def __init__(self, **_: Any) -> None:
            self.params: dict[str, Any] = select_state() | {"paths": []}
            self.params |= {"role": "demo", "state": "restored", "restart": [], "leave": []}
            self.check_mode = False

        def warn(self, text: str) -> None:
            warnings.append(text)

        def exit_json(self, **result: Any) -> None:
            raise SystemExit(json.dumps(result))

    write_file(node, HOSTS, "theirs\n")
    run_role(node)
    write_file(node, HOSTS, "mine\n")
    monkeypatch.setattr(undo_point, "AnsibleModule", Module)
    monkeypatch.setattr(undo_point, "NodeSystem", lambda *_: node)
    with pytest.raises(SystemExit, match='"kept"'):
        undo_point.main()
    assert len(warnings) == 1
    assert warnings[0].startswith("[UN-105] /etc/hosts was changed since Fullmesh wrote it. ")
    assert "fullmesh-kept-" in warnings[0]
