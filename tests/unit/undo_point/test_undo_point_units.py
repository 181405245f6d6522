"""Undo points: sysctls, units and packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import observe, undo
from undo_node import HOSTS, STATES, Answer, Systemd, put, restore, wanted

UNIT = "chrony.service"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.tcp_fin_timeout", "/proc/sys/net/ipv4/tcp_fin_timeout"),
        ("net.ipv4.conf.eth0/1.rp_filter", "/proc/sys/net/ipv4/conf/eth0.1/rp_filter"),
    ],
)
def test_sysctl_names(key: str, path: str) -> None:
    assert observe.sysctl_to_proc_path(key) == path


@pytest.mark.parametrize("key", ["net..ipv4", "../x", "a b", ""])
def test_an_unclear_sysctl_is_refused(key: str) -> None:
    with pytest.raises(undo.UndoError, match="UN-102"):
        observe.sysctl_to_proc_path(key)


def test_sysctls_are_restored_and_unknown_ones_stay(node: undo.NodeSystem) -> None:
    key = "net.ipv4.ip_local_port_range"
    file = put(node, observe.sysctl_to_proc_path(key), "32768\t60999\n")
    undo.remember_state(node, "demo", wanted(sysctls=[key, "net.ipv4.none"]), check=False)
    file.write_text("50000\t54095\n")
    result = restore(node)
    assert result["restored"] == ["sysctl:" + key]
    assert file.read_text() == "32768 60999\n"
    assert restore(node)["changed"] is False


@pytest.mark.parametrize(
    ("then", "now", "verbs"),
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
def test_unit_states(
    node: undo.NodeSystem, systemd: Systemd, then: str, now: str, verbs: list[str]
) -> None:
    systemd.units[UNIT] = STATES[then]
    undo.remember_state(node, "demo", wanted(services=[UNIT]), check=False)
    systemd.units[UNIT] = STATES[now]
    result = restore(node)
    assert systemd.verbs() == [[verb, UNIT] for verb in verbs]
    assert result["missing_units"] == ([UNIT] if now == "gone" and then != "gone" else [])


def test_units_are_asked_about_in_one_call(node: undo.NodeSystem, systemd: Systemd) -> None:
    undo.remember_state(node, "demo", wanted(services=["a.service", "b.timer"]), check=False)
    assert [call[-2:] for call in systemd.asked] == [["a.service", "b.timer"]]


def test_without_systemd_the_error_is_coded(node: undo.NodeSystem) -> None:
    node.run = lambda _: (127, "", "No such file or directory: 'systemctl'")
    with pytest.raises(undo.UndoError, match=r"UN-103.*No such file"):
        undo.remember_state(node, "demo", wanted(services=[UNIT]), check=False)


def test_a_restored_unit_file_is_reloaded_and_started(
    node: undo.NodeSystem, systemd: Systemd
) -> None:
    path = "/etc/systemd/system/demo.service"
    file = put(node, path, "[Service]\n")
    systemd.units["demo.service"] = STATES["enabled and running"]
    undo.remember_state(node, "demo", wanted(files=[path], services=["demo.service"]), check=False)
    file.unlink()
    systemd.units["demo.service"] = STATES["disabled"]
    restore(node)
    assert [call[0] for call in systemd.verbs()] == ["daemon-reload", "enable", "start"]


def test_a_running_unit_is_restarted_only_after_a_change(
    node: undo.NodeSystem, systemd: Systemd
) -> None:
    file = put(node, "/etc/chrony.conf", "theirs\n")
    systemd.units[UNIT] = STATES["enabled and running"]
    undo.remember_state(
        node, "demo", wanted(files=["/etc/chrony.conf"], services=[UNIT]), check=False
    )
    assert restore(node, restart=(UNIT,))["changed"] is False
    file.write_text("ours\n")
    assert f"service:{UNIT} restart" in restore(node, restart=(UNIT,))["restored"]
    assert systemd.verbs() == [["restart", UNIT]]


def test_check_mode_restores_nothing(node: undo.NodeSystem, systemd: Systemd) -> None:
    file = put(node, HOSTS, "theirs\n")
    systemd.units[UNIT] = STATES["disabled"]
    undo.remember_state(node, "demo", wanted(files=[HOSTS], services=[UNIT]), check=False)
    file.write_text("ours\n")
    systemd.units[UNIT] = STATES["enabled and running"]
    result = restore(node, check=True)
    assert len(result["restored"]) == 3
    assert file.read_text() == "ours\n"
    assert systemd.verbs() == []


def test_packages_to_remove_and_to_install(node: undo.NodeSystem, systemd: Systemd) -> None:
    systemd.installed = ["systemd-timesyncd", "python3"]
    names = ["chrony", "python3", "systemd-timesyncd"]
    undo.remember_state(node, "demo", wanted(packages=names), check=False)
    systemd.installed = ["chrony", "python3"]
    result = restore(node)
    assert result["remove_packages"] == ["chrony"]
    assert result["install_packages"] == ["systemd-timesyncd"]
    assert result["changed"] is False


def test_rpm_is_asked_where_dpkg_has_no_database(node: undo.NodeSystem) -> None:
    Path(node.at("/var/lib/dpkg/status")).write_text("")
    asked = []

    def rpm(command: list[str]) -> Answer:
        asked.append(command[0])
        return 1, "package chrony is not installed\nsystemd\t252\t1.el9\t0\tx86_64\n", ""

    node.run = rpm
    assert observe.observe_packages(node, ["chrony", "systemd"]) == {
        "chrony": "absent",
        "systemd": "installed",
    }
    assert asked == ["rpm"]


def test_all_faults_are_named_and_the_rest_is_done(node: undo.NodeSystem, systemd: Systemd) -> None:
    file = put(node, HOSTS, "theirs\n")
    systemd.units[UNIT] = STATES["enabled and running"]
    undo.remember_state(node, "demo", wanted(files=[HOSTS], services=[UNIT]), check=False)
    file.write_text("ours\n")
    systemd.units[UNIT] = STATES["disabled"]
    systemd.refuse = "start"
    with pytest.raises(
        undo.UndoError, match=r"UN-104.*systemctl start chrony.service: Access denied"
    ):
        restore(node)
    assert file.read_text() == "theirs\n"
