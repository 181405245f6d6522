"""undo_point: what it remembers, what it puts back, and that it never guesses."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import undo_point
import yaml
from ansible.module_utils.fullmesh.state import observe, undo, written
from ansible.module_utils.fullmesh.state import restore as state_restore

from fullmesh.settings import ROOT

HOSTS = "/etc/hosts"
UNIT = "chrony.service"
Answer = tuple[int, str, str]


def wanted(**names: list[str]) -> dict[str, list[str]]:
    return {kind: names.get(kind, []) for kind in undo.KINDS}


def dpkg_row(name: str, version: str = "1.2", state: str = "installed") -> str:
    return f"{name}\t{version}\t{state}\tinstall\t{name}\n"


class Systemd:
    """Stands for systemctl and dpkg-query; remembers what was asked."""

    def __init__(self) -> None:
        self.units: dict[str, dict[str, str]] = {}
        self.installed: list[str] = []
        self.asked: list[list[str]] = []
        self.refuse: str = ""
        self.unneeded: list[str] = []
        self.needs: dict[str, list[str]] = {}

    def __call__(self, command: list[str]) -> Answer:
        self.asked.append(command)
        if command[:2] == ["systemctl", "show"]:
            return 0, "\n".join(self.block(name) for name in command[command.index("--") + 1 :]), ""
        if command[0] == "apt-get":
            names = self.going(command) if "remove" in command else self.unneeded
            return 0, "".join(f"Remv {name} [1.2]\n" for name in names), ""
        if command[0] == "dpkg-query" and "--" not in command:
            return (
                0,
                "".join(map(dpkg_row, self.installed)) + dpkg_row("old", state="config-files"),
                "",
            )
        if command[0] == "dpkg-query":
            names = command[command.index("--") + 1 :]
            return 1, "".join(dpkg_row(n) for n in names if n in self.installed), "no such"
        if command[1] == self.refuse:
            return 1, "", "Access denied"
        return 0, "", ""

    def going(self, command: list[str]) -> list[str]:
        """What goes with the packages that a simulation names: they, and who needs them."""
        found = [name for name in command[command.index("--") + 1 :] if name in self.installed]
        for name in found:
            needing = [other for other, needed in self.needs.items() if name in needed]
            found += [other for other in needing if other not in found]
        return found

    def block(self, name: str) -> str:
        unit = self.units.get(name, {"LoadState": "not-found", "ActiveState": "inactive"})
        return "".join(f"{key}={value}\n" for key, value in unit.items())

    def verbs(self) -> list[list[str]]:
        return [c[1:] for c in self.asked if c[0] == "systemctl" and c[1] != "show"]


@pytest.fixture
def systemd() -> Systemd:
    return Systemd()


@pytest.fixture
def node(tmp_path: Path, systemd: Systemd) -> undo.NodeSystem:
    for directory in ("etc", "proc/sys/net/ipv4", "var/lib/dpkg"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text("Package: base\n")
    return undo.NodeSystem(str(tmp_path), systemd)


def put(node: undo.NodeSystem, path: str, content: str, mode: int = 0o644) -> Path:
    file = Path(node.at(path))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    file.chmod(mode)
    return file


def restore(
    node: undo.NodeSystem, check: bool = False, restart: tuple[str, ...] = ()
) -> dict[str, Any]:
    result: dict[str, Any] = undo.Restoration(node, "demo", check, list(restart)).run()
    return result


def edit(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "ours\n", 0o600)


def remove(node: undo.NodeSystem) -> None:
    Path(node.at(HOSTS)).unlink()


def replace_by_link(node: undo.NodeSystem) -> None:
    remove(node)
    Path(node.at(HOSTS)).symlink_to("/elsewhere")


def change_mode(node: undo.NodeSystem) -> None:
    Path(node.at(HOSTS)).chmod(0o600)


@pytest.mark.parametrize("damage", [edit, remove, replace_by_link, change_mode])
def test_a_file_comes_back_with_bytes_and_mode(
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


def test_an_absent_file_goes_with_the_directories_made_for_it(node: undo.NodeSystem) -> None:
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


def test_a_directory_with_somebody_elses_file_stays(node: undo.NodeSystem) -> None:
    undo.remember_state(node, "demo", wanted(directories=["/etc/demo"]), check=False)
    other = put(node, "/etc/demo/other", "theirs\n")
    assert restore(node)["changed"] is False
    assert other.exists()


def test_a_directory_that_was_there_stays(node: undo.NodeSystem) -> None:
    Path(node.at("/etc/demo")).mkdir()
    undo.remember_state(node, "demo", wanted(directories=["/etc/demo"]), check=False)
    assert restore(node)["changed"] is False
    assert Path(node.at("/etc/demo")).is_dir()


def test_a_link_comes_back(node: undo.NodeSystem) -> None:
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


def test_check_mode_says_what_it_would_save_and_writes_nothing(node: undo.NodeSystem) -> None:
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


def test_sysctls_come_back_and_unknown_ones_are_left(node: undo.NodeSystem) -> None:
    key = "net.ipv4.ip_local_port_range"
    file = put(node, observe.sysctl_to_proc_path(key), "32768\t60999\n")
    undo.remember_state(node, "demo", wanted(sysctls=[key, "net.ipv4.none"]), check=False)
    file.write_text("50000\t54095\n")
    result = restore(node)
    assert result["restored"] == ["sysctl:" + key]
    assert file.read_text() == "32768 60999\n"
    assert restore(node)["changed"] is False


STATES = {
    "enabled and running": {
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "enabled",
    },
    "disabled": {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "disabled"},
    "masked": {"LoadState": "masked", "ActiveState": "inactive", "UnitFileState": "masked"},
    "static": {"LoadState": "loaded", "ActiveState": "inactive", "UnitFileState": "static"},
    "gone": {"LoadState": "not-found", "ActiveState": "inactive", "UnitFileState": ""},
}


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


def test_a_unit_that_runs_on_is_restarted_only_after_a_change(
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


def not_json(point: Path) -> None:
    point.write_text("{")


def not_ours(point: Path) -> None:
    point.write_text(json.dumps({**json.loads(point.read_text()), "role": "other"}))


def from_the_future(point: Path) -> None:
    point.write_text(json.dumps({**json.loads(point.read_text()), "schema": 3}))


def incomplete(point: Path) -> None:
    point.write_text(json.dumps({"schema": 1, "role": "demo"}))


def without_blob(point: Path) -> None:
    next(point.parent.glob("blobs/*")).unlink()


def with_other_blob(point: Path) -> None:
    next(point.parent.glob("blobs/*")).write_text("somebody was here")


@pytest.mark.parametrize(
    "damage", [not_json, not_ours, from_the_future, incomplete, without_blob, with_other_blob]
)
def test_a_broken_point_changes_nothing(
    node: undo.NodeSystem, damage: Callable[[Path], None]
) -> None:
    file = put(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS]), check=False)
    file.write_text("ours\n")
    damage(Path(node.at(written.STORE), "demo/point.json"))
    with pytest.raises(undo.UndoError, match="UN-101"):
        restore(node)
    assert file.read_text() == "ours\n"


def test_without_a_point_there_is_nothing_to_do(node: undo.NodeSystem, systemd: Systemd) -> None:
    result = restore(node)
    assert (result["changed"], result["exists"], systemd.asked) == (False, False, [])
    forgotten = {"changed": False, "exists": False, "swept": [], "kept_packages": []}
    assert undo.forget_undo_point(node, "demo", check=False) == forgotten


def test_forgetting_removes_the_store_with_its_last_point(node: undo.NodeSystem) -> None:
    for role in ("demo", "other"):
        undo.remember_state(node, role, wanted(files=[HOSTS]), check=False)
    forgotten = {"changed": True, "exists": True, "swept": [], "kept_packages": []}
    assert undo.forget_undo_point(node, "demo", check=True) == forgotten
    undo.forget_undo_point(node, "demo", check=False)
    assert [path.name for path in Path(node.at(written.STORE)).iterdir()] == ["other"]
    undo.forget_undo_point(node, "other", check=False)
    assert not Path(node.at(written.STORE)).exists()


def test_what_apt_brought_along_goes_with_the_point(
    node: undo.NodeSystem, systemd: Systemd
) -> None:
    systemd.installed, systemd.unneeded = ["base", "lonely"], ["lonely"]
    undo.remember_state(node, "demo", wanted(packages=["firewalld"]), check=False)
    systemd.installed += ["firewalld", "libfw", "ipset"]
    # later runs remember more, and must not take what is here now for what was here before
    undo.remember_state(node, "demo", wanted(packages=["firewalld", "ipset"]), check=False)
    systemd.unneeded = ["lonely", "libfw"]
    assert undo.forget_undo_point(node, "demo", check=True)["swept"] == ["libfw"]
    assert undo.forget_undo_point(node, "demo", check=False)["swept"] == ["libfw"]
    assert systemd.asked[-1][-2:] == ["purge", "libfw"]


def test_what_others_installed_since_is_not_swept(node: undo.NodeSystem, systemd: Systemd) -> None:
    """Theirs, left over from what they removed again; and ours, of a first and of a later run."""
    systemd.installed = ["base"]
    undo.remember_state(node, "demo", wanted(packages=["firewalld"]), check=False)
    systemd.installed += ["firewalld", "libfw"]
    undo.record_written_files(node, "demo", check=False)
    systemd.installed += ["libtheirs"]
    undo.remember_state(node, "demo", wanted(packages=["firewalld"]), check=False)
    undo.record_written_files(node, "demo", check=False)
    undo.remember_state(node, "demo", wanted(packages=["firewalld", "ipset"]), check=False)
    systemd.installed += ["ipset", "libset"]
    undo.record_written_files(node, "demo", check=False)
    systemd.installed += ["libmore"]
    systemd.unneeded = ["libfw", "libmore", "libset", "libtheirs"]
    assert undo.forget_undo_point(node, "demo", check=True)["swept"] == ["libfw", "libset"]
    assert undo.forget_undo_point(node, "demo", check=False)["swept"] == ["libfw", "libset"]


def test_what_a_run_brought_that_died_is_swept(node: undo.NodeSystem, systemd: Systemd) -> None:
    systemd.installed = ["base"]
    undo.remember_state(node, "demo", wanted(packages=["firewalld"]), check=False)
    systemd.installed += ["libfw"]
    systemd.unneeded = ["libfw"]
    assert undo.forget_undo_point(node, "demo", check=False)["swept"] == ["libfw"]


def test_a_purge_that_fails_keeps_the_point(node: undo.NodeSystem, systemd: Systemd) -> None:
    undo.remember_state(node, "demo", wanted(packages=["firewalld"]), check=False)
    systemd.installed, systemd.unneeded = ["libfw"], ["libfw"]
    answer = Systemd.__call__

    def locked(command: list[str]) -> Answer:
        return (100, "", "Could not get lock") if "purge" in command else answer(systemd, command)

    with pytest.raises(undo.UndoError, match=r"\[UN-104\].*Could not get lock"):
        undo.forget_undo_point(undo.NodeSystem(node.root, locked), "demo", check=False)
    assert Path(node.at(written.STORE + "/demo")).exists()


def test_a_broken_package_list_is_an_error(node: undo.NodeSystem, systemd: Systemd) -> None:
    undo.remember_state(node, "demo", wanted(packages=["firewalld"]), check=False)
    point = Path(node.at(written.STORE + "/demo/point.json"))
    point.write_text(json.dumps({**json.loads(point.read_text()), "installed": "{"}))
    with pytest.raises(undo.UndoError, match=r"\[UN-101\]"):
        undo.forget_undo_point(node, "demo", check=False)


def test_a_diff_keeps_private_content_out_of_the_log(node: undo.NodeSystem) -> None:
    file = put(node, HOSTS, "password\n", 0o600)
    undo.remember_state(node, "demo", wanted(files=[HOSTS]), check=False)
    file.write_text("secret\n")
    text = json.dumps(restore(node)["diff"])
    assert "sha256" in text
    assert "password" not in text
    assert "secret" not in text


def test_interfaces_are_remembered_without_leases_and_link_local(node: undo.NodeSystem) -> None:
    addresses = [
        {"local": "10.0.0.7", "prefixlen": 24, "scope": "global"},
        {"local": "10.0.0.9", "prefixlen": 24, "scope": "global", "dynamic": True},
        {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
    ]
    kernel = [{"ifname": "eth1", "mtu": 1500, "addr_info": addresses}, {"ifname": "lo", "mtu": 9}]
    node.run = lambda _: (0, json.dumps(kernel), "")
    undo.remember_state(node, "demo", wanted(interfaces=["eth1", "gone"]), check=False)
    assert restore(node)["interfaces"] == {
        "eth1": {"addresses": ["10.0.0.7/24"], "mtu": 1500},
        "gone": {"addresses": [], "mtu": 0},
    }


# --- what others have changed since -----------------------------------------------------------

OURS = "/etc/netplan/90-ours.yaml"


def role_runs(node: undo.NodeSystem, **files: str) -> None:
    """What a role does: remember, write, note."""
    undo.remember_state(node, "demo", wanted(files=[HOSTS, OURS]), check=False)
    for path, content in {HOSTS: "ours\n", OURS: "ours\n", **files}.items():
        put(node, path, content)
    assert undo.record_written_files(node, "demo", check=False)["changed"] is False


def beside(node: undo.NodeSystem, path: str) -> list[str]:
    """What an undo has kept beside a file, in order."""
    file = Path(node.at(path))
    return [one.read_text() for one in sorted(file.parent.glob("*fullmesh-kept*"))]


@pytest.mark.parametrize("again", [1, 2])
def test_what_the_role_wrote_leaves_nothing_beside(node: undo.NodeSystem, again: int) -> None:
    put(node, HOSTS, "theirs\n")
    for _ in range(again):
        role_runs(node)
    result = restore(node)
    assert result["kept"] == []
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"
    assert beside(node, HOSTS) == beside(node, OURS) == []


@pytest.mark.parametrize("path", [HOSTS, OURS])
def test_a_file_that_somebody_changed_since_is_kept_beside_and_named(
    node: undo.NodeSystem, path: str
) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, path, "ours\nand mine\n", 0o640)
    would = restore(node, check=True)
    assert beside(node, path) == []
    result = restore(node)
    assert result["kept"] == would["kept"]
    assert [one["path"] for one in result["kept"]] == [path]
    kept = Path(node.at(result["kept"][0]["kept"]))
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("ours\nand mine\n", 0o640)
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"
    assert not Path(node.at(OURS)).exists()
    again = restore(node)
    assert (again["changed"], again["kept"], len(beside(node, path))) == (False, [], 1)


def test_the_check_says_of_a_directory_that_it_stays_for_what_is_kept_in_it(
    node: undo.NodeSystem,
) -> None:
    path = "/etc/demo/conf.d/ours"
    undo.remember_state(node, "demo", wanted(files=[path]), check=False)
    put(node, path, "ours\n")
    undo.record_written_files(node, "demo", check=False)
    put(node, path, "mine\n")
    would, did = restore(node, check=True), restore(node)
    assert would["restored"] == did["restored"] == ["file:" + path]
    assert Path(node.at("/etc/demo/conf.d")).is_dir()


def test_a_change_that_a_later_run_did_not_touch_is_still_somebodys(node: undo.NodeSystem) -> None:
    """A network file of others of which we took one line out: the role leaves it alone from then on."""
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "ours\nand mine\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS, OURS]), check=False)
    undo.record_written_files(node, "demo", check=False)
    assert [one["path"] for one in restore(node)["kept"]] == [HOSTS]


def test_what_a_later_run_wrote_over_it_is_ours(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "mine\n")
    role_runs(node, **{HOSTS: "ours, newer\n"})
    assert restore(node)["kept"] == []


def test_an_end_without_a_beginning_takes_nothing_for_ours(node: undo.NodeSystem) -> None:
    """static_ip remembers nothing in a run that has nothing to do."""
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "mine\n")
    undo.record_written_files(node, "demo", check=False)
    assert [one["path"] for one in restore(node)["kept"]] == [HOSTS]


def test_a_mode_or_a_file_that_is_gone_is_nothing_to_keep(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    change_mode(node)
    Path(node.at(OURS)).unlink()
    assert restore(node)["kept"] == []


def test_a_link_that_somebody_made_is_kept_as_a_link(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    replace_by_link(node)
    kept = restore(node)["kept"]
    assert os.readlink(node.at(kept[0]["kept"])) == "/elsewhere"
    assert Path(node.at(HOSTS)).read_text() == "theirs\n"


def test_what_nobody_knows_is_kept_where_it_was_somebody_elses(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    undo.remember_state(node, "demo", wanted(files=[HOSTS, OURS]), check=False)
    put(node, HOSTS, "who knows\n")
    put(node, OURS, "ours\n")
    assert [one["path"] for one in restore(node)["kept"]] == [HOSTS]


def test_two_versions_of_one_day_are_both_kept(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    for text in ("one\n", "two\n", "one\n"):
        put(node, HOSTS, text)
        restore(node)
    assert sorted(beside(node, HOSTS)) == ["one\n", "two\n"]


def test_a_role_that_gives_its_files_back_by_itself(node: undo.NodeSystem) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "merged\n")
    put(node, OURS, "mine\n")
    back = undo.Restoration(node, "demo", False, [], [HOSTS])
    assert [one["path"] for one in back.only_keep()["kept"]] == [OURS]
    assert (Path(node.at(HOSTS)).read_text(), Path(node.at(OURS)).read_text()) == (
        "merged\n",
        "mine\n",
    )
    assert undo.Restoration(node, "demo", False, [], [HOSTS]).run()["restored"] == ["file:" + OURS]
    assert Path(node.at(HOSTS)).read_text() == "merged\n"


def test_what_cannot_be_kept_is_not_overwritten(
    node: undo.NodeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(node, HOSTS, "theirs\n")
    role_runs(node)
    put(node, HOSTS, "mine\n")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_restore, "replace_file", full)
    with pytest.raises(undo.UndoError, match=r"UN-104\].*/etc/hosts was changed.*No space left"):
        restore(node)
    assert Path(node.at(HOSTS)).read_text() == "mine\n"


# --- folders of other accounts ------------------------------------------------------------------

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
def test_an_undo_in_the_folder_of_an_account_works_as_that_account(
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
def test_an_undo_gives_no_file_of_roots_to_an_account_that_swaps_names(
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
def test_what_is_no_file_is_refused_in_the_folder_of_an_account_too(
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
def test_a_kept_file_has_a_name_that_nobody_reads(path: str, name: str) -> None:
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


# --- playbooks/undo.yml -----------------------------------------------------------------------


def undo_play() -> dict[str, Any]:
    (play,) = yaml.safe_load((ROOT / "playbooks/undo.yml").read_text())
    return dict(play)


def test_every_role_is_undone_by_its_undo_point_and_nothing_else() -> None:
    """A role's settings say what the next run shall do: nvidia_driver_manage false left driver, hold and nouveau."""
    found = {
        task["ansible.builtin.include_role"]["name"]: task
        for task in undo_play()["tasks"]
        if task.get("ansible.builtin.include_role", {}).get("tasks_from") == "undo"
    }
    roles = {path.parent.parent.name for path in ROOT.glob("roles/*/tasks/undo.yml")}
    # the account has a playbook of its own, and of a verification nothing lasts
    assert roles - found.keys() == {"ec2_security_group", "verify_cluster"}
    assert not found.keys() - roles
    for role, task in found.items():
        assert task["when"] == f"'{role}' in __changed_by"
        assert task["tags"] == [role]


def points_of(tree: object) -> set[str]:
    """Whose undo points a YAML tree makes."""
    if isinstance(tree, list):
        return {role for one in tree for role in points_of(one)}
    if not isinstance(tree, dict):
        return set()
    asked = tree.get("undo_point", {})
    return {asked["role"]} if asked else points_of(list(tree.values()))


def test_every_undo_point_belongs_to_an_undo() -> None:
    paths = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    made = {role for path in paths for role in points_of(yaml.safe_load(path.read_text()))}
    undone = {path.parent.parent.name for path in ROOT.glob("roles/*/tasks/undo.yml")}
    # tasks/bundle_undo.yml runs always: its packages are there without a point
    assert made - undone == {"bundle"}


@pytest.mark.parametrize("left", [[], ["nvidia_driver", "peer_firewall"]])
@pytest.mark.parametrize("check", [False, True])
def test_a_node_is_not_forgotten_while_a_role_is_not_undone(
    tmp_path: Path, left: list[str], check: bool
) -> None:
    """The tasks of undo.yml with the tag state, on a folder of this test."""
    state = tmp_path / "state"
    (state / "undo").mkdir(parents=True)
    (state / "manifest.json").write_text("{}")
    for name in left:
        (state / "undo" / name).mkdir()
    play = undo_play()
    tasks = [task for task in play["tasks"] if task.get("tags") == ["state"]]
    part = [{"hosts": "localhost", "gather_facts": False, "vars": play["vars"], "tasks": tasks}]
    text = yaml.safe_dump(part, width=1000).replace("/var/lib/fullmesh", str(state))
    (tmp_path / "play.yml").write_text(text.replace("/run/fullmesh/ask", str(tmp_path / "ask")))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    interpreter = f"ansible_python_interpreter={sys.executable}"
    command = [program, "-i", "localhost,", "-c", "local", "-e", interpreter]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    environment["ANSIBLE_BECOME"] = "false"
    done = subprocess.run(
        [*command, str(tmp_path / "play.yml"), *["--check"] * check],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert state.exists() == bool(left or check)
    assert (done.returncode != 0) == ("UN-110" in done.stdout) == bool(left and not check)
    for name in left if not check else []:
        assert name in done.stdout


def test_a_unit_whose_package_was_removed_is_gone_before_systemd_reads_its_units_again(
    tmp_path: Path,
) -> None:
    fragment = tmp_path / "firewalld.service"
    unit = {
        "LoadState": "loaded",
        "ActiveState": "inactive",
        "UnitFileState": "disabled",
        "FragmentPath": str(fragment),
    }
    assert not observe.describe_unit(unit)["found"]
    fragment.write_text("[Unit]\n")
    assert observe.describe_unit(unit)["found"]
    assert not observe.describe_unit({**unit, "LoadState": "not-found"})["found"]
