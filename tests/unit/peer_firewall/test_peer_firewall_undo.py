"""The peers' firewall: its undo."""

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
    STOPPED,
    Machine,
    firewall,
    journal,
    kernel,
    remembered,
    taken_over,
)


def with_point(machine: Machine, *, active: bool) -> None:
    """A node that the role has changed, with firewalld running now."""
    remembered(machine, active=active)
    point = record.UndoPoint(str(machine.root), "peer_firewall")
    before = point.load()
    before["files"] = {JOB_FILE: {"kind": "absent"}}
    point.save(before, {})
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = kernel()


def test_an_undo_is_armed_and_needs_a_confirmation(machine: Machine) -> None:
    with_point(machine, active=True)
    assert firewall(machine).leaving() == {"changed": False, "armed": True}
    assert JOB_FILE in [entry["path"] for entry in journal()["files"]]
    commands = journal()["commands"]
    assert commands[:2] == ["systemctl daemon-reload", change.RELOAD]
    assert journal()["boot_commands"] == ["systemctl --no-block start firewalld.service"]
    assert firewall(machine).left() == {"changed": False, "armed": True}
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[TX-109\]"):
        firewall(machine, **{"token": "another"}).confirmed()
    assert firewall(machine).confirmed()["rollback"] == "disarmed"


def test_an_undo_stops_our_firewall_and_no_other_unit(machine: Machine) -> None:
    with_point(machine, active=False)
    assert firewall(machine, check=True).leaving()["changed"]
    assert STOPPED not in machine.calls
    assert firewall(machine).leaving() == {"changed": True, "armed": True}
    assert STOPPED in machine.calls
    assert not any("nft -f" in call or "ufw" in call for call in machine.calls)


def test_an_undo_that_starts_a_firewall_is_armed_to_stop_it(machine: Machine) -> None:
    with_point(machine, active=True)
    machine.units[firewall_peers.UNIT] = ("loaded", "inactive", "disabled")
    assert firewall(machine).leaving()["armed"]
    assert journal()["commands"][0] == STOPPED
    assert journal()["boot_commands"] == ["systemctl --no-block stop firewalld.service"]


def test_an_undo_without_point_or_in_check_mode_arms_nothing(machine: Machine) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    assert firewall(machine).leaving() == {"changed": False, "armed": False}
    assert firewall(machine).left() == {"changed": False, "armed": False}
    with_point(machine, active=True)
    assert not firewall(machine, check=True).leaving()["armed"]
    assert "systemd-run" not in machine.commands()


def test_an_undo_without_confirmation_ends_by_itself(machine: Machine) -> None:
    with_point(machine, active=True)
    assert firewall(machine, rollback_seconds=0).leaving()["armed"]
    assert not firewall(machine, rollback_seconds=0).left()["armed"]
    assert not (Path(engine.STORE) / "peer_firewall").exists()


def test_a_late_undo_is_reported(machine: Machine) -> None:
    with_point(machine, active=True)
    firewall(machine).leaving()
    (Path(engine.STORE) / "peer_firewall/fired").touch()
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
        firewall(machine).left()


def test_an_undo_reverts_at_once_if_ufw_does_not_start(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_over(machine).present()
    firewall(machine).confirmed()
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    with_point(machine, active=False)
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    machine.fails = "ufw --force enable"
    with pytest.raises(
        firewall_peers.FirewallRefusedError,
        match=r"\[PF-125\].*Fullmesh restored the earlier state",
    ):
        firewall(machine).leaving()
    assert undone == ["peer_firewall"]
    assert "fullmesh_gate" in str(journal()["commands"][-1])
    assert journal()["commands"][0] == "! test -x /usr/sbin/ufw || /usr/sbin/ufw disable"
    assert "/etc/ufw/ufw.conf" in [entry["path"] for entry in journal()["files"]]
