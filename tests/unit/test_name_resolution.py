"""name_resolution: each name has one address, ours comes first, and no other entry is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import hosts_file
from ansible.module_utils.fullmesh import name_resolution as fullmesh_name_resolution
from ansible.module_utils.fullmesh.facts.nsswitch import parse_nsswitch_sources
from ansible.module_utils.fullmesh.state import undo as undo_point
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.roles import name_resolution

HOSTS = [
    {"address": "10.0.0.11", "names": ["node1"]},
    {"address": "10.0.0.12", "names": ["node2"]},
]
DEBIAN = "127.0.0.1 localhost\n127.0.1.1 node1.example.org node1\n\n::1 localhost ip6-localhost\n"


def list_entries(content: str) -> list[str]:
    return [line for line in content.splitlines() if line and not line.startswith("#")]


def test_the_127_0_1_1_line_is_removed_but_recorded() -> None:
    result = hosts_file.build_hosts_file(DEBIAN, HOSTS)
    assert list_entries(result) == [
        "10.0.0.11 node1",
        "10.0.0.12 node2",
        "127.0.0.1 localhost",
        "127.0.1.1 node1.example.org",
        "::1 localhost ip6-localhost",
    ]
    assert "# was: 127.0.1.1 node1.example.org node1" in result.splitlines()


@pytest.mark.parametrize(
    "original",
    [
        DEBIAN,
        "127.0.0.1 localhost node1\n10.9.9.9 node2\n# the end\n",
        "10.9.9.9 node1 node2 # both\n127.0.0.1 localhost\n",
        "127.0.0.1 localhost\n",
        "",
    ],
)
def test_undo_removes_our_block_and_keeps_other_lines(original: str) -> None:
    current = hosts_file.build_hosts_file(original, HOSTS)
    assert hosts_file.remove_hosts_block(current, original) == original
    mine = "10.3.3.3 nfs  # mine\n"
    assert hosts_file.remove_hosts_block(current + mine, original) == original + mine


def test_a_line_that_an_admin_removed_stays_removed() -> None:
    current = hosts_file.build_hosts_file(DEBIAN, HOSTS).replace(
        "::1 localhost ip6-localhost\n", ""
    )
    assert hosts_file.remove_hosts_block(current, DEBIAN) == DEBIAN.replace(
        "::1 localhost ip6-localhost\n", ""
    )


@pytest.mark.parametrize(
    ("present", "kept"),
    [
        ("", []),
        ("127.0.0.1 localhost", ["127.0.0.1 localhost"]),
        ("10.1.0.11 node1 # management", []),
        ("10.1.0.11 NODE1 other", ["10.1.0.11 other"]),
        ("# 10.1.0.11 node1", []),
        ("10.1.0.99 node11", ["10.1.0.99 node11"]),
        ("::1 localhost node2", ["::1 localhost"]),
    ],
)
def test_only_our_names_leave_other_lines(present: str, kept: list[str]) -> None:
    assert list_entries(hosts_file.build_hosts_file(present + "\n", HOSTS)) == [
        "10.0.0.11 node1",
        "10.0.0.12 node2",
        *kept,
    ]


def test_comments_and_blank_lines_stay() -> None:
    assert "# ours\n\n10.1.0.1 gw # the router\n" in hosts_file.build_hosts_file(
        "# ours\n\n10.1.0.1 gw # the router\n", HOSTS
    )


@given(
    st.lists(
        st.sampled_from(
            [
                "127.0.0.1 localhost",
                "127.0.1.1 node1",
                "# x",
                "",
                "10.9.9.9 node2 z",
                "::1 localhost node1",
            ]
        )
    )
)
def test_a_second_run_changes_nothing(lines: list[str]) -> None:
    once = hosts_file.build_hosts_file("\n".join(lines), HOSTS)
    assert hosts_file.build_hosts_file(once, HOSTS) == once


def test_a_line_is_restored_if_its_name_is_no_longer_managed() -> None:
    once = hosts_file.build_hosts_file("127.0.0.1 localhost\n10.9.9.9 node2\n", HOSTS)
    assert list_entries(hosts_file.build_hosts_file(once, HOSTS[:1])) == [
        "10.0.0.11 node1",
        "10.9.9.9 node2",
        "127.0.0.1 localhost",
    ]


@pytest.mark.parametrize(
    ("own", "names"),
    [
        (["node1.example.org", "gpu7"], ["node1.example.org", "gpu7", "node1"]),
        (["gpu7", "node1.example.org"], ["node1.example.org", "gpu7", "node1"]),
        (["localhost", "localhost.localdomain"], ["node1"]),
        ([], ["node1"]),
    ],
)
def test_own_names_join_the_own_line_full_name_first(own: list[str], names: list[str]) -> None:
    hosts = hosts_file.add_own_names(HOSTS, "10.0.0.11", own)
    assert [host["names"] for host in hosts] == [names, ["node2"]]


@pytest.mark.parametrize(
    ("content", "sources"),
    [
        ("hosts: files dns", ["files", "dns"]),
        (
            "passwd: files\nhosts:  dns [!UNAVAIL=return] files # x",
            ["dns", "[!UNAVAIL=return]", "files"],
        ),
        ("", ["dns", "files"]),
    ],
)
def test_the_sources_of_nsswitch_are_read(content: str, sources: list[str]) -> None:
    assert parse_nsswitch_sources(content) == sources


def test_a_shortened_line_is_found_by_address_and_names() -> None:
    """Cover mutants: a line of another address, the same line, or only an address does not match."""
    line = "10.9.9.9 node2 storage nfs"
    left = ["10.9.9.9 storage nfs", "10.9.9.9 nfs", "10.9.9.9 storage # mine"]
    assert [one for one in left if hosts_file.is_reduced_line(line, one)] == left
    others = ["10.8.8.8 storage nfs", line, "10.9.9.9", "10.9.9.9 elsewhere", "", "# 10.9.9.9 nfs"]
    assert [one for one in others if hosts_file.is_reduced_line(line, one)] == []


def test_a_line_returns_to_the_nearest_place() -> None:
    """Cover mutants: a user added the same remainder at the top of the file, while ours was at the end."""
    original = "10.1.1.1 a\n10.2.2.2 b\n10.9.9.9 node2 nfs\n"
    current = hosts_file.build_hosts_file(original, HOSTS)
    assert current.endswith("10.9.9.9 nfs\n")
    mine = "10.9.9.9 nfs\n" + current
    assert hosts_file.remove_hosts_block(mine, original) == "10.9.9.9 nfs\n" + original
    # a line that was there twice before is not a remainder
    twice = "10.9.9.9 nfs\n10.9.9.9 node2 nfs\n"
    assert hosts_file.remove_hosts_block(hosts_file.build_hosts_file(twice, HOSTS), twice) == twice


@pytest.mark.parametrize("content", ["hosts: dns files", "hosts: myhostname files", ""])
def test_another_first_source_is_refused(content: str) -> None:
    with pytest.raises(fullmesh_name_resolution.HostsError, match="NR-103"):
        fullmesh_name_resolution.check_hosts_order(content)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("manage_etc_hosts: true", "true"),
        ("manage_etc_hosts: 'localhost' # x", "localhost"),
        ("manage_etc_hosts: false", ""),
        ("manage_etc_hosts: false\nmanage_etc_hosts: true", "true"),
        ("# manage_etc_hosts: true", None),
        ("", None),
    ],
)
def test_the_setting_of_cloud_init_is_read(content: str, value: str | None) -> None:
    assert hosts_file.parse_manage_etc_hosts(content) == value


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hosts").write_text(DEBIAN)
    (tmp_path / "hosts").chmod(0o640)
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    monkeypatch.setattr(fullmesh_name_resolution, "HOSTS", str(tmp_path / "hosts"))
    monkeypatch.setattr(fullmesh_name_resolution, "NSSWITCH", str(tmp_path / "nsswitch.conf"))
    monkeypatch.setattr(fullmesh_name_resolution, "CLOUD", (str(tmp_path / "*.cfg"),))
    answers = {"node1": ["10.0.0.11"], "node2": ["10.0.0.12"]}
    monkeypatch.setattr(fullmesh_name_resolution, "resolve_name", lambda name: answers[name])
    return tmp_path


PARAMS: dict[str, Any] = {"hosts": HOSTS, "address": "10.0.0.11", "own_names": []}


def test_the_module_writes_once_and_keeps_the_mode(node: Path) -> None:
    assert fullmesh_name_resolution.configure_hosts_file(PARAMS, check=True)["changed"] is True
    assert (node / "hosts").read_text() == DEBIAN
    assert fullmesh_name_resolution.configure_hosts_file(PARAMS, check=False)["names"]["node2"] == [
        "10.0.0.12"
    ]
    assert (node / "hosts").stat().st_mode & 0o777 == 0o640
    assert fullmesh_name_resolution.configure_hosts_file(PARAMS, check=False)["changed"] is False


def test_a_mounted_file_is_written_in_place(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inode = (node / "hosts").stat().st_ino

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(fullmesh_name_resolution.os, "rename", busy)
    fullmesh_name_resolution.configure_hosts_file(PARAMS, check=False)
    assert (node / "hosts").stat().st_ino == inode
    assert "10.0.0.12 node2" in (node / "hosts").read_text()
    assert sorted(path.name for path in node.iterdir()) == ["hosts", "nsswitch.conf"]


def test_a_name_with_another_address_is_an_error(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        fullmesh_name_resolution, "resolve_name", lambda _: ["192.0.2.1", "10.0.0.11"]
    )
    with pytest.raises(
        fullmesh_name_resolution.HostsError,
        match=r"NR-104.*node1 is 192\.0\.2\.1, then 10\.0\.0\.11 first",
    ):
        fullmesh_name_resolution.configure_hosts_file(PARAMS, check=False)


def test_a_further_address_behind_the_right_one_is_no_error(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cover a mutant: a name server may have further addresses, but glibc returns the first."""
    answers = {"node1": ["10.0.0.11", "192.0.2.1"], "node2": ["10.0.0.12", "192.0.2.2"]}
    monkeypatch.setattr(fullmesh_name_resolution, "resolve_name", lambda name: answers[name])
    assert fullmesh_name_resolution.configure_hosts_file(PARAMS, check=False)["names"] == answers


def test_the_last_cloud_init_file_wins(node: Path) -> None:
    (node / "1.cfg").write_text("manage_etc_hosts: false\n")
    (node / "2.cfg").write_text("manage_etc_hosts: true\n")
    assert (
        fullmesh_name_resolution.find_cloud_init_setting()
        == f"manage_etc_hosts: true in {node}/2.cfg"
    )
    (node / "3.cfg").write_text("manage_etc_hosts: false\n")
    assert fullmesh_name_resolution.find_cloud_init_setting() == ""


@pytest.mark.parametrize(
    ("hosts", "own", "codes"),
    [
        (HOSTS, ["node1"], []),
        (HOSTS[1:], [], ["NR-101"]),
        (HOSTS, ["NODE2"], ["NR-102"]),
        ([*HOSTS, {"address": "10.0.0.13", "names": ["node2"]}], [], ["NR-102"]),
        ([*HOSTS, {"address": "10.0.0.12", "names": ["node2"]}], [], []),
        ([*HOSTS, {"address": "10.0.0.13", "names": ["localhost"]}], [], ["NR-106"]),
        ([*HOSTS, {"address": "10.0.0.13", "names": ["no_name"]}], [], ["NR-106"]),
    ],
)
def test_names_that_cannot_work_are_refused(
    hosts: list[dict[str, Any]], own: list[str], codes: list[str]
) -> None:
    assert [
        fault.code for fault in name_resolution.find_hosts_file_faults(hosts, "10.0.0.11", own)
    ] == codes


# an unusual editor's output
ODD = "127.0.0.1\tlocalhost\n127.0.1.1\tnode1.example.org node1\n# no newline at the end"


# --- undo ---------------------------------------------------------------------------------------


@pytest.fixture
def point(node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a node with an undo point and a record, with the module that makes them."""
    store = str(tmp_path / "undo")
    (node / "hosts").write_text(ODD)
    monkeypatch.setattr(fullmesh_name_resolution.written, "STORE", store)
    wanted = {kind: [] for kind in undo_point.KINDS} | {"files": [str(node / "hosts")]}
    there = undo_point.NodeSystem("", lambda command: (0, "", ""))
    undo_point.remember_state(there, "name_resolution", wanted, check=False)
    fullmesh_name_resolution.configure_hosts_file(PARAMS, False)
    undo_point.record_written_files(there, "name_resolution", check=False)
    return node / "hosts"


def test_undo_restores_the_file_byte_for_byte(point: Path) -> None:
    assert fullmesh_name_resolution.restore_hosts_file(check=True)["changed"]
    assert fullmesh_name_resolution.hosts_file.BEGIN in point.read_text()
    assert fullmesh_name_resolution.restore_hosts_file(check=False)["changed"]
    assert point.read_text() == ODD
    assert not fullmesh_name_resolution.restore_hosts_file(check=False)["changed"]


def test_undo_keeps_the_lines_that_others_added(point: Path) -> None:
    with point.open("a") as stream:
        stream.write("10.3.3.3 nfs\n")
    assert fullmesh_name_resolution.restore_hosts_file(check=False)["changed"]
    assert point.read_text() == ODD + "\n10.3.3.3 nfs\n"


def test_a_foreign_file_is_unchanged(point: Path) -> None:
    """cloud-init rewrote it."""
    point.write_text("127.0.0.1 localhost\n")
    assert not fullmesh_name_resolution.restore_hosts_file(check=False)["changed"]


def test_without_an_undo_point_nothing_is_removed(node: Path) -> None:
    current = hosts_file.build_hosts_file(DEBIAN, HOSTS)
    (node / "hosts").write_text(current)
    assert not fullmesh_name_resolution.restore_hosts_file(check=False)["changed"]
