"""The peers' firewall: one run, from the preview to the confirmed change."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld,
    firewalld_files,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine, session
from firewall_machine import (
    Machine,
    build_ruleset,
    build_ruleset_without,
    expect_refusal,
    list_own_files,
    make_firewall,
    write_file,
)


def build_ruleset_with_ssh(port: int) -> list[dict[str, Any]]:
    """Build the rules for another port of sshd."""
    text = json.dumps(build_ruleset())
    found: list[dict[str, Any]] = json.loads(text.replace('"right": 22}', f'"right": {port}}}'))
    return found


def test_first_start_is_armed_and_checked(machine: Machine) -> None:
    result = make_firewall(machine).present()
    assert result["changed"]
    assert result["armed"]
    assert len(list_own_files(machine)) == 5
    order = [
        machine.commands().index(word)
        for word in ("--check-config", "systemd-run", "reload dbus", "start f")
    ]
    assert order == sorted(order)
    assert "--complete-reload" not in machine.commands()
    mode = os.stat(str(machine.root) + list_own_files(machine)[0]).st_mode
    assert stat.S_IMODE(mode) == 0o644


def test_running_firewalld_reloads_once(machine: Machine) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = build_ruleset_without("29500")
    assert make_firewall(machine).present()["changed"]
    assert machine.commands().count("firewall-cmd --reload") == 1
    machine.calls.clear()
    again = make_firewall(machine).present()
    assert not again["changed"]
    assert not again["armed"]
    assert machine.commands() == ""


def test_stale_entries_are_removed_after_reload_and_rollback(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stale entries, no peer could be removed: the check found the old entry, and each run was reverted."""
    armed: list[list[Any]] = []
    monkeypatch.setattr(engine, "arm", lambda *words, **more: armed.append(words[4]))
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = build_ruleset_without("29500")
    make_firewall(machine).present()
    assert firewalld_files.build_ipset_cleanup("fullmesh") not in armed[0]
    assert "/bin/sh" not in machine.commands()
    write_file(machine.root, "/etc/firewalld/firewalld.conf", "FlushAllOnReload=no\n")
    machine.table = build_ruleset_without("29500")
    machine.calls.clear()
    make_firewall(machine).present()
    assert armed[1][1] == firewalld_files.build_ipset_cleanup("fullmesh")
    calls = machine.commands()
    assert calls.index("firewall-cmd --reload") < calls.index("/bin/sh -c for s in fullmesh-peers4")


FIREWALL_CMD = """#!/bin/sh
case "$*" in
"--permanent --ipset=fullmesh-peers4 --get-entries") printf '10.0.0.1\n10.0.0.12\n' ;;
"--ipset=fullmesh-peers4 --get-entries") printf '10.0.0.1\n10.0.0.11\n10.0.0.12\n10.0.0.13\n' ;;
"--permanent --ipset=fullmesh-peers6 --get-entries") echo gone >&2; exit 135 ;;
"--ipset=fullmesh-peers6 --get-entries") echo fd00::11 ;;
*--remove-entry*) echo "$*" >> "$LOG" ;;
*) exit 135 ;;
esac
"""


def test_only_entries_missing_in_own_files_are_removed(tmp_path: Path) -> None:
    tool, log = tmp_path / "firewall-cmd", tmp_path / "log"
    tool.write_text(FIREWALL_CMD, encoding="utf-8")
    tool.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(log)}
    subprocess.run(
        ["/bin/sh", "-c", firewalld_files.build_ipset_cleanup("fullmesh")],
        env=environment,
        check=True,
    )
    assert log.read_text(encoding="utf-8").splitlines() == [
        "--ipset=fullmesh-peers4 --remove-entry=10.0.0.11",
        "--ipset=fullmesh-peers4 --remove-entry=10.0.0.13",
        "--ipset=fullmesh-peers6 --remove-entry=fd00::11",
    ]


def test_flushed_ruleset_restarts_firewalld(machine: Machine) -> None:
    make_firewall(machine).present()
    make_firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = []
    assert make_firewall(machine).present()["changed"]
    assert "systemctl restart firewalld.service" in machine.commands()


def test_check_mode_changes_nothing(machine: Machine) -> None:
    run = make_firewall(machine, check=True)
    assert run.present()["changed"]
    assert list_own_files(machine) == []
    assert "systemctl start" not in machine.commands()
    assert len(run.call.diff) == 5


def test_an_unconfigured_node_gets_a_preview_before_the_package(machine: Machine) -> None:
    machine.units = {}
    run = make_firewall(machine)
    result = run.present()
    assert result["needs_package"]
    assert list_own_files(machine) == []
    assert len(run.call.diff) == 6


def test_new_node_with_another_ssh_port_gets_the_service(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "list_ssh_ports", lambda environ, pid: [2222])
    machine.table_after = build_ruleset_with_ssh(2222)
    make_firewall(machine).present()
    text = firewalld.read_text_or_empty(str(machine.root) + "/etc/firewalld/services/ssh.xml")
    assert '<port port="2222" protocol="tcp"/>' in text


def test_a_foreign_ssh_service_is_unchanged(machine: Machine) -> None:
    write_file(machine.root, "/etc/firewalld/services/ssh.xml", "<service/>")
    assert "[PF-115]" in expect_refusal(machine)
    assert (
        firewalld.read_text_or_empty(str(machine.root) + "/etc/firewalld/services/ssh.xml")
        == "<service/>"
    )


def test_connected_controller_is_added(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "list_ssh_clients", lambda environ, pid: ["192.0.2.9"])
    machine.units = {}
    assert make_firewall(machine).present()["controllers"] == ["192.0.2.9", "198.51.100.7"]
