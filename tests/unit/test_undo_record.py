"""The undo record: data that the published release stored is read and undone."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import selinux, ssh_keys
from ansible.module_utils.fullmesh.firewall import peers, preserve, ufw
from ansible.module_utils.fullmesh.network import change, links
from ansible.module_utils.fullmesh.state import record, undo, written
from ansible.module_utils.fullmesh.transaction import engine
from record_files import RECORDED

# Recorded undo points of five roles and of ufw. The code of 0.2.0 (1bc685b) wrote them on a
# simulated node.
STORE = RECORDED / "undo/0.2.0"
POINTS = [
    ("time_sync", "point"),
    ("static_ip", "point"),
    ("selinux_mode", "point"),
    ("peer_firewall", "point"),
    ("peer_firewall", "ufw"),
    ("node_ssh", "point"),
]
CHRONY = "# theirs\npool 2.pool.ntp.org iburst\n"
UFW_CONF = "# /etc/ufw/ufw.conf\nENABLED=yes\nLOGLEVEL=low\n"
WHEN = 1_700_000_000_000_000_000
# Files of the roles on the node when it is undone.
OURS = {
    "/etc/chrony.conf": "ours\n",
    "/etc/chrony/conf.d/60-fullmesh.conf": "ours\n",
    "/etc/netplan/90-fullmesh.yaml": "ours\n",
    "/etc/selinux/config": "SELINUX=enforcing\nSELINUXTYPE=targeted\n",
    "/etc/ufw/ufw.conf": UFW_CONF.replace("yes", "no"),
    "/proc/sys/net/ipv4/tcp_fin_timeout": "30\n",
    "/sys/fs/selinux/enforce": "1",
    "/usr/sbin/ufw": "",
    "/var/lib/dpkg/status": "Package: base\n",
}


def answers(command: list[str]) -> tuple[int, str, str]:
    """Act as the tools of that node. ufw's rules are not loaded."""
    if command[:2] == ["systemctl", "show"]:
        names = command[command.index("--") + 1 :]
        block = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\n"
        return 0, "\n".join(block for _ in names), ""
    if command[0] == "dpkg-query":
        names = ("base", "chrony", "libfw")
        return 0, "".join(f"{name}\t1.2\tinstalled\tinstall\t{name}\n" for name in names), ""
    if "remove" in command:
        return 0, "".join(f"Remv {name} [1.2]\n" for name in command[command.index("--") + 1 :]), ""
    if command[0] == "apt-get":
        return 0, "Remv libfw [1.2]\nRemv base [1.2]\n", ""
    return 0, "", ""


def run_briefly(command: list[str]) -> tuple[int, str]:
    rc, out, err = answers(command)
    return rc, out + err


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Make a node that 0.2.0 configured, with its undo data."""
    root = tmp_path
    for path, text in OURS.items():
        file = Path(str(root) + path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    store = root / "var/lib/fullmesh"
    shutil.copytree(STORE, store)
    for file in store.rglob("*"):
        file.chmod(0o700 if file.is_dir() else 0o600)
    for file in [*store.rglob("point.json"), *store.rglob("ufw.json")]:
        # only root can give a file to another account
        mine = f'"uid": {os.getuid()}', f'"gid": {os.getgid()}'
        file.write_text(file.read_text().replace('"uid": 0', mine[0]).replace('"gid": 0', mine[1]))
    return root


# --- the undo of each role ----------------------------------------------------------------------


def time_sync(root: Path) -> Any:
    there = undo.NodeSystem(str(root), answers)
    back = undo.Restoration(there, "time_sync", False, []).run()
    swept = undo.forget_undo_point(there, "time_sync", check=False)["swept"]
    file = root / "etc/chrony.conf"
    return (
        back["restored"],
        back["remove_packages"],
        back["install_packages"],
        swept,
        file.read_text(),
        stat.S_IMODE(file.stat().st_mode),
        os.readlink(root / "etc/localtime"),
        (root / "etc/chrony").exists(),
        (root / "proc/sys/net/ipv4/tcp_fin_timeout").read_text(),
    )


def static_ip(root: Path) -> Any:
    there = change.NetworkNode(answers, str(root))
    before = record.UndoPoint(str(root), "static_ip").load()["part"]["network"]
    return change.read_original_files(there), change.network_owner.drop_watched_interfaces(before)


def selinux_mode(root: Path) -> Any:
    there = selinux.SelinuxNode(str(root), run_briefly)
    switch = selinux.SelinuxSwitch(there, {"mode": "keep", "staged": False}, False)
    return switch.restored()["changed"], (root / "sys/fs/selinux/enforce").read_text()


def peer_firewall(root: Path) -> Any:
    there = undo.NodeSystem(str(root), answers)
    return (
        peers.Firewall({"ufw": "carry"}, False, run_briefly, str(root)).observed.ran_before(),
        undo.Restoration(there, "peer_firewall", False, []).run()["remove_packages"],
    )


def takeover(root: Path) -> Any:
    firewall = peers.Firewall({"ufw": "carry"}, False, run_briefly, str(root))
    said = firewall.observed.waits_for_ufw(), firewall.services.restore_ufw()["changed"]
    file = root / "etc/ufw/ufw.conf"
    info = file.stat()
    return (
        *said,
        firewall.call.diff[0]["after"],
        file.read_text(),
        info.st_mode & 0o777,
        info.st_mtime_ns,
    )


def node_ssh(root: Path) -> Any:
    return ssh_keys.load_made_account(), ssh_keys.remove_ssh_keys(check=False)


UNDO: dict[tuple[str, str], Callable[[Path], Any]] = {
    ("time_sync", "point"): time_sync,
    ("static_ip", "point"): static_ip,
    ("selinux_mode", "point"): selinux_mode,
    ("peer_firewall", "point"): peer_firewall,
    ("peer_firewall", "ufw"): takeover,
    ("node_ssh", "point"): node_ssh,
}
# The results of 0.2.0's code for the same files.
EFFECT: dict[tuple[str, str], Any] = {
    ("time_sync", "point"): (
        [
            "service:chrony.service stop",
            "service:chrony.service disable",
            "file:/etc/chrony.conf",
            "file:/etc/chrony/conf.d/60-fullmesh.conf",
            "file:/etc/localtime",
            "directory:/etc/chrony/conf.d",
            "directory:/etc/chrony",
            "sysctl:net.ipv4.tcp_fin_timeout",
        ],
        ["chrony"],
        ["systemd-timesyncd"],
        ["libfw"],
        CHRONY,
        0o640,
        "/usr/share/zoneinfo/UTC",
        False,
        "60\n",
    ),
    ("static_ip", "point"): (
        {
            "/etc/netplan/50-cloud-init.yaml": {"text": "network: {version: 2}\n", "mode": 0o600},
            "/etc/netplan/90-fullmesh.yaml": None,
        },
        {
            "names": {"netplan": ["eth1"]},
            "owners": {
                "netplan": {
                    "links": {
                        "eth1": {
                            "addresses": ["10.0.0.5/24"],
                            "managed": True,
                            "mtu": 1400,
                            "up": True,
                        }
                    },
                    "routes": [
                        {"dev": "eth1", "family": "-4", "to": "10.7.0.0/16", "via": "10.0.0.1"}
                    ],
                }
            },
            "runtime": {
                "connected": [["-4", "eth1", "10.0.0.0/24 proto kernel scope link src 10.0.0.5"]],
                "links": {
                    "eth1": {"addresses": ["10.0.0.5/24"], "leases": [], "mtu": 1400, "up": True}
                },
                "routes": [["-4", "eth1", "10.7.0.0/16 via 10.0.0.1 proto static"]],
            },
        },
    ),
    ("selinux_mode", "point"): (True, "0"),
    ("peer_firewall", "point"): (False, []),
    ("peer_firewall", "ufw"): (True, True, "active\n", UFW_CONF, 0o644, WHEN),
    ("node_ssh", "point"): (
        {"user": "train", "account": True, "folder": True, "keys": True},
        {"changed": True, "left": ""},
    ),
}


@pytest.fixture(autouse=True)
def _a_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ssh_keys, "ROOT", str(tmp_path))
    monkeypatch.setattr(ssh_keys, "FOLDER", str(tmp_path / "etc/fullmesh/ssh"))
    monkeypatch.setattr(ssh_keys, "find_account", lambda _user: None)


@pytest.mark.parametrize("which", POINTS)
def test_the_store_of_the_published_release_can_be_undone(
    node: Path, which: tuple[str, str]
) -> None:
    assert UNDO[which](node) == EFFECT[which]


def test_reading_writes_nothing(node: Path) -> None:
    """--check, and a run that may not write."""

    def stored() -> dict[str, bytes]:
        return {str(one): one.read_bytes() for one in node.rglob("*") if one.is_file()}

    before = stored()
    for role, name in POINTS:
        record.UndoPoint(str(node), role, name).load()
        undo.Restoration(undo.NodeSystem(str(node), answers), role, True, []).run()
    links.StaticIpLinks(change.NetworkNode(answers, str(node)), {"links": []}, True).absent()
    assert stored() == before


def test_a_record_is_for_root_alone(node: Path) -> None:
    for role, name in POINTS:
        point = record.UndoPoint(str(node), role, name)
        point.save(point.load(), {})
    store = node / "var/lib/fullmesh/undo"
    assert {stat.S_IMODE(one.stat().st_mode) for one in store.rglob("*")} == {0o700, 0o600}


# --- forbidden effects --------------------------------------------------------------------------


def test_new_folders_are_on_disk_before_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    put = record.write_file_atomically
    monkeypatch.setattr(record, "fsync_directory", done.append)

    def kept(path: str, *rest: Any) -> None:
        done.append(path)
        put(path, *rest)

    monkeypatch.setattr(record, "write_file_atomically", kept)
    point = record.UndoPoint(str(tmp_path), "time_sync")
    point.save(record.make_empty_record("time_sync"), {})
    folders = [str(tmp_path)]
    for name in ("var", "lib", "fullmesh", "undo", "time_sync"):
        folders.append(f"{folders[-1]}/{name}")
    assert sorted(done[:-1]) == sorted(folders)
    assert done[-1] == point.path
    point.save(record.make_empty_record("time_sync"), {})
    assert done[len(folders) + 1 :] == [point.path]


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 1, "role": "time_sync"}'])
def test_a_broken_record_and_another_form_are_errors(node: Path, text: str) -> None:
    """If a broken record counted as missing, our files would be stored as the original ones."""
    point = record.UndoPoint(str(node), "time_sync")
    Path(point.path).write_text(text)
    with pytest.raises(undo.UndoError, match=r"\[UN-101\]"):
        point.load()


def test_node_ssh_forgets_its_record_with_the_store(tmp_path: Path) -> None:
    ssh_keys.save_made_account({"user": "train", "account": True})
    assert ssh_keys.load_made_account() == {"user": "train", "account": True}
    assert ssh_keys.remove_ssh_keys(check=True)["changed"]
    ssh_keys.remove_ssh_keys(check=False)
    assert not Path(str(tmp_path) + written.STORE).exists()
    assert not ssh_keys.remove_ssh_keys(check=False)["changed"]


def test_an_unconfirmed_takeover_forgets_its_backup(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rollback restores the record of ufw, here that of an earlier takeover."""
    armed: list[list[str]] = []
    monkeypatch.setattr(
        engine, "arm", lambda run, name, seconds, paths, *_, **__: armed.append(paths)
    )
    firewall = peers.Firewall(
        {"ufw": "carry", "rollback_seconds": 60, "token": ""}, False, run_briefly, str(node)
    )
    firewall.observed.ufw_on = True
    monkeypatch.setattr(preserve, "PLACE", str(node / "kept"))
    store = written.STORE + "/peer_firewall/"
    firewall.change.arm_rollback({"zone": "fullmesh"})
    kept = [path for path in armed[0] if path.startswith(store) or path == ufw.CONF]
    assert {store + "ufw.json", ufw.CONF} <= {*kept}
    record_of_ufw = node / (store[1:] + "ufw.json")
    earlier = record_of_ufw.read_text()
    journal = [engine.save_path(str(node) + path, n, str(node)) for n, path in enumerate(kept)]
    firewall.services.disable_ufw()
    assert record_of_ufw.read_text() != earlier
    for entry in journal:
        engine.restore_saved_path(entry, str(node))
    assert record_of_ufw.read_text() == earlier
    assert UNDO["peer_firewall", "ufw"](node) == EFFECT["peer_firewall", "ufw"]
