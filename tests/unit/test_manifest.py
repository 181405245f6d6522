"""The manifest: what it sees, what it calls drift, and that nothing makes it crash."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import node_manifest
import pytest
from ansible.module_utils.fullmesh import manifest
from ansible.module_utils.fullmesh.facts import node
from hypothesis import given
from hypothesis import strategies as st

SHOW = """\
Id=chronyd.service
Names=chronyd.service
ActiveState=active
UnitFileState=enabled

Id=ssh.service
Names=ssh.service sshd.service
ActiveState=inactive
UnitFileState=disabled
"""


def test_units_are_found_under_every_name() -> None:
    units = manifest.parse_unit_states(SHOW)
    assert units["chronyd.service"] == {"active": True, "enabled": True}
    assert units["sshd.service"] == {"active": False, "enabled": False}


def test_services_that_do_not_exist_are_off() -> None:
    state = manifest.read_service_states(["chronyd", "gone"], run=lambda _argv: (0, SHOW))
    assert state == {
        "chronyd": {"active": True, "enabled": True},
        "gone": {"active": False, "enabled": False},
    }


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"),
        ("net/ipv4/conf/eth0.7/rp_filter", "net/ipv4/conf/eth0.7/rp_filter"),
    ],
)
def test_sysctl_names(tmp_path: Path, key: str, path: str) -> None:
    target = tmp_path / path
    target.parent.mkdir(parents=True)
    target.write_text("4096\t131072\t6291456\n")
    assert manifest.read_sysctl_value(key, str(tmp_path)) == "4096 131072 6291456"
    assert manifest.read_sysctl_value(key + "x", str(tmp_path)) == "absent"


def test_file_states(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    plain.chmod(0o640)
    first = manifest.fingerprint_path(str(plain))
    assert first.endswith(f"0640 {os.getuid()}:{os.getgid()}")
    plain.chmod(0o644)
    assert manifest.fingerprint_path(str(plain)) != first
    (tmp_path / "link").symlink_to("plain")
    assert manifest.fingerprint_path(str(tmp_path / "link")) == "link -> plain"
    assert manifest.fingerprint_path(str(tmp_path / "none")) == "absent"
    assert manifest.fingerprint_path(str(tmp_path)).startswith("directory")


def test_merge_joins_the_roles() -> None:
    total = manifest.merge_owned(
        {
            "a": {"files": ["/x"], "sysctls": {"k": "1"}},
            "b": {"files": ["/x", "/y"], "services": {"s": {}}},
        }
    )
    assert total["files"] == ["/x", "/y"]
    assert total["sysctls"] == {"k": "1"}
    with pytest.raises(ValueError, match="sockets"):
        manifest.merge_owned({"a": {"sockets": []}})
    for value in ("/etc/x", {"/etc/x": 1}, 7, None):
        with pytest.raises(
            ValueError, match=rf"role a: .* has a {type(value).__name__} as its files"
        ):
            manifest.merge_owned({"a": {"files": value}})
    with pytest.raises(ValueError, match=r"role a: .* has a list as its sysctls"):
        manifest.merge_owned({"a": {"sysctls": ["x"]}})


def keep(tmp_path: Path, owned_file: Path, digest: str = "d") -> str:
    owned = manifest.merge_owned({"r": {"files": [str(owned_file)]}})
    path = str(tmp_path / "state/manifest.json")
    manifest.write_manifest(
        {
            "schema": manifest.SCHEMA,
            "digest": digest,
            "owned": owned,
            "state": manifest.observe_owned(owned),
        },
        path,
    )
    return path


def test_no_drift_then_an_edit_is_named(tmp_path: Path) -> None:
    target = tmp_path / "conf"
    target.write_text("one")
    path = keep(tmp_path, target)
    assert manifest.find_drift("d", path) == []
    target.write_text("two")
    (sentence,) = manifest.find_drift("d", path)
    assert sentence.startswith(f"file {target}: was ")
    target.unlink()
    assert manifest.find_drift("d", path)[0].endswith("is absent")


def test_other_inputs_are_drift(tmp_path: Path) -> None:
    target = tmp_path / "conf"
    target.write_text("one")
    assert manifest.find_drift("e", keep(tmp_path, target))[0].startswith("inputs:")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '{"schema": 1}',
        '{"schema": 99, "owned": {}, "state": {}}',
        '{"schema": 1, "owned": 7, "state": {}}',
        '{"schema": 1, "owned": {}, "state": {}}',
        '{"schema": 1, "owned": {}, "state": 7}',
        '{"schema": 1, "owned": {}, "state": {"file": 7}}',
        '{"schema": 1, "owned": {}, "state": {}, "roles": 7}',
        '{"schema": 1, "owned": {}, "state": {}, "roles": {"r": 7}}',
        '{"schema": 1, "owned": {"files": 3}, "state": {}}',
    ],
)
def test_a_broken_manifest_is_drift_and_no_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text)
    assert manifest.find_drift("d", str(path)) != []


def test_no_manifest_is_drift(tmp_path: Path) -> None:
    assert manifest.find_drift("d", str(tmp_path / "none")) == [
        "no manifest: Fullmesh has not configured this node yet"
    ]


STATES = st.dictionaries(st.text(max_size=4), st.text(max_size=4) | st.booleans(), max_size=4)


@given(STATES, STATES)
def test_differences_are_exactly_the_differences(then: dict[str, Any], now: dict[str, Any]) -> None:
    found = manifest.describe_differences({"file": then}, {"file": now})
    assert len(found) == sum(1 for name in then if then[name] != now.get(name))


def test_manifest_is_one_json_line_per_key(tmp_path: Path) -> None:
    target = tmp_path / "conf"
    target.write_text("one")
    path = Path(keep(tmp_path, target))
    assert json.loads(path.read_text())["digest"] == "d"
    assert oct(path.stat().st_mode & 0o777) == "0o644"
    assert not path.with_suffix(".json.new").exists()


OS_RELEASES = [
    ('ID="rocky"\nVERSION_ID="9.4"\n', ("Rocky", "9", "RedHat")),
    ('ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n', ("Ubuntu", "24", "Debian")),
    ('ID="centos"\nVERSION_ID="9"\n', ("CentOS", "9", "RedHat")),
    ('ID="almalinux"\nVERSION_ID="10.0"\n', ("AlmaLinux", "10", "RedHat")),
    ('ID="rhel"\nVERSION_ID="9.5"\n', ("RedHat", "9", "RedHat")),
    ("NAME=Gentoo\nID=gentoo\n", ("Gentoo", "", "")),
    ("", ("", "", "")),
]


@pytest.mark.parametrize(("text", "expected"), OS_RELEASES)
def test_os_release_by_ansibles_names(text: str, expected: tuple[str, str, str]) -> None:
    facts = node.parse_os_release(text)
    assert (
        facts["distribution"],
        facts["distribution_major_version"],
        facts["os_family"],
    ) == expected


IP_ADDR = """\
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0@if5    inet 10.77.0.2/24 brd 10.77.0.255 scope global eth0\\       valid_lft forever
2: eth0    inet6 fe80::1/64 scope link \\       valid_lft forever preferred_lft forever
3: wg0    inet 10.9.0.1 peer 10.9.0.2/32 scope global wg0\\       valid_lft forever
3: eth1    inet6 fd78::11/64 scope global \\       valid_lft forever
"""


def test_addresses_of_ip() -> None:
    assert node.map_global_addresses(lambda _argv: (0, IP_ADDR)) == {
        "lo": ["127.0.0.1/8"],
        "eth0": ["10.77.0.2/24"],
        "wg0": ["10.9.0.1/32"],
        "eth1": ["fd78::11/64"],
    }


def test_listening_ports(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text(
        "  sl  local_address rem_address   st\n"
        "   0: 00000000:0016 00000000:0000 0A 0\n"
        "   1: 0100007F:0CEA 0100007F:1111 01 0\n"
    )
    assert node.list_listening_ports(str(tmp_path)) == [22]


class FakeModule:
    """Simulate AnsibleModule: record its arguments and its result."""

    check_mode = False

    def __init__(self, **params: Any) -> None:
        self.params = {
            "digest": "d",
            "state": "present",
            "notes": [],
            "resolved": {},
            "members": {},
            "boot": "",
            "ran": "all",
            **params,
        }

    def exit_json(self, **result: Any) -> None:
        raise SystemExit(json.dumps(result))

    def fail_json(self, **result: Any) -> None:
        raise SystemExit("failed: " + result["msg"])


def keep_by_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **params: Any) -> str:
    monkeypatch.setattr(node_manifest.manifest, "PATH", str(tmp_path / "state/manifest.json"))
    monkeypatch.setattr(node_manifest, "AnsibleModule", lambda **_kw: FakeModule(**params))
    with pytest.raises(SystemExit) as left:
        node_manifest.main()
    return str(left.value.code)


def test_the_module_writes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").write_text("one")
    owned = {"r": {"files": [str(tmp_path / "conf")]}}
    assert '"changed": true' in keep_by_module(tmp_path, monkeypatch, owned=owned)
    assert '"changed": false' in keep_by_module(tmp_path, monkeypatch, owned=owned)
    gone = keep_by_module(tmp_path, monkeypatch, owned=owned, state="absent")
    assert '"changed": true' in gone


def test_the_manifest_keeps_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [
        {"vendor": vendor, "bus": bus} for vendor, bus in (("amd", "0:1"), ("nvidia", "0:2"))
    ]
    monkeypatch.setattr(node_manifest.accelerators, "list_accelerators", lambda: devices)
    keep_by_module(tmp_path, monkeypatch, owned={})
    assert json.loads((tmp_path / "state/manifest.json").read_text())["gpus"] == ["0:2"]


def test_notes_persist_for_runs_that_skip_the_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conf").write_text("one")
    notes = [{"code": "PF-201", "text": "the firewall is off"}]
    owned = {"r": {"files": [str(tmp_path / "conf")]}}
    assert manifest.load_manifest_notes(str(tmp_path / "state/manifest.json")) == []
    keep_by_module(tmp_path, monkeypatch, owned=owned, notes=notes)
    assert manifest.load_manifest_notes(str(tmp_path / "state/manifest.json")) == notes


def write_two_roles(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Write the files of two roles, and return the entries."""
    owned: dict[str, dict[str, Any]] = {}
    for role in "ab":
        (tmp_path / role).write_text("one")
        owned[role] = {"files": [str(tmp_path / role)]}
    return owned


def test_a_partial_run_updates_the_entries_of_its_roles_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = write_two_roles(tmp_path)
    path = str(tmp_path / "state/manifest.json")
    keep_by_module(tmp_path, monkeypatch, owned=owned)
    for role in "ab":
        (tmp_path / role).write_text("two")
    (tmp_path / "c").write_text("new")
    ran = {"a": {"files": [str(tmp_path / "a"), str(tmp_path / "c")]}}
    assert '"changed": true' in keep_by_module(tmp_path, monkeypatch, owned=ran, ran="some")
    (drift,) = manifest.find_drift("d", path)
    assert drift.startswith(f"file {tmp_path}/b: was ")
    (tmp_path / "c").unlink()
    assert len(manifest.find_drift("d", path)) == 2


def test_a_partial_run_forgets_items_that_its_role_has_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_by_module(tmp_path, monkeypatch, owned=write_two_roles(tmp_path))
    (tmp_path / "a").unlink()
    keep_by_module(tmp_path, monkeypatch, owned={"a": {}}, ran="some")
    assert manifest.find_drift("d", str(tmp_path / "state/manifest.json")) == []


def test_after_a_partial_run_with_other_inputs_no_inputs_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = write_two_roles(tmp_path)
    keep_by_module(tmp_path, monkeypatch, owned=owned)
    keep_by_module(tmp_path, monkeypatch, owned={"a": owned["a"]}, ran="some", digest="e")
    for digest in "de":
        (drift,) = manifest.find_drift(digest, str(tmp_path / "state/manifest.json"))
        assert drift.startswith("inputs:")


def test_a_partial_run_keeps_the_notes_of_the_other_roles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = write_two_roles(tmp_path)
    first, second = {"code": "PF-201", "text": "off"}, {"code": "TS-105", "text": "never"}
    keep_by_module(tmp_path, monkeypatch, owned=owned, notes=[first])
    for _ in range(2):
        keep_by_module(tmp_path, monkeypatch, owned={"a": owned["a"]}, ran="some", notes=[second])
    notes = manifest.load_manifest_notes(str(tmp_path / "state/manifest.json"))
    assert notes == [first, second]


def test_a_partial_run_updates_a_manifest_of_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "conf"
    target.write_text("one")
    path = keep(tmp_path, target)
    target.write_text("two")
    keep_by_module(tmp_path, monkeypatch, owned={"r": {"files": [str(target)]}}, ran="some")
    assert manifest.find_drift("d", path) == []


def test_a_first_run_without_some_roles_leaves_the_others_to_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = write_two_roles(tmp_path)
    path = str(tmp_path / "state/manifest.json")
    keep_by_module(tmp_path, monkeypatch, owned={"a": owned["a"]}, ran="most")
    (drift,) = manifest.find_drift("d", path)
    assert drift == "inputs: the last apply left out roles"
    keep_by_module(tmp_path, monkeypatch, owned=owned)
    assert manifest.find_drift("d", path) == []
    # such a run does not forget the roles that it skips
    keep_by_module(tmp_path, monkeypatch, owned={"a": owned["a"]}, ran="most")
    assert manifest.find_drift("d", path) == []
    (tmp_path / "b").write_text("two")
    assert len(manifest.find_drift("d", path)) == 1


def test_a_partial_run_creates_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owned = write_two_roles(tmp_path)
    assert '"changed": false' in keep_by_module(tmp_path, monkeypatch, owned=owned, ran="some")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("owned", "code"),
    [
        ({"r": {"files": ["/none/of/ours"]}}, "MF-101"),
        ({"r": {"sysctls": {"kernel.ostype": "Plan 9"}}}, "MF-101"),
        ({"r": {"addresses": [{"interface": "none0", "address": "10.0.0.1/24"}]}}, "MF-101"),
        ({"r": {"sockets": []}}, "MF-102"),
    ],
)
def test_the_module_keeps_no_untrue_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owned: dict[str, Any], code: str
) -> None:
    assert f"[{code}]" in keep_by_module(tmp_path, monkeypatch, owned=owned)
    assert not (tmp_path / "state").exists()


def test_a_restart_during_the_run_is_named_with_both_boots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = {"r": {"files": ["/none/of/ours"]}}
    said = keep_by_module(tmp_path, monkeypatch, owned=owned, boot="0f6b9c1e/1")
    assert "[MF-103] The node restarted during this run (boot 0f6b9c1e at its start" in said
    assert "file /none/of/ours is absent" in said
    said = keep_by_module(tmp_path, monkeypatch, owned=owned, boot=node.read_boot_mark())
    assert "[MF-101]" in said


STATE = {
    "file": {"/a": "absent"},
    "sysctl": {"k": "2"},
    "service": {"s": {"active": False, "enabled": True}},
    "package": {"p": "", "q": "1"},
    "address": {"eth1 10.0.0.1/24": True},
}


def test_every_false_statement_is_found() -> None:
    owned = {
        "sysctls": {"k": "1"},
        "services": {"s": {"active": True, "enabled": True}},
        "packages": {"p": "", "q": "2"},
    }
    told = node_manifest.describe_missing_state(owned, STATE)
    assert [sentence.split()[1] for sentence in told] == ["/a", "k", "s", "p", "q"]
