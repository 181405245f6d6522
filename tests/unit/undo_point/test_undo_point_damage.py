"""Undo points: damaged stores, and packages that others installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import undo, written
from undo_node import HOSTS, Answer, SimulatedSystemd, restore_state, select_state, write_file


def write_invalid_json(point: Path) -> None:
    point.write_text("{")


def write_other_role(point: Path) -> None:
    point.write_text(json.dumps({**json.loads(point.read_text()), "role": "other"}))


def write_future_schema(point: Path) -> None:
    point.write_text(json.dumps({**json.loads(point.read_text()), "schema": 3}))


def write_incomplete_point(point: Path) -> None:
    point.write_text(json.dumps({"schema": 1, "role": "demo"}))


def remove_blob(point: Path) -> None:
    next(point.parent.glob("blobs/*")).unlink()


def change_blob(point: Path) -> None:
    next(point.parent.glob("blobs/*")).write_text("somebody was here")


@pytest.mark.parametrize(
    "damage",
    [
        write_invalid_json,
        write_other_role,
        write_future_schema,
        write_incomplete_point,
        remove_blob,
        change_blob,
    ],
)
def test_damaged_undo_point_changes_nothing(
    node: undo.NodeSystem, damage: Callable[[Path], None]
) -> None:
    file = write_file(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    file.write_text("ours\n")
    damage(Path(node.at(written.STORE), "demo/point.json"))
    with pytest.raises(undo.UndoError, match="UN-101"):
        restore_state(node)
    assert file.read_text() == "ours\n"


def test_without_a_point_nothing_is_undone(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    result = restore_state(node)
    assert (result["changed"], result["exists"], systemd.commands) == (False, False, [])
    forgotten = {"changed": False, "exists": False, "swept": [], "kept_packages": []}
    assert undo.forget_undo_point(node, "demo", check=False) == forgotten


def test_store_is_removed_with_its_last_point(node: undo.NodeSystem) -> None:
    for role in ("demo", "other"):
        undo.remember_state(node, role, select_state(files=[HOSTS]), check=False)
    forgotten = {"changed": True, "exists": True, "swept": [], "kept_packages": []}
    assert undo.forget_undo_point(node, "demo", check=True) == forgotten
    undo.forget_undo_point(node, "demo", check=False)
    assert [path.name for path in Path(node.at(written.STORE)).iterdir()] == ["other"]
    undo.forget_undo_point(node, "other", check=False)
    assert not Path(node.at(written.STORE)).exists()


def test_dependencies_that_apt_added_are_removed_with_the_point(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    systemd.installed, systemd.unneeded = ["base", "lonely"], ["lonely"]
    undo.remember_state(node, "demo", select_state(packages=["firewalld"]), check=False)
    systemd.installed += ["firewalld", "libfw", "ipset"]
    # a later run saves more, and must not regard the packages that exist now as original
    undo.remember_state(node, "demo", select_state(packages=["firewalld", "ipset"]), check=False)
    systemd.unneeded = ["lonely", "libfw"]
    assert undo.forget_undo_point(node, "demo", check=True)["swept"] == ["libfw"]
    assert undo.forget_undo_point(node, "demo", check=False)["swept"] == ["libfw"]
    assert systemd.commands[-1][-2:] == ["purge", "libfw"]


def test_later_packages_of_others_are_kept(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    """A dependency that others left behind stays. Those of the role's first and later run are removed."""
    systemd.installed = ["base"]
    undo.remember_state(node, "demo", select_state(packages=["firewalld"]), check=False)
    systemd.installed += ["firewalld", "libfw"]
    undo.record_written_files(node, "demo", check=False)
    systemd.installed += ["libtheirs"]
    undo.remember_state(node, "demo", select_state(packages=["firewalld"]), check=False)
    undo.record_written_files(node, "demo", check=False)
    undo.remember_state(node, "demo", select_state(packages=["firewalld", "ipset"]), check=False)
    systemd.installed += ["ipset", "libset"]
    undo.record_written_files(node, "demo", check=False)
    systemd.installed += ["libmore"]
    systemd.unneeded = ["libfw", "libmore", "libset", "libtheirs"]
    assert undo.forget_undo_point(node, "demo", check=True)["swept"] == ["libfw", "libset"]
    assert undo.forget_undo_point(node, "demo", check=False)["swept"] == ["libfw", "libset"]


def test_packages_of_a_killed_run_are_removed(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    systemd.installed = ["base"]
    undo.remember_state(node, "demo", select_state(packages=["firewalld"]), check=False)
    systemd.installed += ["libfw"]
    systemd.unneeded = ["libfw"]
    assert undo.forget_undo_point(node, "demo", check=False)["swept"] == ["libfw"]


def test_failed_purge_keeps_the_undo_point(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    undo.remember_state(node, "demo", select_state(packages=["firewalld"]), check=False)
    systemd.installed, systemd.unneeded = ["libfw"], ["libfw"]
    run_command = SimulatedSystemd.__call__

    def fail_purge(command: list[str]) -> Answer:
        return (
            (100, "", "Could not get lock") if "purge" in command else run_command(systemd, command)
        )

    with pytest.raises(undo.UndoError, match=r"\[UN-104\].*Could not get lock"):
        undo.forget_undo_point(undo.NodeSystem(node.root, fail_purge), "demo", check=False)
    assert Path(node.at(written.STORE + "/demo")).exists()


def test_damaged_package_list_is_an_error(node: undo.NodeSystem, systemd: SimulatedSystemd) -> None:
    undo.remember_state(node, "demo", select_state(packages=["firewalld"]), check=False)
    point = Path(node.at(written.STORE + "/demo/point.json"))
    point.write_text(json.dumps({**json.loads(point.read_text()), "installed": "{"}))
    with pytest.raises(undo.UndoError, match=r"\[UN-101\]"):
        undo.forget_undo_point(node, "demo", check=False)


def test_diff_hides_private_content(node: undo.NodeSystem) -> None:
    file = write_file(node, HOSTS, "password\n", 0o600)
    undo.remember_state(node, "demo", select_state(files=[HOSTS]), check=False)
    file.write_text("secret\n")
    text = json.dumps(restore_state(node)["diff"])
    assert "sha256" in text
    assert "password" not in text
    assert "secret" not in text


def test_interfaces_are_saved_without_leases_and_link_local(node: undo.NodeSystem) -> None:
    addresses = [
        {"local": "10.0.0.7", "prefixlen": 24, "scope": "global"},
        {"local": "10.0.0.9", "prefixlen": 24, "scope": "global", "dynamic": True},
        {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
    ]
    kernel = [{"ifname": "eth1", "mtu": 1500, "addr_info": addresses}, {"ifname": "lo", "mtu": 9}]
    node.run = lambda _: (0, json.dumps(kernel), "")
    undo.remember_state(node, "demo", select_state(interfaces=["eth1", "gone"]), check=False)
    assert restore_state(node)["interfaces"] == {
        "eth1": {"addresses": ["10.0.0.7/24"], "mtu": 1500},
        "gone": {"addresses": [], "mtu": 0},
    }
