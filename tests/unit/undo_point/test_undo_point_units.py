"""Undo points: sysctls, units and packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import observe, undo
from undo_node import (
    HOSTS,
    STATES,
    Answer,
    SimulatedSystemd,
    restore_state,
    select_state,
    write_file,
)

UNIT = "chrony.service"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.tcp_fin_timeout", "/proc/sys/net/ipv4/tcp_fin_timeout"),
        ("net.ipv4.conf.eth0/1.rp_filter", "/proc/sys/net/ipv4/conf/eth0.1/rp_filter"),
    ],
)
def test_sysctl_name_becomes_a_path(key: str, path: str) -> None:
    assert observe.sysctl_to_proc_path(key) == path


@pytest.mark.parametrize("key", ["net..ipv4", "../x", "a b", ""])
def test_invalid_sysctl_is_rejected(key: str) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        observe.sysctl_to_proc_path(key)


def test_sysctls_are_restored_and_unknown_ones_stay(node: undo.NodeSystem) -> None:
    key = "net.ipv4.ip_local_port_range"
    file = write_file(node, observe.sysctl_to_proc_path(key), "32768\t60999\n")
    undo.remember_state(node, "demo", select_state(sysctls=[key, "net.ipv4.none"]), check=False)
    file.write_text("50000\t54095\n")
    result = restore_state(node)
    assert result["restored"] == ["sysctl:" + key]
    assert file.read_text() == "32768 60999\n"
    assert restore_state(node)["changed"] is False


@pytest.mark.parametrize(
    ("before", "now", "verbs"),
    [
        ("enabled and running", "disabled", ["enable", "start"]),
        ("enabled and running", "masked", ["unmask", "enable", "start"]),
        ("enabled and running", "gone", []),
        ("disabled", "enabled and running", ["stop", "disable"]),
        ("masked", "enabled and running", ["stop", "mask"]),
        ("masked", "masked", []),
        ("static", "enabled and running", ["stop"]),
        ("gone", "enabled and running", ["stop", "disable"]),
        ("gone", "gone", []),
    ],
)
def test_unit_state_is_restored(
    node: undo.NodeSystem, systemd: SimulatedSystemd, before: str, now: str, verbs: list[str]
) -> None:
    systemd.units[UNIT] = STATES[before]
    undo.remember_state(node, "demo", select_state(services=[UNIT]), check=False)
    systemd.units[UNIT] = STATES[now]
    result = restore_state(node)
    assert systemd.list_unit_commands() == [[verb, UNIT] for verb in verbs]
    assert result["missing_units"] == ([UNIT] if now == "gone" and before != "gone" else [])


def test_units_are_queried_in_one_call(node: undo.NodeSystem, systemd: SimulatedSystemd) -> None:
    undo.remember_state(node, "demo", select_state(services=["a.service", "b.timer"]), check=False)
    assert [call[-2:] for call in systemd.commands] == [["a.service", "b.timer"]]


def test_without_systemd_the_error_is_coded(node: undo.NodeSystem) -> None:
    node.run = lambda _: (127, "", "No such file or directory: 'systemctl'")
    with pytest.raises(undo.UndoError, match=r"UN-103.*No such file"):
        undo.remember_state(node, "demo", select_state(services=[UNIT]), check=False)


def test_a_restored_unit_file_is_reloaded_and_started(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    path = "/etc/systemd/system/demo.service"
    file = write_file(node, path, "[Service]\n")
    systemd.units["demo.service"] = STATES["enabled and running"]
    undo.remember_state(
        node, "demo", select_state(files=[path], services=["demo.service"]), check=False
    )
    file.unlink()
    systemd.units["demo.service"] = STATES["disabled"]
    restore_state(node)
    assert [call[0] for call in systemd.list_unit_commands()] == [
        "daemon-reload",
        "enable",
        "start",
    ]


def test_a_running_unit_is_restarted_only_after_a_change(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    file = write_file(node, "/etc/chrony.conf", "theirs\n")
    systemd.units[UNIT] = STATES["enabled and running"]
    undo.remember_state(
        node, "demo", select_state(files=["/etc/chrony.conf"], services=[UNIT]), check=False
    )
    assert restore_state(node, restart=(UNIT,))["changed"] is False
    file.write_text("ours\n")
    assert f"service:{UNIT} restart" in restore_state(node, restart=(UNIT,))["restored"]
    assert systemd.list_unit_commands() == [["restart", UNIT]]


def test_check_mode_restores_nothing(node: undo.NodeSystem, systemd: SimulatedSystemd) -> None:
    file = write_file(node, HOSTS, "theirs\n")
    systemd.units[UNIT] = STATES["disabled"]
    undo.remember_state(node, "demo", select_state(files=[HOSTS], services=[UNIT]), check=False)
    file.write_text("ours\n")
    systemd.units[UNIT] = STATES["enabled and running"]
    result = restore_state(node, check=True)
    assert len(result["restored"]) == 3
    assert file.read_text() == "ours\n"
    assert systemd.list_unit_commands() == []


def test_packages_to_remove_and_install_are_listed(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    systemd.installed = ["systemd-timesyncd", "python3"]
    names = ["chrony", "python3", "systemd-timesyncd"]
    undo.remember_state(node, "demo", select_state(packages=names), check=False)
    systemd.installed = ["chrony", "python3"]
    result = restore_state(node)
    assert result["remove_packages"] == ["chrony"]
    assert result["install_packages"] == ["systemd-timesyncd"]
    assert result["changed"] is False


def test_rpm_is_used_without_a_dpkg_database(node: undo.NodeSystem) -> None:
    Path(node.at("/var/lib/dpkg/status")).write_text("")
    programs = []

    def run_rpm(command: list[str]) -> Answer:
        programs.append(command[0])
        return 1, "package chrony is not installed\nsystemd\t252\t1.el9\t0\tx86_64\n", ""

    node.run = run_rpm
    assert observe.observe_packages(node, ["chrony", "systemd"]) == {
        "chrony": "absent",
        "systemd": "installed",
    }
    assert programs == ["rpm"]


def test_all_faults_are_reported_and_the_rest_is_restored(
    node: undo.NodeSystem, systemd: SimulatedSystemd
) -> None:
    file = write_file(node, HOSTS, "theirs\n")
    systemd.units[UNIT] = STATES["enabled and running"]
    undo.remember_state(node, "demo", select_state(files=[HOSTS], services=[UNIT]), check=False)
    file.write_text("ours\n")
    systemd.units[UNIT] = STATES["disabled"]
    systemd.refuse = "start"
    with pytest.raises(
        undo.UndoError, match=r"UN-104.*systemctl start chrony.service: Access denied"
    ):
        restore_state(node)
    assert file.read_text() == "theirs\n"
