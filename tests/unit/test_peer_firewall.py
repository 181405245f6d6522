"""The peers' firewall: files, refusals, the kernel's rules, the way in and the way back."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fullmesh_firewalld as fw
import fullmesh_rollback as rollback
import peer_zone
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh import peer_firewall as core

OPTIONS: dict[str, Any] = {
    "mode": "peers_range",
    "zone": "fullmesh",
    "extra_ports": [],
    "rollback_seconds": 60,
}
PEERS = ["10.0.0.11", "10.0.0.12", "fd00::11"]
WANT: dict[str, Any] = {
    "zone": "fullmesh",
    "mode": "peers_range",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "ssh_ports": [22],
    "own_service": False,
}


# --- input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "mode"), [(False, "off"), ("off", "off"), ("peers_range", "peers_range")]
)
def test_a_bare_off_is_a_boolean_in_yaml(value: object, mode: str) -> None:
    assert core.mode_of(value) == mode


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("PF-101", {"mode": "open"}),
        ("PF-101", {"mode": True}),
        ("PF-103", {"extra_ports": ["tcp"]}),
        ("PF-103", {"extra_ports": ["123"]}),
        ("PF-103", {"extra_ports": ["200-100/tcp"]}),
        ("PF-103", {"extra_ports": ["70000/tcp"]}),
        ("PF-103", {"extra_ports": ["0/udp"]}),
        ("PF-104", {"zone": "public"}),
        ("PF-104", {"zone": "a-name-that-is-too-long"}),
        ("PF-104", {"zone": "../x"}),
        ("PF-105", {"rollback_seconds": 5}),
        ("PF-105", {"rollback_seconds": -1}),
    ],
)
def test_what_makes_no_sense_is_refused(code: str, change: dict[str, Any]) -> None:
    found = core.faults(PEERS, [], ["29500/tcp"], OPTIONS | change)
    assert [fault.code for fault in found] == [code]


@pytest.mark.parametrize("peers", [[], ["node1"], ["10.0.0.0/24"]])
def test_peers_are_single_addresses(peers: list[str]) -> None:
    assert {fault.code for fault in core.faults(peers, [], [], OPTIONS)} == {"PF-102"}


def test_zero_seconds_arm_nothing_and_are_fine() -> None:
    assert core.faults(PEERS, ["fe80::1%eth0"], [], OPTIONS | {"rollback_seconds": 0}) == []


# --- files ----------------------------------------------------------------------------------------


def rendered(**change: Any) -> dict[str, str]:
    return {path: text for path, text in fw.files(WANT | change).items() if text}


def test_the_zone_holds_exact_ports_from_the_peers_only() -> None:
    zone = ElementTree.fromstring(rendered()["/etc/firewalld/zones/fullmesh.xml"])  # noqa: S314 (ours)
    assert zone.get("target") is None  # default: reject the rest, let ICMP through
    assert [tag.get("ipset") for tag in zone.findall("source")] == [
        "fullmesh-peers4",
        "fullmesh-peers6",
    ]
    ports = [(tag.get("port"), tag.get("protocol")) for tag in zone.findall("port")]
    assert ports == [("22", "tcp"), ("29500", "tcp"), ("50000-54095", "tcp")]
    assert zone.findall("protocol") == []
    assert zone.findall("interface") == []


def test_peers_trusted_accepts_everything_from_the_same_sources() -> None:
    text = rendered(mode="peers_trusted")["/etc/firewalld/zones/fullmesh.xml"]
    zone = ElementTree.fromstring(text)  # noqa: S314 (ours)
    assert zone.get("target") == "ACCEPT"
    assert zone.findall("port") == []
    assert len(zone.findall("source")) == 2


def test_controllers_get_ssh_by_a_policy_that_takes_nothing_away() -> None:
    text = rendered(ssh_ports=[2222, 22])["/etc/firewalld/policies/fullmesh-ssh.xml"]
    policy = ElementTree.fromstring(text)  # noqa: S314 (ours)
    assert policy.get("target") == "CONTINUE"
    assert int(str(policy.get("priority"))) < -15000
    rules = policy.findall("rule")
    assert [str(rule.find("port").get("port")) for rule in rules] == ["22", "2222"]  # type: ignore[union-attr]
    assert all(rule.find("source").get("ipset") == "fullmesh-controllers4" for rule in rules)  # type: ignore[union-attr]


def test_families_without_addresses_have_no_files() -> None:
    names = {Path(path).name for path in rendered(peers=["10.0.0.1"])}
    assert names == {
        "fullmesh.xml",
        "fullmesh-ssh.xml",
        "fullmesh-peers4.xml",
        "fullmesh-controllers4.xml",
    }


def test_names_fit_firewalld() -> None:
    for path in fw.paths("x" * 13).values():
        limit = 31 if "/ipsets/" in path else 17  # firewalld: max_zone_name_len, IPSET_MAXNAMELEN
        assert len(Path(path).stem) <= limit


def test_addresses_are_sorted_joined_and_cleaned() -> None:
    found = fw.by_family(
        ["10.0.0.12", "::ffff:10.0.0.11", "fe80::1%eth0", "127.0.0.1", "10.0.0.12"]
    )
    assert found == {"4": ["10.0.0.11", "10.0.0.12"], "6": ["fe80::1"]}


@given(st.lists(st.ip_addresses().map(str), min_size=1, max_size=8))
def test_what_is_rendered_is_well_formed(addresses: list[str]) -> None:
    for text in rendered(peers=addresses, controllers=addresses).values():
        ElementTree.fromstring(text)  # noqa: S314 (ours)
        assert "<protocol" not in text
        assert fw.MARK in text


# --- other people's configuration -----------------------------------------------------------------


def put(root: Path, path: str, text: str) -> None:
    target = Path(str(root) + path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


PUBLIC = '<zone><service name="ssh"/><port port="8000-8010" protocol="tcp"/></zone>'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "/usr/lib/firewalld/zones/public.xml", PUBLIC)
    put(tmp_path, "/usr/lib/firewalld/zones/trusted.xml", '<zone target="ACCEPT"/>')
    text = '<service><port port="22" protocol="tcp"/></service>'
    put(tmp_path, "/usr/lib/firewalld/services/ssh.xml", text)
    return tmp_path


@pytest.mark.parametrize(
    ("zone", "port", "open_"),
    [
        ("public", 22, True),
        ("public", 8005, True),
        ("public", 2222, False),
        ("trusted", 2222, True),
        ("nowhere", 22, False),
    ],
)
def test_what_a_zone_lets_in(root: Path, zone: str, port: int, open_: bool) -> None:
    assert fw.zone_allows(str(root), zone, port) is open_


def test_a_file_in_etc_beats_the_package(root: Path) -> None:
    put(root, "/etc/firewalld/zones/public.xml", "<zone/>")
    assert not fw.zone_allows(str(root), "public", 22)


@pytest.mark.parametrize(
    ("source", "claimed"),
    [
        ('<source address="10.0.0.0/24"/>', True),
        ('<source address="10.0.0.12"/>', True),
        ('<source address="10.1.0.0/16"/>', False),
        ('<source mac="52:54:00:00:00:01"/>', False),
        ('<source ipset="office"/>', True),
    ],
)
def test_another_zone_that_claims_a_peer_is_named(root: Path, source: str, claimed: bool) -> None:
    put(root, "/etc/firewalld/ipsets/office.xml", "<ipset><entry>10.0.0.11</entry></ipset>")
    put(root, "/etc/firewalld/zones/work.xml", f"<zone>{source}</zone>")
    found = fw.claims(str(root), "fullmesh", PEERS)
    assert bool(found) is claimed
    assert all("zone work" in text for text in found)


ZONES = """\
public (active)
  target: default
  interfaces: eth0
  sources:
  services: dhcpv6-client ssh
  ports:
  rich rules:
	rule family="ipv4" source address="192.0.2.1" accept
"""


def test_what_is_runtime_only_is_named_and_interfaces_are_not() -> None:
    kept = ZONES.replace("eth0", "")
    assert fw.unsaved(ZONES, kept, "fullmesh") == []
    ran = ZONES.replace("  ports:\n", "  ports: 8443/tcp\n")
    assert fw.unsaved(ran, kept, "fullmesh") == ["zone public, ports: 8443/tcp"]
    assert fw.unsaved(ran, kept, "public") == []


# --- the kernel -----------------------------------------------------------------------------------


def rule(chain: str, *expressions: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "inet", "chain": chain, "handle": 7, "expr": list(expressions)}}


def dport(port: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "tcp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": port}}


def source(name: str) -> dict[str, Any]:
    left = {"payload": {"protocol": "ip", "field": "saddr"}}
    return {"match": {"op": "==", "left": left, "right": "@" + name}}


def kernel() -> list[dict[str, Any]]:
    accept: dict[str, Any] = {"accept": None}
    allow = "filter_IN_fullmesh_allow"
    return [
        {"metainfo": {"version": "1.0.6"}},
        {"set": {"name": "fullmesh-peers4", "elem": ["10.0.0.12", "10.0.0.11"]}},
        {"set": {"name": "fullmesh-peers6", "elem": ["fd00::11"]}},
        {"set": {"name": "fullmesh-controllers4", "elem": ["198.51.100.7"]}},
        rule(
            "filter_INPUT_ZONES",
            source("fullmesh-peers4"),
            {"goto": {"target": "filter_IN_fullmesh"}},
        ),
        rule(
            "filter_INPUT_ZONES",
            source("fullmesh-peers6"),
            {"goto": {"target": "filter_IN_fullmesh"}},
        ),
        rule("filter_INPUT_ZONES", {"goto": {"target": "filter_IN_public"}}),
        rule(allow, dport(22), accept),
        rule(allow, dport(29500), accept),
        rule(allow, dport({"range": [50000, 54095]}), accept),
        rule(
            "filter_IN_policy_fullmesh-ssh_allow",
            source("fullmesh-controllers4"),
            dport(22),
            accept,
        ),
        rule("filter_IN_public_allow", dport(22), accept),
    ]


def without(text: str) -> list[dict[str, Any]]:
    return [item for item in kernel() if text not in json.dumps(item)]


def test_rules_that_do_what_the_files_say_have_no_faults() -> None:
    assert fw.kernel_faults(kernel(), WANT) == []


@pytest.mark.parametrize(
    ("gone", "word"),
    [
        ("29500", "29500/tcp is closed"),
        ("54095", "50000-54095/tcp is closed"),
        ("policy_fullmesh", "controllers do not reach ssh on port 22"),
        ("@fullmesh-peers6", "no rule sends set fullmesh-peers6"),
        ('"10.0.0.12"', "set fullmesh-peers4 holds nothing"),
    ],
)
def test_each_missing_rule_is_named(gone: str, word: str) -> None:
    assert any(text.startswith(word) for text in fw.kernel_faults(without(gone), WANT))


def test_a_rule_that_opens_a_whole_protocol_is_named() -> None:
    match = {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}}
    table = [*kernel(), rule("filter_IN_fullmesh_allow", match, {"accept": None})]
    assert fw.kernel_faults(table, WANT) == ["a rule opens a whole protocol"]


def test_a_port_too_many_and_a_flushed_ruleset_are_named() -> None:
    table = [*kernel(), rule("filter_IN_fullmesh_allow", dport(8443), {"accept": None})]
    assert fw.kernel_faults(table, WANT) == ["8443/tcp is open and not ours"]
    assert fw.kernel_faults([], WANT) == ["the kernel has no table of firewalld"]


def test_neighbours_that_the_kernel_joined_are_taken_apart() -> None:
    item = {"range": ["10.0.0.11", "10.0.0.12"]}
    assert fw.addresses_of(item) == ["10.0.0.11", "10.0.0.12"]
    assert fw.addresses_of({"prefix": {"addr": "10.0.0.12", "len": 31}}) == [
        "10.0.0.12",
        "10.0.0.13",
    ]


def answer(table: list[dict[str, Any]]) -> Callable[[list[str]], tuple[int, str]]:
    return lambda argv: (0, json.dumps({"nftables": table})) if argv[0] == "nft" else (1, "")


def print_of(root: Path, table: list[dict[str, Any]]) -> dict[str, str]:
    return fw.zone_fingerprint(["fullmesh"], answer(table), str(root))["fullmesh"]


def test_a_fingerprint_ignores_handles_and_order_and_other_zones(root: Path) -> None:
    table = kernel()
    before = print_of(root, table)
    table.reverse()
    for item in table:
        item.get("rule", {})["handle"] = 99
    assert (
        print_of(root, [*table, rule("filter_IN_work_allow", dport(1), {"accept": None})]) == before
    )


@pytest.mark.parametrize("gone", ["29500", "10.0.0.12", "policy_fullmesh", "@fullmesh-peers6"])
def test_a_fingerprint_sees_what_is_gone_at_runtime(root: Path, gone: str) -> None:
    assert print_of(root, without(gone))["runtime"] != print_of(root, kernel())["runtime"]


def test_a_fingerprint_sees_files_and_their_ipsets(root: Path) -> None:
    for path, text in rendered().items():
        put(root, path, text)
    before = print_of(root, kernel())
    put(root, "/etc/firewalld/ipsets/fullmesh-peers4.xml", "<ipset/>")
    after = print_of(root, kernel())
    assert after["permanent"] != before["permanent"]
    assert after["runtime"] == before["runtime"]


def test_without_nftables_the_daemon_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fw, "binding", lambda: "")

    def run(argv: list[str]) -> tuple[int, str]:
        return (1, "") if argv[0] == "nft" else (0, ZONES)

    first = fw.zone_fingerprint(["public", "work"], run, str(root))
    assert first["public"]["runtime"] != first["work"]["runtime"]


# --- the way in -----------------------------------------------------------------------------------


def process(proc: Path, pid: int, parent: int, name: str, environ: bytes = b"") -> None:
    put(proc, f"/{pid}/stat", f"{pid} ({name}) S {parent} 1 1")
    put(proc, f"/{pid}/comm", name + "\n")
    (proc / str(pid) / "environ").write_bytes(environ)
    (proc / str(pid) / "fd").mkdir(exist_ok=True)


def test_the_live_controller_is_found_through_sudo(tmp_path: Path) -> None:
    process(tmp_path, 40, 30, "python3")
    process(tmp_path, 30, 20, "sudo (x) y")
    process(tmp_path, 20, 10, "bash", b"A=1\0SSH_CONNECTION=192.0.2.1 5 10.0.0.11 2222\0")
    found = fw.ssh_connection({}, 40, str(tmp_path))
    assert found == ["192.0.2.1", "5", "10.0.0.11", "2222"]
    here = {"SSH_CONNECTION": "192.0.2.9 5 10.0.0.11 22"}
    assert fw.ssh_connection(here, 40, str(tmp_path))[0] == "192.0.2.9"
    assert fw.ssh_connection({}, 10, str(tmp_path)) == []


HEADER = "  sl  local_address rem_address   st tx rx tr tm retr uid timeout inode\n"


def test_sshds_ports_are_its_listeners_and_not_a_sessions_forwardings(tmp_path: Path) -> None:
    rows = [("00000000:08AE", "0A", "101"), ("0100007F:0016", "0A", "102")]
    rows += [("00000000:1F90", "0A", "103"), ("00000000:08AE", "01", "104")]
    form = "0: {} 00000000:0000 {} 0:0 0:0 0 0 0 {} 1\n"
    text = "".join(form.format(local, state, inode) for local, state, inode in rows)
    put(tmp_path, "/net/tcp", HEADER + text)
    process(tmp_path, 10, 1, "sshd")
    process(tmp_path, 20, 10, "sshd")  # a session, with a forwarding on 8080
    for pid, inode in ((10, 101), (10, 102), (20, 103), (10, 104)):
        os.symlink(f"socket:[{inode}]", tmp_path / str(pid) / "fd" / str(inode))
    assert fw.sshd_ports(str(tmp_path)) == [2222]


# --- one run --------------------------------------------------------------------------------------


class Machine:
    """Stands for systemctl, firewall-cmd and nft."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = {peer_zone.UNIT: ("loaded", "inactive", "disabled")}
        self.table: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.fails = ""

    def run(self, argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        self.calls.append(line)
        if self.fails and self.fails in line:
            return 1, "it does not work"
        if argv[:2] == ["systemctl", "show"]:
            states = [self.units.get(n, ("not-found", "inactive", "")) for n in argv[4:]]
            form = "LoadState={}\nActiveState={}\nUnitFileState={}\n"
            return 0, "\n".join(form.format(*state) for state in states)
        if argv[0] == "nft":
            return 0, json.dumps({"nftables": self.table})
        if line.endswith("list-all-zones"):
            return 0, ZONES
        if "start firewalld" in line or line == "firewall-cmd --reload":
            self.table = kernel()
        return 0, ""

    def commands(self) -> str:
        return "\n".join(call for call in self.calls if "show" not in call and "nft" not in call)


PARAMS: dict[str, Any] = {
    "state": "present",
    "mode": "peers_range",
    "zone": "fullmesh",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "rollback_seconds": 60,
}


@pytest.fixture
def machine(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    put(root, "/etc/firewalld/firewalld.conf", "DefaultZone=public\n")
    monkeypatch.setattr(fw, "ssh_connection", lambda environ, pid: [])
    monkeypatch.setattr(fw, "sshd_ports", lambda: [22])
    monkeypatch.setattr(fw, "binding", lambda: "")
    monkeypatch.setattr(rollback, "STORE", str(tmp_path / "rollback"))
    monkeypatch.setattr(peer_zone, "core", fw)
    monkeypatch.setattr(peer_zone, "rollback", rollback)
    return Machine(root)


def firewall(machine: Machine, check: bool = False, **change: Any) -> peer_zone.Firewall:
    return peer_zone.Firewall(PARAMS | change, check, machine.run, str(machine.root))


def refused(machine: Machine, **change: Any) -> str:
    with pytest.raises(peer_zone.RefusedError) as caught:
        firewall(machine, **change).present()
    return str(caught.value)


def ours(machine: Machine) -> list[str]:
    return sorted(
        path for path in fw.paths("fullmesh").values() if os.path.exists(str(machine.root) + path)
    )


def test_a_first_start_is_armed_checked_proved(machine: Machine) -> None:
    result = firewall(machine).present()
    assert result["changed"]
    assert result["armed"]
    assert len(ours(machine)) == 5
    order = [
        machine.commands().index(word) for word in ("--check-config", "systemd-run", "start f")
    ]
    assert order == sorted(order)
    assert "--complete-reload" not in machine.commands()
    mode = os.stat(str(machine.root) + ours(machine)[0]).st_mode
    assert stat.S_IMODE(mode) == 0o644


def test_a_running_firewalld_is_reloaded_once_and_a_second_run_does_nothing(
    machine: Machine,
) -> None:
    machine.units[peer_zone.UNIT] = ("loaded", "active", "enabled")
    machine.table = without("29500")
    assert firewall(machine).present()["changed"]
    assert machine.commands().count("firewall-cmd --reload") == 1
    machine.calls.clear()
    again = firewall(machine).present()
    assert not again["changed"]
    assert not again["armed"]
    assert machine.commands() == ""


def test_a_flushed_ruleset_is_restarted_not_reloaded(machine: Machine) -> None:
    firewall(machine).present()
    machine.units[peer_zone.UNIT] = ("loaded", "active", "enabled")
    machine.table = []
    assert firewall(machine).present()["changed"]
    assert "systemctl restart firewalld.service" in machine.commands()


def test_check_mode_touches_nothing(machine: Machine) -> None:
    run = firewall(machine, check=True)
    assert run.present()["changed"]
    assert ours(machine) == []
    assert "systemctl start" not in machine.commands()
    assert len(run.diff) == 5


def test_a_bare_node_gets_the_files_before_the_package(machine: Machine) -> None:
    machine.units = {}
    result = firewall(machine).present()
    assert result["needs_package"]
    assert len(ours(machine)) == 5


def test_a_bare_node_with_ssh_elsewhere_gets_the_service_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.units = {}
    monkeypatch.setattr(fw, "sshd_ports", lambda: [2222])
    firewall(machine).present()
    text = fw.read(str(machine.root) + "/etc/firewalld/services/ssh.xml")
    assert '<port port="2222" protocol="tcp"/>' in text


def test_somebody_elses_ssh_service_is_left_alone(machine: Machine) -> None:
    put(machine.root, "/etc/firewalld/services/ssh.xml", "<service/>")
    assert "[PF-115]" in refused(machine)
    assert fw.read(str(machine.root) + "/etc/firewalld/services/ssh.xml") == "<service/>"


def test_the_live_controller_and_its_port_are_added(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fw, "ssh_connection", lambda e, p: ["192.0.2.9", "1", "10.0.0.11", "22"])
    machine.units = {}
    assert firewall(machine).present()["controllers"] == ["192.0.2.9", "198.51.100.7"]


def test_ufw_a_rival_a_mask_and_a_claim_are_refused_at_once(machine: Machine) -> None:
    put(machine.root, "/etc/ufw/ufw.conf", "# x\nENABLED = yes\n")
    put(
        machine.root, "/etc/firewalld/zones/work.xml", '<zone><source address="10.0.0.0/8"/></zone>'
    )
    machine.units = {
        peer_zone.UNIT: ("masked", "inactive", "masked"),
        "nftables.service": ("loaded", "active", "enabled"),
    }
    text = refused(machine)
    for code in ("PF-110", "PF-111", "PF-112", "PF-113"):
        assert f"[{code}]" in text
    assert ours(machine) == []


def test_runtime_only_settings_stop_a_reload(machine: Machine) -> None:
    machine.units[peer_zone.UNIT] = ("loaded", "active", "enabled")
    run = machine.run

    def with_port(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        extra = argv == ["firewall-cmd", "--list-all-zones"]
        return rc, out.replace("  ports:\n", "  ports: 8443/tcp\n") if extra else out

    machine.run = with_port  # type: ignore[method-assign]
    assert "[PF-114]" in refused(machine)
    assert ours(machine) == []


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        ("--check-config", "PF-116"),
        ("start firewalld", "PF-117"),
        ("firewall-cmd --state", "PF-117"),
        ("systemd-run", "PF-119"),
    ],
)
def test_each_failing_step_has_its_code(machine: Machine, fails: str, code: str) -> None:
    machine.fails = fails
    assert f"[{code}]" in refused(machine)


def test_rules_that_are_not_there_are_an_error_and_everything_goes_back(machine: Machine) -> None:
    machine.fails = ""
    run = machine.run

    def forgetful(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        machine.table = without("29500")
        return rc, out

    machine.run = forgetful  # type: ignore[method-assign]
    assert "[PF-118]" in refused(machine)
    assert any("back.sh" in call and "/bin/sh" in call for call in machine.calls)


def test_off_says_so_and_names_ufw(machine: Machine) -> None:
    put(machine.root, "/etc/ufw/ufw.conf", "ENABLED=yes\n")
    machine.units[peer_zone.UNIT] = ("loaded", "active", "enabled")
    run = firewall(machine, state="off")
    assert run.off()["changed"]
    assert [note["code"] for note in run.notes] == ["PF-201", "PF-202"]
    assert "systemctl disable --now firewalld.service" in machine.commands()


# --- the way back ---------------------------------------------------------------------------------


def test_the_way_back_restores_files_and_removes_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollback, "STORE", str(tmp_path / "rollback"))
    old, new = tmp_path / "old's", tmp_path / "new"
    old.write_text("before", encoding="utf-8")
    calls: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str]:
        calls.append(argv)
        return 0, ""

    rollback.arm(run, "peer_firewall", 30, [str(old), str(new)], [f"touch {tmp_path}/ran"])
    old.write_text("after", encoding="utf-8")
    new.write_text("after", encoding="utf-8")
    script = tmp_path / "rollback/peer_firewall/back.sh"
    assert [str(script) in call for call in calls] == [False, True]
    assert os.system(f"sh {script}") == 0  # noqa: S605 (the script that is tested)
    assert old.read_text(encoding="utf-8") == "before"
    assert not new.exists()
    assert (tmp_path / "ran").exists()
    assert rollback.disarm(run, "peer_firewall") == "fired"
    assert rollback.disarm(run, "peer_firewall") == "idle"


def test_a_confirmed_change_stays(machine: Machine) -> None:
    firewall(machine).present()
    assert firewall(machine).confirmed()["rollback"] == "disarmed"
    assert len(ours(machine)) == 5


def test_too_late_is_said(machine: Machine) -> None:
    firewall(machine).present()
    put(Path(rollback.STORE), "/peer_firewall/fired", "")
    with pytest.raises(peer_zone.RefusedError, match=r"\[PF-120\]"):
        firewall(machine).confirmed()
