"""The peers' firewall: undo."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.firewall import (
    change,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.state import record
from ansible.module_utils.fullmesh.transaction import engine
from firewall_machine import (
    JOB_FILE,
    STOP_COMMAND,
    Machine,
    build_ruleset,
    make_firewall,
    prepare_ufw_takeover,
    read_journal,
    save_undo_point,
)


def save_changed_node(machine: Machine, *, active: bool) -> None:
    """Make a node that the role has changed, with firewalld running."""
    save_undo_point(machine, active=active)
    point = record.UndoPoint(str(machine.root), "peer_firewall")
    before = point.load()
    before["files"] = {JOB_FILE: {"kind": "absent"}}
    point.save(before, {})
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = build_ruleset()


def test_an_undo_is_armed_and_needs_a_confirmation(machine: Machine) -> None:
    save_changed_node(machine, active=True)
    assert make_firewall(machine).leaving() == {"changed": False, "armed": True}
    assert JOB_FILE in [entry["path"] for entry in read_journal()["files"]]
    commands = read_journal()["commands"]
    assert commands[:2] == ["systemctl daemon-reload", change.RELOAD]
    assert read_journal()["boot_commands"] == ["systemctl --no-block start firewalld.service"]
    assert make_firewall(machine).left() == {"changed": False, "armed": True}
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[TX-109\]"):
        make_firewall(machine, **{"token": "another"}).confirmed()
    assert make_firewall(machine).confirmed()["rollback"] == "disarmed"


def test_undo_stops_firewalld_and_no_other_unit(machine: Machine) -> None:
    save_changed_node(machine, active=False)
    assert make_firewall(machine, check=True).leaving()["changed"]
    assert STOP_COMMAND not in machine.calls
    assert make_firewall(machine).leaving() == {"changed": True, "armed": True}
    assert STOP_COMMAND in machine.calls
    assert not any("nft -f" in call or "ufw" in call for call in machine.calls)


def test_undo_that_starts_firewalld_is_armed_to_stop_it(machine: Machine) -> None:
    save_changed_node(machine, active=True)
    machine.units[firewall_peers.UNIT] = ("loaded", "inactive", "disabled")
    assert make_firewall(machine).leaving()["armed"]
    assert read_journal()["commands"][0] == STOP_COMMAND
    assert read_journal()["boot_commands"] == ["systemctl --no-block stop firewalld.service"]


def test_an_undo_without_point_or_in_check_mode_arms_nothing(machine: Machine) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    assert make_firewall(machine).leaving() == {"changed": False, "armed": False}
    assert make_firewall(machine).left() == {"changed": False, "armed": False}
    save_changed_node(machine, active=True)
    assert not make_firewall(machine, check=True).leaving()["armed"]
    assert "systemd-run" not in machine.commands()


def test_an_undo_without_confirmation_ends_by_itself(machine: Machine) -> None:
    save_changed_node(machine, active=True)
    assert make_firewall(machine, rollback_seconds=0).leaving()["armed"]
    assert not make_firewall(machine, rollback_seconds=0).left()["armed"]
    assert not (Path(engine.STORE) / "peer_firewall").exists()


def test_a_late_undo_is_reported(machine: Machine) -> None:
    save_changed_node(machine, active=True)
    make_firewall(machine).leaving()
    (Path(engine.STORE) / "peer_firewall/fired").touch()
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
        make_firewall(machine).left()


def test_an_undo_reverts_at_once_if_ufw_does_not_start(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_ufw_takeover(machine).present()
    make_firewall(machine).confirmed()
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    save_changed_node(machine, active=False)
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    machine.fails = "ufw --force enable"
    with pytest.raises(
        firewall_peers.FirewallRefusedError,
        match=r"\[PF-125\].*Fullmesh restored the earlier state",
    ):
        make_firewall(machine).leaving()
    assert undone == ["peer_firewall"]
    assert "fullmesh_gate" in str(read_journal()["commands"][-1])
    assert read_journal()["commands"][0] == "! test -x /usr/sbin/ufw || /usr/sbin/ufw disable"
    assert "/etc/ufw/ufw.conf" in [entry["path"] for entry in read_journal()["files"]]
