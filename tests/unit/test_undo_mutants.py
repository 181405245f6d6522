"""Mutants of the undo that no other test noticed. Each of them loses data."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import undo, written
from ansible.module_utils.fullmesh.state.record import UndoPoint
from undo_node import HOSTS, STATES, SimulatedSystemd, restore_state, select_state, write_file

ROLE_FILE = "/etc/demo/conf.d/ours"
OTHER = "/etc/demo/other.d/ours"


@pytest.fixture
def systemd() -> SimulatedSystemd:
    return SimulatedSystemd()


@pytest.fixture
def node(tmp_path: Path, systemd: SimulatedSystemd) -> undo.NodeSystem:
    for directory in ("etc", "var/lib/dpkg"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text("Package: base\n")
    return undo.NodeSystem(str(tmp_path), systemd)


def store(node: undo.NodeSystem) -> dict[str, bytes]:
    """List every file that an undo keeps."""
    top = Path(node.at(written.STORE))
    return {str(path): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()}


def test_a_removed_file_is_restored_and_nothing_is_kept(
    node: undo.NodeSystem,
) -> None:
    write_file(node, HOSTS, "original\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    write_file(node, HOSTS, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    Path(node.at(HOSTS)).unlink()
    assert restore_state(node)["kept"] == []
    assert Path(node.at(HOSTS)).read_text() == "original\n"


def test_a_file_with_only_a_new_mode_is_not_kept(node: undo.NodeSystem) -> None:
    """A user removed our content and left another mode: the content already matches the original."""
    write_file(node, HOSTS, "original\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    write_file(node, HOSTS, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    write_file(node, HOSTS, "original\n", 0o600)
    result = restore_state(node)
    assert (result["kept"], result["restored"]) == ([], ["file:" + HOSTS])


def test_a_missing_unit_does_not_end_the_undo_of_others(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    units = ["a.service", "b.service"]
    systemd.units = dict.fromkeys(units, STATES["disabled"])
    undo.remember_state(node, "demo", select_state(services=units), check=False)
    systemd.units = {"a.service": STATES["gone"], "b.service": STATES["enabled and running"]}
    restore_state(node)
    assert systemd.list_unit_commands() == [["stop", "b.service"], ["disable", "b.service"]]


def test_a_folder_that_stays_does_not_keep_the_others(node: undo.NodeSystem) -> None:
    """One folder has a user's change and one existed before. The folder that we made is still removed."""
    Path(node.at("/etc/there-before-us-and-long")).mkdir()
    folders = ["/etc/there-before-us-and-long"]
    undo.remember_state(
        node, "demo", select_state(files=[ROLE_FILE, OTHER], directories=folders), check=False
    )
    for path in (ROLE_FILE, OTHER):
        write_file(node, path, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    write_file(node, OTHER, "mine\n")
    restore_state(node)
    assert not Path(node.at(ROLE_FILE)).parent.exists()
    assert Path(node.at(OTHER)).parent.is_dir()
    assert Path(node.at(folders[0])).is_dir()


def test_a_dry_run_records_nothing_as_ours(node: undo.NodeSystem) -> None:
    write_file(node, HOSTS, "original\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    write_file(node, HOSTS, "mine\n")
    before = store(node)
    assert undo.record_written_files(node, "demo", check=True) == {"changed": False, "exists": True}
    assert store(node) == before
    assert undo.record_written_files(node, "other", check=False) == {
        "changed": False,
        "exists": False,
    }
    assert store(node) == before


def test_without_dpkg_rpm_lists_new_packages(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    """The list of all packages shows those that apt adds. On EL, dpkg would report that none is installed."""
    Path(node.at("/var/lib/dpkg/status")).unlink()
    undo.remember_state(node, "demo", select_state(packages=["chrony"]), check=False)
    record = UndoPoint(node.root, "demo").load()
    assert record["installed"] is None
    assert record["part"]["installing"] == []
    assert not [one for one in systemd.commands if one[0] == "dpkg-query"]
    undo.record_written_files(node, "demo", check=False)
    assert UndoPoint(node.root, "demo").load()["part"]["brought"] == []
    assert [one[:2] for one in systemd.commands if "--all" in one] == [["rpm", "--query"]] * 2
