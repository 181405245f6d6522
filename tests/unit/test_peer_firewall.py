"""The peers' firewall: files, refusals, the kernel's rules, the way in and the rollback.

One file, though long: its sections work on one fake machine, and each builds on what the one before shows.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from ipaddress import ip_network
from itertools import combinations
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from ansible.module_utils.fullmesh.firewall import (
    change,
    denials,
    firewalld,
    firewalld_files,
    firewalld_others,
    preserve,
    rollback,
    ufw,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.state import record
from ansible.module_utils.fullmesh.transaction import engine, session
from hypothesis import given
from hypothesis import strategies as st
from rehearsal import rehearsed

from fullmesh.roles import peer_firewall

OPTIONS: dict[str, Any] = {
    "mode": "peers_range",
    "zone": "fullmesh",
    "rdma": "auto",
    "ufw": "carry",
    "existing_services": "refuse",
    "off_confirmed": False,
    "rollback_seconds": 60,
}
PEERS = ["10.0.0.11", "10.0.0.12", "fd00::11"]


def faults_of(
    peers: list[str] = PEERS,
    controllers: list[str] | None = None,
    ports: list[str] | None = None,
    options: dict[str, Any] = OPTIONS,
    groups: list[str] | None = None,
) -> list[Any]:
    wired = {"peers": peers, "controllers": controllers or [], "ports": ports or []}
    others: dict[str, list[str]] = {"controllers": [], "everybody": []}
    return peer_firewall.find_firewall_faults({**options, **wired, "others": others}, groups or [])


WANT: dict[str, Any] = {
    "zone": "fullmesh",
    "mode": "peers_range",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "controller_ports": [],
    "public_ports": [],
    "ssh_ports": [22],
    "own_service": False,
    "ufw_policy": "",
}


# --- input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "mode"), [(False, "off"), ("off", "off"), ("peers_range", "peers_range")]
)
def test_a_bare_off_is_a_boolean_in_yaml(value: object, mode: str) -> None:
    assert peer_firewall.parse_firewall_mode(value) == mode


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("PF-101", {"mode": "open"}),
        ("PF-101", {"mode": True}),
        ("PF-103", {"ports": ["tcp"]}),
        ("PF-103", {"ports": ["123"]}),
        ("PF-103", {"ports": ["200-100/tcp"]}),
        ("PF-103", {"ports": ["70000/tcp"]}),
        ("PF-103", {"ports": ["0/udp"]}),
        ("PF-103", {"ports": ["0123/tcp"]}),
        ("PF-103", {"ports": ["123-123/udp"]}),
        ("PF-103", {"ports": ["100-0123/udp"]}),
        ("PF-103", {"ports": ["65536/udp"]}),
        ("PF-103", {"ports": ["\u0661\u0662\u0663/udp"]}),  # digits, elsewhere
        ("PF-104", {"zone": "public"}),
        ("PF-104", {"zone": "a-name-that-is-too-long"}),
        ("PF-104", {"zone": "../x"}),
        ("PF-105", {"rollback_seconds": 5}),
        ("PF-105", {"rollback_seconds": -1}),
        ("PF-107", {"rdma": "yes"}),
        ("PF-107", {"ufw": "keep"}),
        ("PF-107", {"existing_services": "carry"}),
    ],
)
def test_what_makes_no_sense_is_refused(code: str, change: dict[str, Any]) -> None:
    found = faults_of(PEERS, [], change.get("ports", ["29500/tcp"]), OPTIONS | change)
    assert [fault.code for fault in found] == [code]


@pytest.mark.parametrize("port", ["1/tcp", "65535/udp", "123-124/udp", "1-65535/tcp", "22/sctp"])
def test_a_port_is_written_as_the_kernel_prints_it(port: str) -> None:
    assert faults_of(PEERS, [], [port], OPTIONS) == []


@pytest.mark.parametrize("peers", [[], ["node1"], ["10.0.0.0/24"]])
def test_peers_are_single_addresses(peers: list[str]) -> None:
    assert {fault.code for fault in faults_of(peers, [], [], OPTIONS)} == {"PF-102"}


@pytest.mark.parametrize(
    ("controllers", "codes"),
    [
        (["10.9.0.0/16", "198.51.100.7", "fd00:9::/32"], set()),
        (["10.9.0.1/16"], {"PF-102"}),
        (["bastion"], {"PF-102"}),
        (["0.0.0.0/0"], {"PF-102"}),
        (["::/0"], {"PF-102"}),
    ],
)
def test_controllers_are_addresses_and_networks(controllers: list[str], codes: set[str]) -> None:
    assert {fault.code for fault in faults_of(PEERS, controllers, [], OPTIONS)} == codes


def test_zero_seconds_arm_nothing_and_are_fine() -> None:
    assert faults_of(PEERS, ["fe80::1%eth0"], [], OPTIONS | {"rollback_seconds": 0}) == []


@pytest.mark.parametrize(
    ("group", "confirmed", "codes"),
    [
        ("prod", False, ["PF-106"]),
        ("gpu-production", False, ["PF-106"]),
        ("LIVE_eu", False, ["PF-106"]),
        ("prod", True, []),
        ("products", False, []),
        ("alive", False, []),
        ("lab", False, []),
    ],
)
def test_off_in_production_has_to_be_confirmed(
    group: str, confirmed: bool, codes: list[str]
) -> None:
    options = OPTIONS | {"mode": False, "off_confirmed": confirmed}
    found = faults_of(PEERS, [], [], options, ["torch_nodes", group])
    assert [fault.code for fault in found] == codes
    assert faults_of(PEERS, [], [], OPTIONS, [group]) == []


@pytest.mark.parametrize(
    ("value", "word"), [(True, "true"), (False, "false"), (" Auto", "auto"), ("carry", "carry")]
)
def test_a_bare_true_is_a_word(value: object, word: str) -> None:
    assert peer_firewall.parse_word(value) == word


# --- files ----------------------------------------------------------------------------------------


def rendered(**change: Any) -> dict[str, str]:
    return {
        path: text for path, text in firewalld_files.render_own_files(WANT | change).items() if text
    }


ZONE_FILE = "/etc/firewalld/zones/fullmesh.xml"
JOB_FILE = "/etc/firewalld/policies/fullmesh-job.xml"


def of_job(**change: Any) -> list[tuple[str, str]]:
    """(source, port) of every rule of the peers' policy."""
    policy = ElementTree.fromstring(rendered(**change)[JOB_FILE])  # noqa: S314 (ours)
    assert (policy.get("target"), policy.get("priority")) == ("CONTINUE", "-19000")
    found = []
    for one in policy.findall("rule"):
        source, port = one.find("source"), one.find("port")
        assert source is not None
        assert one.find("accept") is not None
        words = [] if port is None else [port.get("port"), port.get("protocol")]
        found.append((str(source.get("ipset")), "/".join(map(str, words))))
    return found


def test_the_policy_opens_exact_ports_to_the_peers_only_and_binds_nobody() -> None:
    ports = ["22/tcp", "29500/tcp", "50000-54095/tcp"]
    wanted = [(f"fullmesh-peers{family}", port) for family in "46" for port in ports]
    assert of_job() == wanted
    assert ZONE_FILE not in rendered()


def test_peers_only_binds_the_peers_to_a_zone_that_opens_nothing() -> None:
    zone = ElementTree.fromstring(rendered(mode="peers_only")[ZONE_FILE])  # noqa: S314 (ours)
    assert zone.get("target") is None  # default: reject the rest, let ICMP through
    assert [tag.get("ipset") for tag in zone.findall("source")] == [
        "fullmesh-peers4",
        "fullmesh-peers6",
    ]
    assert {tag.tag for tag in zone} == {"short", "description", "source"}
    assert of_job(mode="peers_only") == of_job()


def test_peers_trusted_accepts_everything_from_the_same_sources() -> None:
    assert of_job(mode="peers_trusted") == [("fullmesh-peers4", ""), ("fullmesh-peers6", "")]
    assert ZONE_FILE not in rendered(mode="peers_trusted")


def test_controllers_get_ssh_by_a_policy_that_takes_nothing_away() -> None:
    text = rendered(ssh_ports=[2222, 22])["/etc/firewalld/policies/fullmesh-ssh.xml"]
    policy = ElementTree.fromstring(text)  # noqa: S314 (ours)
    assert policy.get("target") == "CONTINUE"
    assert int(str(policy.get("priority"))) < -15000
    rules = policy.findall("rule")
    assert [str(rule.find("port").get("port")) for rule in rules] == ["22", "2222"]  # type: ignore[union-attr]
    assert all(rule.find("source").get("ipset") == "fullmesh-controllers4" for rule in rules)  # type: ignore[union-attr]


ALL_FILE = "/etc/firewalld/policies/fullmesh-all.xml"


def test_services_are_opened_to_those_who_may_come() -> None:
    files = rendered(controller_ports=["8443/tcp"], public_ports=["8000/tcp", "9000-9010/udp"])
    ssh = ElementTree.fromstring(files["/etc/firewalld/policies/fullmesh-ssh.xml"])  # noqa: S314 (ours)
    doors = [rule.find("port").get("port") for rule in ssh.findall("rule")]  # type: ignore[union-attr]
    assert doors == ["22", "8443"]
    public = ElementTree.fromstring(files[ALL_FILE])  # noqa: S314 (ours)
    assert public.get("target") == "CONTINUE"
    assert int(str(public.get("priority"))) < 0  # before the zone that binds peers in peers_only
    assert [(one.get("port"), one.get("protocol")) for one in public.findall("port")] == [
        ("8000", "tcp"),
        ("9000-9010", "udp"),
    ]
    assert ALL_FILE not in rendered()


def test_families_without_addresses_have_no_files() -> None:
    names = {Path(path).name for path in rendered(peers=["10.0.0.1"])}
    assert names == {
        "fullmesh-job.xml",
        "fullmesh-ssh.xml",
        "fullmesh-peers4.xml",
        "fullmesh-controllers4.xml",
    }


def test_names_fit_firewalld() -> None:
    for path in firewalld_files.map_own_paths("x" * 13).values():
        limit = 31 if "/ipsets/" in path else 17  # firewalld: max_zone_name_len, IPSET_MAXNAMELEN
        assert len(Path(path).stem) <= limit


def test_addresses_are_sorted_joined_and_cleaned() -> None:
    found = firewalld_files.group_by_family(
        ["10.0.0.12", "::ffff:10.0.0.11", "fe80::1%eth0", "127.0.0.1", "10.0.0.12"]
    )
    assert found == {"4": ["10.0.0.11", "10.0.0.12"], "6": ["fe80::1"]}


def test_what_lies_in_another_network_is_left_out() -> None:
    found = firewalld_files.group_by_family(
        ["10.9.1.1", "10.9.0.0/16", "10.9.2.0/24", "198.51.100.7", "fd00:9::/32"]
    )
    assert found == {"4": ["10.9.0.0/16", "198.51.100.7"], "6": ["fd00:9::/32"]}


def test_a_set_is_one_of_networks_only_where_one_is_in_it() -> None:
    files = rendered(controllers=["10.9.0.0/16", "fd00::7"])
    kinds = {
        name: ElementTree.fromstring(files[f"/etc/firewalld/ipsets/{name}.xml"]).get("type")  # noqa: S314 (ours)
        for name in ("fullmesh-controllers4", "fullmesh-controllers6", "fullmesh-peers4")
    }
    assert list(kinds.values()) == ["hash:net", "hash:ip", "hash:ip"]


NETWORKS = st.builds(
    lambda address, length: str(ip_network(f"{address}/{length}", strict=False)),
    st.ip_addresses(),
    st.integers(1, 32),
)


@given(st.lists(NETWORKS | st.ip_addresses().map(str), max_size=8))
def test_a_set_never_overlaps_and_covers_what_was_asked(networks: list[str]) -> None:
    asked = [ip_network(one) for one in networks]
    held = [
        ip_network(one)
        for family in firewalld_files.group_by_family(networks).values()
        for one in family
    ]
    assert not any(one.overlaps(other) for one, other in combinations(held, 2))
    for one in asked:
        mapped = one.version == 6 and one.num_addresses == 1 and one.network_address.ipv4_mapped
        inside = ip_network(mapped) if mapped else one
        same = [other for other in held if other.version == inside.version]
        assert inside.is_loopback or any(inside.subnet_of(other) for other in same)  # type: ignore[arg-type]


@given(st.lists(st.ip_addresses().map(str), min_size=1, max_size=8))
def test_what_is_rendered_is_well_formed(addresses: list[str]) -> None:
    for text in rendered(peers=addresses, controllers=addresses).values():
        ElementTree.fromstring(text)  # noqa: S314 (ours)
        assert "<protocol" not in text
        assert firewalld_files.MARK in text


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
    assert firewalld_others.is_allowed_by_zone(str(root), zone, port) is open_


def test_a_file_in_etc_beats_the_package(root: Path) -> None:
    put(root, "/etc/firewalld/zones/public.xml", "<zone/>")
    assert not firewalld_others.is_allowed_by_zone(str(root), "public", 22)


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
    found = firewalld_others.find_claiming_zones(str(root), "fullmesh", PEERS)
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


def test_what_is_runtime_only_is_named() -> None:
    kept = ZONES.replace("eth0", "")
    assert firewalld_others.find_unsaved_settings(ZONES, kept, "fullmesh") == []
    ran = ZONES.replace("  ports:\n", "  ports: 8443/tcp\n")
    assert firewalld_others.find_unsaved_settings(ran, kept, "fullmesh") == [
        "zone public, ports: 8443/tcp"
    ]
    assert firewalld_others.find_unsaved_settings(ran, kept, "public") == []


BOUND = ZONES.replace("public", "{0}") + "\n" + ZONES.replace("eth0", "")


@pytest.mark.parametrize(
    ("zone", "permanent", "nmcli", "lost"),
    [
        ("work", "", "", True),
        ("work", "eth0", "", False),
        ("work", "eth1", "", True),
        ("work", "", "work", False),
        ("work", "", "home", True),
        ("docker", "", "", False),
        ("libvirt", "", "", False),
        ("fullmesh", "", "", False),
    ],
)
def test_an_interface_that_only_the_daemon_knows_would_move(
    zone: str, permanent: str, nmcli: str, lost: bool
) -> None:
    """networkd and ifupdown know nothing of zones: somebody called ``firewall-cmd --change-interface``."""

    def run(argv: list[str]) -> tuple[int, str]:
        if not nmcli:
            return 10, "Error: NetworkManager is not running."
        return 0, "profile\n" if "device" in argv else nmcli + "\n"

    text = BOUND.format(zone)
    found = firewalld_others.find_unbound_interfaces(
        run, text, text.replace("eth0", permanent), ["fullmesh", "public"]
    )
    assert found == ["zone work, interfaces: eth0"] * lost


POLICIES = """\
allow-host-ipv6 (active)
  priority: -15000
  target: CONTINUE
  ingress-zones: ANY
  egress-zones: HOST
  services: {0}

fullmesh-ssh (active)
  priority: -20000
  services: {1}
"""


def test_policies_of_others_are_compared_and_ours_are_not() -> None:
    ran, kept = POLICIES.format("http", "http"), POLICIES.format("", "")
    found = firewalld_others.find_unsaved_settings(ran, kept, "fullmesh", "policy")
    assert found == ["policy allow-host-ipv6, services: http"]


def test_entries_and_direct_rules_of_others_are_compared() -> None:
    runtime = {
        "--get-ipsets": "blocked fullmesh-peers4 old timed\n",
        "--ipset=blocked --get-entries": "\n".join(f"192.0.2.{n}" for n in range(1, 6)),
        "--permanent --ipset=blocked --get-entries": "192.0.2.1\n",
        "--ipset=old --get-entries": "192.0.2.9\n",
        "--permanent --ipset=old --get-entries": "192.0.2.9\n192.0.2.10\n",
        "--ipset=fullmesh-peers4 --get-entries": "192.0.2.99\n",
        "--direct --get-all-rules": "ipv4 filter INPUT 0 -s 192.0.2.7 -j DROP\n",
        "--permanent --direct --get-all-rules": "\n",
    }

    def run(argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv[1:])
        return (0, runtime[line]) if line in runtime else (34, "Error: IPSET_WITH_TIMEOUT")

    assert firewalld_others.find_unsaved_entries(run, "fullmesh") == [
        "direct rule: ipv4 filter INPUT 0 -s 192.0.2.7 -j DROP",
        "ipset blocked: 192.0.2.2, 192.0.2.3, 192.0.2.4 and 1 more",
    ]


# --- the kernel -----------------------------------------------------------------------------------


def rule(chain: str, *expressions: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "inet", "chain": chain, "handle": 7, "expr": list(expressions)}}


def dport(port: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "tcp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": port}}


def udp(port: Any) -> dict[str, Any]:
    left = {"payload": {"protocol": "udp", "field": "dport"}}
    return {"match": {"op": "==", "left": left, "right": port}}


def source(name: str) -> dict[str, Any]:
    left = {"payload": {"protocol": "ip", "field": "saddr"}}
    return {"match": {"op": "==", "left": left, "right": "@" + name}}


ACCEPT: dict[str, Any] = {"accept": None}
JOB = "filter_IN_policy_fullmesh-job"


def jump(chain: str, target: str) -> dict[str, Any]:
    return rule(chain, {"jump": {"target": target}})


def job(*matches: dict[str, Any], family: str = "4") -> dict[str, Any]:
    """A rule of the peers' policy, as firewalld 1.3.3 loads it."""
    return rule(JOB + "_allow", source("fullmesh-peers" + family), *matches, ACCEPT)


def kernel() -> list[dict[str, Any]]:
    ssh = "filter_IN_policy_fullmesh-ssh"
    ports = (22, 29500, {"range": [50000, 54095]})
    return [
        {"metainfo": {"version": "1.0.6"}},
        {"set": {"name": "fullmesh-peers4", "elem": ["10.0.0.12", "10.0.0.11"]}},
        {"set": {"name": "fullmesh-peers6", "elem": ["fd00::11"]}},
        {"set": {"name": "fullmesh-controllers4", "elem": ["198.51.100.7"]}},
        jump("filter_INPUT_POLICIES_pre", ssh),
        jump("filter_INPUT_POLICIES_pre", JOB),
        rule("filter_INPUT_ZONES", {"goto": {"target": "filter_IN_public"}}),
        jump(ssh, ssh + "_allow"),
        jump(JOB, JOB + "_allow"),
        *(job(dport(port), family=family) for family in "46" for port in ports),
        rule(ssh + "_allow", source("fullmesh-controllers4"), dport(22), ACCEPT),
        rule("filter_IN_public_allow", dport(22), ACCEPT),
    ]


def strict() -> list[dict[str, Any]]:
    """The same with the peers bound to our zone."""
    goto = {"goto": {"target": "filter_IN_fullmesh"}}
    bound = [rule("filter_INPUT_ZONES", source("fullmesh-peers" + f), goto) for f in "46"]
    return [*kernel(), *bound]


def with_ssh(port: int) -> list[dict[str, Any]]:
    """The rules for an sshd that listens elsewhere."""
    text = json.dumps(kernel())
    found: list[dict[str, Any]] = json.loads(text.replace('"right": 22}', f'"right": {port}}}'))
    return found


def without(text: str) -> list[dict[str, Any]]:
    return [item for item in kernel() if text not in json.dumps(item)]


def test_rules_that_do_what_the_files_say_have_no_faults() -> None:
    assert firewalld.find_ruleset_faults(kernel(), WANT) == []


@pytest.mark.parametrize(
    ("gone", "word"),
    [
        ("29500", "29500/tcp is closed over IPv4"),
        ("54095", "50000-54095/tcp is closed over IPv6"),
        ("policy_fullmesh-ssh", "controllers do not reach ssh on port 22"),
        (
            '_pre", "handle": 7, "expr": [{"jump": {"target": "filter_IN_policy_fullmesh-ssh',
            "controllers",
        ),
        (
            '_pre", "handle": 7, "expr": [{"jump": {"target": "filter_IN_policy_fullmesh-job',
            "22/tcp is closed",
        ),
        ("@fullmesh-peers6", "22/tcp is closed over IPv6"),
        ('"10.0.0.12"', "set fullmesh-peers4 holds nothing"),
    ],
)
def test_each_missing_rule_is_named(gone: str, word: str) -> None:
    assert without(gone) != kernel()
    assert any(text.startswith(word) for text in firewalld.find_ruleset_faults(without(gone), WANT))


def test_ports_of_services_are_proved_in_the_kernel_no_more_and_no_less() -> None:
    want = WANT | {"controller_ports": ["8443/tcp"], "public_ports": ["8000/tcp"]}
    ssh, public = "filter_IN_policy_fullmesh-ssh", "filter_IN_policy_fullmesh-all"
    served = [
        *kernel(),
        rule(ssh + "_allow", source("fullmesh-controllers4"), dport(8443), ACCEPT),
        jump("filter_INPUT_POLICIES_pre", public),
        rule(public + "_allow", dport(8000), ACCEPT),
    ]
    assert firewalld.find_ruleset_faults(served, want) == []
    assert firewalld.find_ruleset_faults(kernel(), want) == [
        "controllers do not reach 8443/tcp",
        "8000/tcp is closed to others",
    ]
    assert firewalld.find_ruleset_faults(served, WANT) == [
        "controllers reach 8443/tcp, which Fullmesh did not open",
        "8000/tcp is open to everybody",
    ]


def test_peers_are_bound_in_peers_only_and_in_no_other_mode() -> None:
    """A node of an earlier version has them bound: it is moved over."""
    want = WANT | {"mode": "peers_only"}
    assert firewalld.find_ruleset_faults(strict(), want) == []
    assert firewalld.find_ruleset_faults(kernel(), want) == [
        "no rule sends set fullmesh-peers4 to zone fullmesh",
        "no rule sends set fullmesh-peers6 to zone fullmesh",
    ]
    assert firewalld.find_ruleset_faults(strict(), WANT) == [
        "set fullmesh-peers4 is sent to zone fullmesh",
        "set fullmesh-peers6 is sent to zone fullmesh",
    ]


def test_a_rule_that_opens_a_whole_protocol_is_named() -> None:
    match = {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}}
    assert firewalld.find_ruleset_faults([*kernel(), job(match)], WANT) == [
        "a rule opens a whole protocol"
    ]
    trusted = WANT | {"mode": "peers_trusted"}
    assert (
        "the peers' policy does not accept everything over IPv4"
        in firewalld.find_ruleset_faults([*kernel(), job(match)], trusted)
    )


def test_a_port_too_many_and_a_flushed_ruleset_are_named() -> None:
    assert firewalld.find_ruleset_faults([*kernel(), job(dport(8443))], WANT) == [
        "8443/tcp is open, but Fullmesh did not open it"
    ]
    everybody = rule(JOB + "_allow", dport(8443), ACCEPT)
    assert firewalld.find_ruleset_faults([*kernel(), everybody], WANT) == [
        "8443/tcp is open to everybody"
    ]
    assert firewalld.find_ruleset_faults([], WANT) == ["the kernel has no table of firewalld"]


def test_trusted_means_a_rule_for_the_peers_without_any_other_condition() -> None:
    want = WANT | {"mode": "peers_trusted"}
    table = [item for item in kernel() if "fullmesh-job_allow" not in str(item.get("rule"))]
    assert firewalld.find_ruleset_faults(table, want) == [
        "the peers' policy does not accept everything over IPv4",
        "the peers' policy does not accept everything over IPv6",
    ]
    table += [jump(JOB, JOB + "_allow"), job(), job(family="6")]
    assert firewalld.find_ruleset_faults(table, want) == []


@pytest.mark.parametrize(
    "elem",
    [
        ["10.0.0.12", "10.0.0.13", "10.0.0.11"],
        [{"range": ["10.0.0.11", "10.0.0.13"]}],
        ["10.0.0.11", {"prefix": {"addr": "10.0.0.12", "len": 31}}],
        ["10.0.0.11", {"elem": {"val": "10.0.0.12/31"}}],
    ],
)
def test_neighbours_are_the_same_however_the_kernel_joins_them(elem: list[Any]) -> None:
    table = [{"set": {"name": "fullmesh-peers4", "elem": elem}}]
    assert firewalld.list_set_elements(table, "fullmesh-peers4") == ["10.0.0.11", "10.0.0.12/31"]


def test_networks_of_controllers_are_compared_as_networks() -> None:
    networks = ["10.9.0.0/16", "198.51.100.7", "10.9.1.1", "fd00:9::/32"]
    want = {**WANT, "controllers": networks}
    assert firewalld.find_ruleset_faults(kernel(), want) == [
        "set fullmesh-controllers4 holds 198.51.100.7",
        "set fullmesh-controllers6 holds nothing",
    ]
    table = [item for item in kernel() if "controllers4" not in str(item.get("set"))]
    table += [
        {
            "set": {
                "name": "fullmesh-controllers4",
                "elem": [{"prefix": {"addr": "10.9.0.0", "len": 16}}, "198.51.100.7"],
            }
        },
        {
            "set": {
                "name": "fullmesh-controllers6",
                "elem": [{"prefix": {"addr": "fd00:9::", "len": 32}}],
            }
        },
    ]
    assert firewalld.find_ruleset_faults(table, want) == []


def answer(table: list[dict[str, Any]]) -> Callable[[list[str]], tuple[int, str]]:
    return lambda argv: (0, json.dumps({"nftables": table})) if argv[0] == "nft" else (1, "")


def print_of(root: Path, table: list[dict[str, Any]]) -> dict[str, str]:
    return firewalld.fingerprint_zones(["fullmesh"], answer(table), str(root))["fullmesh"]


def test_a_fingerprint_ignores_handles_and_order_and_other_zones(root: Path) -> None:
    table = kernel()
    before = print_of(root, table)
    table.reverse()
    for item in table:
        item.get("rule", {})["handle"] = 99
    assert (
        print_of(root, [*table, rule("filter_IN_work_allow", dport(1), {"accept": None})]) == before
    )


@pytest.mark.parametrize(
    "gone", ["29500", "10.0.0.12", "policy_fullmesh", "@fullmesh-peers6", "POLICIES_pre"]
)
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
    monkeypatch.setattr(firewalld, "query_libnftables", lambda: "")

    def run(argv: list[str]) -> tuple[int, str]:
        return (1, "") if argv[0] == "nft" else (0, ZONES)

    first = firewalld.fingerprint_zones(["public", "work"], run, str(root))
    assert first["public"]["runtime"] != first["work"]["runtime"]


# --- one run --------------------------------------------------------------------------------------


class Machine:
    """Stands for systemctl, firewall-cmd and nft."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = {firewall_peers.UNIT: ("loaded", "inactive", "disabled")}
        self.table: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.table_after = kernel()
        self.others: list[dict[str, Any]] = []
        self.answers: dict[str, str] = {"iptables-save": "", "ip6tables-save": "", "ip": ""}
        self.told: dict[str, str] = {}
        self.fails = ""

    def run(self, argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        self.calls.append(line)
        if self.fails and self.fails in line:
            return 1, "it does not work"
        rehearsed(argv)
        if argv[:2] == ["systemctl", "show"]:
            states = [
                self.units.get(n, ("not-found", "inactive", ""))
                for n in argv[argv.index("--") + 1 :]
            ]
            form = "LoadState={}\nActiveState={}\nUnitFileState={}\n"
            return 0, "\n".join(form.format(*state) for state in states)
        if argv[0] == "nft":
            rules = self.others if line.endswith("ruleset") else self.table
            return 0, json.dumps({"nftables": rules})
        if line in self.told:
            return 0, self.told[line]
        if line.endswith("list-all-zones"):
            return 0, ZONES
        if "start firewalld" in line or line == "firewall-cmd --reload":
            self.table = self.table_after
        return 0, self.answers.get(argv[0], "")

    def commands(self) -> str:
        looks = (" show", "nft ", "-save", "get-zone")
        return "\n".join(call for call in self.calls if not any(word in call for word in looks))


PARAMS: dict[str, Any] = {
    "state": "present",
    "mode": "peers_range",
    "zone": "fullmesh",
    "peers": PEERS,
    "controllers": ["198.51.100.7"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
    "controller_ports": [],
    "public_ports": [],
    "rdma": "auto",
    "ufw": "carry",
    "start": "refuse",
    "rollback_seconds": 60,
    "token": "run",
}


@pytest.fixture
def machine(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    put(root, "/etc/firewalld/firewalld.conf", "DefaultZone=public\n")
    monkeypatch.setattr(session, "list_ssh_clients", lambda environ, pid: [])
    monkeypatch.setattr(session, "find_ssh_session", lambda environ, pid: [])
    monkeypatch.setattr(session, "list_ssh_ports", lambda environ, pid: [22])
    monkeypatch.setattr(preserve, "PLACE", str(tmp_path / "kept"))
    monkeypatch.setattr(firewalld, "query_libnftables", lambda: "")
    monkeypatch.setattr(engine, "STORE", str(tmp_path / "rollback"))
    monkeypatch.setattr(engine, "UNITS", str(tmp_path / "units"))
    return Machine(root)


def firewall(machine: Machine, check: bool = False, **change: Any) -> firewall_peers.Firewall:
    return firewall_peers.Firewall(PARAMS | change, check, machine.run, str(machine.root))


def settings_of(machine: Machine, **change: Any) -> dict[str, Any]:
    observed = firewall(machine, **change).observed
    observed.read_state()
    return cast("dict[str, Any]", observed.build_settings())


def refused(machine: Machine, **change: Any) -> str:
    with pytest.raises(firewall_peers.FirewallRefusedError) as caught:
        firewall(machine, **change).present()
    return str(caught.value)


def ours(machine: Machine) -> list[str]:
    return sorted(
        path
        for path in firewalld_files.map_own_paths("fullmesh").values()
        if os.path.exists(str(machine.root) + path)
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
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = without("29500")
    assert firewall(machine).present()["changed"]
    assert machine.commands().count("firewall-cmd --reload") == 1
    machine.calls.clear()
    again = firewall(machine).present()
    assert not again["changed"]
    assert not again["armed"]
    assert machine.commands() == ""


def test_where_a_reload_keeps_old_entries_they_are_taken_out_and_on_the_way_back_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a peer could never go: the proof saw the old entry, and every run went back."""
    armed: list[list[Any]] = []
    monkeypatch.setattr(engine, "arm", lambda *words, **more: armed.append(words[4]))
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = without("29500")
    firewall(machine).present()
    assert firewalld_files.build_ipset_cleanup("fullmesh") not in armed[0]
    assert "/bin/sh" not in machine.commands()
    put(machine.root, "/etc/firewalld/firewalld.conf", "FlushAllOnReload=no\n")
    machine.table = without("29500")
    machine.calls.clear()
    firewall(machine).present()
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


def test_what_is_taken_out_is_what_no_file_of_ours_has(tmp_path: Path) -> None:
    tool, log = tmp_path / "firewall-cmd", tmp_path / "log"
    tool.write_text(FIREWALL_CMD, encoding="utf-8")
    tool.chmod(0o755)
    where = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(log)}
    subprocess.run(
        ["/bin/sh", "-c", firewalld_files.build_ipset_cleanup("fullmesh")], env=where, check=True
    )
    assert log.read_text(encoding="utf-8").splitlines() == [
        "--ipset=fullmesh-peers4 --remove-entry=10.0.0.11",
        "--ipset=fullmesh-peers4 --remove-entry=10.0.0.13",
        "--ipset=fullmesh-peers6 --remove-entry=fd00::11",
    ]


def test_a_flushed_ruleset_is_restarted_not_reloaded(machine: Machine) -> None:
    firewall(machine).present()
    firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = []
    assert firewall(machine).present()["changed"]
    assert "systemctl restart firewalld.service" in machine.commands()


def test_check_mode_touches_nothing(machine: Machine) -> None:
    run = firewall(machine, check=True)
    assert run.present()["changed"]
    assert ours(machine) == []
    assert "systemctl start" not in machine.commands()
    assert len(run.call.diff) == 5


def test_a_bare_node_is_told_what_comes_and_not_touched_before_the_package(
    machine: Machine,
) -> None:
    machine.units = {}
    run = firewall(machine)
    result = run.present()
    assert result["needs_package"]
    assert ours(machine) == []
    assert len(run.call.diff) == 6


def test_a_bare_node_with_ssh_elsewhere_gets_the_service_too(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "list_ssh_ports", lambda environ, pid: [2222])
    machine.table_after = with_ssh(2222)
    firewall(machine).present()
    text = firewalld.read_text_or_empty(str(machine.root) + "/etc/firewalld/services/ssh.xml")
    assert '<port port="2222" protocol="tcp"/>' in text


def test_somebody_elses_ssh_service_is_left_alone(machine: Machine) -> None:
    put(machine.root, "/etc/firewalld/services/ssh.xml", "<service/>")
    assert "[PF-115]" in refused(machine)
    assert (
        firewalld.read_text_or_empty(str(machine.root) + "/etc/firewalld/services/ssh.xml")
        == "<service/>"
    )


def test_the_live_controller_and_its_port_are_added(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "list_ssh_clients", lambda environ, pid: ["192.0.2.9"])
    machine.units = {}
    assert firewall(machine).present()["controllers"] == ["192.0.2.9", "198.51.100.7"]


SSH_FOR_ALL = "### tuple ### allow tcp 22 0.0.0.0/0 any 0.0.0.0/0 in\n"


def with_ufw(machine: Machine, rules: str = "") -> None:
    """ufw, enabled."""
    put(machine.root, ufw.COMMAND, "")
    put(machine.root, "/etc/ufw/ufw.conf", "# x\nENABLED = yes\n")
    put(machine.root, "/etc/ufw/user.rules", rules + SSH_FOR_ALL)


def test_ufw_a_rival_a_mask_and_a_claim_are_refused_at_once(machine: Machine) -> None:
    with_ufw(machine)
    put(
        machine.root, "/etc/firewalld/zones/work.xml", '<zone><source address="10.0.0.0/8"/></zone>'
    )
    machine.units = {
        firewall_peers.UNIT: ("masked", "inactive", "masked"),
        "nftables.service": ("loaded", "active", "enabled"),
    }
    assert "[PF-113]" not in refused(machine, ufw="refuse")  # a policy asks no zone
    text = refused(machine, ufw="refuse", mode="peers_only")
    for code in ("PF-110", "PF-111", "PF-112", "PF-113"):
        assert f"[{code}]" in text
    assert ours(machine) == []


RULES = """\
### tuple ### allow tcp 8080 0.0.0.0/0 any 0.0.0.0/0 in
### tuple ### allow tcp 9100 0.0.0.0/0 any 0.0.0.0/0 in_eth0
"""


def test_rules_of_ufw_that_would_get_lost_are_refused_and_can_be_given_up(machine: Machine) -> None:
    with_ufw(machine, RULES)
    text = refused(machine)
    assert "[PF-122]" in text
    assert "in_eth0` (bound to an interface)" in text
    assert ours(machine) == []
    run = firewall(machine, ufw="discard")
    machine.table_after = [
        *kernel(),
        rule("filter_IN_policy_fullmesh-ufw_post", dport(8080), {"accept": None}),
        rule("filter_IN_policy_fullmesh-ufw_post", dport(22), {"accept": None}),
    ]
    assert run.present()["ufw"]
    assert "Not carried over, as asked" in run.call.notes[0]["text"]


SSH_FOR_SOME = "### tuple ### allow any 22 0.0.0.0/0 any 192.0.2.0/24 in\n"


def test_ssh_that_ufw_restricts_is_not_opened_to_all_unsaid(machine: Machine) -> None:
    with_ufw(machine)
    put(machine.root, "/etc/ufw/user.rules", SSH_FOR_SOME)
    assert "[PF-122]" in refused(machine)
    assert "ssh on 22/tcp over IPv4" in refused(machine)
    assert ours(machine) == []
    machine.table_after = [
        *kernel(),
        *(
            rule("filter_IN_policy_fullmesh-ufw_post", dport(22), {"accept": None})
            for _ in ("tcp", "udp")
        ),
    ]
    run = firewall(machine, ufw="discard")
    assert run.present()["ufw"]
    assert "ssh on 22/tcp over IPv4" in run.call.notes[0]["text"]


def test_where_the_zone_keeps_ssh_shut_as_ufw_did_it_may_take_over(machine: Machine) -> None:
    with_ufw(machine)
    put(machine.root, "/etc/ufw/user.rules", SSH_FOR_SOME)
    put(machine.root, "/etc/firewalld/zones/public.xml", "<zone/>")
    run = firewall(machine, check=True)
    assert run.present()["ufw"]
    assert not any("services/ssh.xml" in one["before_header"] for one in run.call.diff)


OPENED = "nft " + preserve.OPEN


def taken_over(machine: Machine, fails: str = "") -> firewall_peers.Firewall:
    with_ufw(machine, RULES.splitlines(keepends=True)[0])
    machine.answers["/usr/sbin/ufw"] = "Status: active\n"
    chain = "filter_IN_policy_fullmesh-ufw_post"
    accepts = [rule(chain, dport(port), {"accept": None}) for port in (8080, 22)]
    machine.table_after = [*kernel(), *accepts]
    machine.fails = fails
    return firewall(machine)


def test_ufw_goes_before_firewalld_starts_and_behind_a_gate(machine: Machine) -> None:
    run = taken_over(machine)
    assert run.present()["ufw"]
    assert [note["code"] for note in run.call.notes] == ["PF-203"]
    calls = "\n".join(machine.calls)
    words = ["systemd-run", "nft -f", "ufw disable", "start firewalld", OPENED]
    places = [calls.index(word) for word in words]
    assert places == sorted(places)
    policy = firewalld.read_text_or_empty(
        str(machine.root) + "/etc/firewalld/policies/fullmesh-ufw.xml"
    )
    assert '<port port="8080" protocol="tcp"/>' in policy
    assert ufw.is_ufw_replaced(str(machine.root))
    assert ufw.was_ufw_loaded(str(machine.root))


def ready_for_undo(machine: Machine) -> None:
    """ufw was taken over, and firewalld runs."""
    taken_over(machine).present()
    firewall(machine).confirmed()
    put(machine.root, "/etc/ufw/ufw.conf", "# x\nENABLED=no\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    remembered(machine, active=False)


@pytest.mark.parametrize("undo", [False, True])
def test_a_gate_that_does_not_open_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, undo: bool
) -> None:
    """With it, nobody new gets in but by ssh."""
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (1, "Operation not permitted")
    )
    if undo:
        ready_for_undo(machine)
        act = firewall(machine).leaving
    else:
        act = taken_over(machine).present
    machine.fails = OPENED
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"\[PF-130\].*'Operation not permitted'.*nft"
    ):
        act()


def test_the_opening_of_the_gate_is_rehearsed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    arm = engine.arm

    def watched(*words: Any, **more: Any) -> None:
        told.append((words[4][-1], more["trials"]))
        arm(*words, **more)

    monkeypatch.setattr(engine, "arm", watched)
    taken_over(machine).present()
    assert told == [(preserve.build_unblock_command(), [preserve.build_unblock_trial()])]
    assert journal()["trials"] == [preserve.build_unblock_trial()]


@pytest.mark.parametrize("possible", [True, False])
def test_an_undo_opens_no_gate_that_it_cannot_shut(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, possible: bool
) -> None:
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (127, "No module named 'nftables'")
    )
    ready_for_undo(machine)
    machine.calls.clear()
    run = machine.run

    def without(argv: list[str]) -> tuple[int, str]:
        lacks = argv[:2] == ["nft", "-f"] or argv[-1] == preserve.build_unblock_trial()
        return (127, "") if lacks and not possible else run(argv)

    machine.run = without  # type: ignore[method-assign]
    assert firewall(machine).leaving()["changed"]
    assert (preserve.build_unblock_command() in journal()["commands"]) is possible
    assert journal()["trials"] == [preserve.build_unblock_trial()] * possible
    assert (OPENED in machine.calls) is possible


@pytest.mark.parametrize("seconds", [0, 60])
@pytest.mark.parametrize("fails", ["start firewalld", "ufw disable", "firewall-cmd --state"])
def test_a_takeover_that_fails_goes_back_before_the_gate_opens(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, seconds: int, fails: str
) -> None:
    """Whatever is asked for: without the rollback the node would be left without any firewall."""
    armed: list[list[Any]] = []
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    arm = engine.arm

    def watched(*words: Any, **more: Any) -> None:
        armed.append(words[4])
        arm(*words, **more)

    monkeypatch.setattr(engine, "arm", watched)
    taken_over(machine, fails)
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match="Fullmesh restored the earlier state"
    ):
        firewall(machine, rollback_seconds=seconds).present()
    assert undone == ["peer_firewall"]
    assert "fullmesh_gate" in armed[0][-1]
    assert OPENED not in machine.calls


def test_what_could_not_be_put_back_is_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {"faults": ["`x`: rc 1"]})
    machine.fails = "start firewalld"
    said = refused(machine)
    assert "[PF-117]" in said
    assert "could not be restored: `x`: rc 1." in said


def test_where_nobody_has_to_confirm_the_change_is_armed_until_it_is_proved(
    machine: Machine,
) -> None:
    result = firewall(machine, rollback_seconds=0).present()
    assert result["changed"]
    assert not result["armed"]
    calls = machine.commands()
    assert f"armed for {rollback.ALONE_SECONDS} s" in (Path(engine.STORE) / "log").read_text()
    assert calls.index("systemd-run") < calls.index("start firewalld")
    assert calls.index("start firewalld") < calls.rindex("stop fullmesh-rollback-peer-firewall")
    assert not (Path(engine.STORE) / "peer_firewall").exists()


def test_ufw_stays_on_where_nothing_can_stand_in_for_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (127, "No module named 'nftables'")
    )
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"\[PF-125\] ufw was left on.*nftables"
    ):
        taken_over(machine, "nft -f").present()
    assert not any("ufw disable" in call for call in machine.calls)
    assert not any("start firewalld" in call for call in machine.calls)


def test_rules_of_ufw_that_are_not_in_the_kernel_are_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    run = taken_over(machine)
    machine.table_after = kernel()
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"PF-118.*0 of 2 rules carried over from ufw"
    ):
        run.present()


def test_ufw_that_does_not_stop_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-125\]"):
        taken_over(machine, "ufw disable").present()
    assert not any("start firewalld" in call for call in machine.calls)


def remembered(machine: Machine, *, active: bool) -> None:
    """The role's own record: whether firewalld ran when it came."""
    unit = {"found": True, "active": active, "enabled": ""}
    before = record.make_empty_record("peer_firewall") | {"services": {firewall_peers.UNIT: unit}}
    record.UndoPoint(str(machine.root), "peer_firewall").save(before, {})


# Without what is a part of it (PartOf=), as fail2ban is.
STOPPED = "systemctl stop --job-mode=ignore-dependencies firewalld.service"


def test_after_the_takeover_the_policy_stays_and_the_undo_gives_ufw_back(machine: Machine) -> None:
    ready_for_undo(machine)
    assert not firewall(machine).present()["changed"]
    remembered(machine, active=False)
    machine.calls.clear()
    assert firewall(machine).leaving()["changed"]
    calls = "\n".join(machine.calls)
    words = ["nft -f", STOPPED, "ufw --force enable", OPENED]
    places = [calls.index(word) for word in words]
    assert places == sorted(places)
    assert (
        firewalld.read_text_or_empty(str(machine.root) + "/etc/ufw/ufw.conf")
        == "# x\nENABLED = yes\n"
    )
    machine.answers["/usr/sbin/ufw"] = "Status: active\n"
    assert not firewall(machine).left()["changed"]


def test_where_firewalld_ran_before_ufw_comes_back_after_the_undo(machine: Machine) -> None:
    taken_over(machine).present()
    firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    remembered(machine, active=True)
    assert not firewall(machine).leaving()["changed"]
    assert firewall(machine, check=True).left()["changed"]
    machine.calls.clear()
    assert firewall(machine).left()["changed"]
    assert "ufw --force enable" in machine.commands()


JOB_FILE = "/etc/firewalld/policies/fullmesh-job.xml"


def with_point(machine: Machine, *, active: bool) -> None:
    """A node that the role has changed, with firewalld running now."""
    remembered(machine, active=active)
    point = record.UndoPoint(str(machine.root), "peer_firewall")
    before = point.load()
    before["files"] = {JOB_FILE: {"kind": "absent"}}
    point.save(before, {})
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = kernel()


def journal() -> engine.Journal:
    return cast("engine.Journal", engine.read_json(f"{engine.STORE}/peer_firewall/journal.json"))


def test_an_undo_is_armed_and_somebody_has_to_confirm_it(machine: Machine) -> None:
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


def test_an_undo_stops_a_firewall_of_ours_and_nothing_with_it(machine: Machine) -> None:
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


def test_an_undo_without_a_point_or_in_check_mode_arms_nothing(machine: Machine) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    assert firewall(machine).leaving() == {"changed": False, "armed": False}
    assert firewall(machine).left() == {"changed": False, "armed": False}
    with_point(machine, active=True)
    assert not firewall(machine, check=True).leaving()["armed"]
    assert "systemd-run" not in machine.commands()


def test_an_undo_that_nobody_has_to_confirm_ends_by_itself(machine: Machine) -> None:
    with_point(machine, active=True)
    assert firewall(machine, rollback_seconds=0).leaving()["armed"]
    assert not firewall(machine, rollback_seconds=0).left()["armed"]
    assert not (Path(engine.STORE) / "peer_firewall").exists()


def test_an_undo_that_came_too_late_says_so(machine: Machine) -> None:
    with_point(machine, active=True)
    firewall(machine).leaving()
    (Path(engine.STORE) / "peer_firewall/fired").touch()
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
        firewall(machine).left()


def test_an_undo_goes_back_at_once_where_ufw_does_not_come(
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


@pytest.mark.parametrize("place", ["file", "runtime", "NetworkManager", "ifcfg"])
def test_an_interface_of_another_zone_is_refused_by_name(machine: Machine, place: str) -> None:
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = machine.run
    if place == "file":
        zone = '<zone target="ACCEPT"><interface name="eth1"/></zone>'
        put(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    if place == "ifcfg":
        put(
            machine.root,
            "/etc/sysconfig/network-scripts/ifcfg-eth1",
            'DEVICE=eth1\nZONE="trusted"\n',
        )

    def answer_(argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        if place == "runtime" and "get-zone-of-interface=eth1" in line:
            return 0, "trusted\n"
        if place == "NetworkManager" and argv[0] == "nmcli":
            return 0, "cluster\n" if "device" in argv else "trusted\n"
        return (2, "no zone") if "get-zone" in line or argv[0] == "nmcli" else run(argv)

    machine.run = answer_  # type: ignore[method-assign]
    text = refused(machine, mode="peers_only")
    assert "[PF-123] the cluster's interface eth1 is in zone trusted" in text
    # A policy takes nothing from that zone. That it lets everybody in is said.
    run_ = firewall(machine, check=True)
    run_.present()
    assert [note["code"] for note in run_.call.notes] == ["PF-209"]
    assert "eth1 is in zone trusted, which opens 29500/tcp" in run_.call.notes[0]["text"]


def test_every_link_of_the_cluster_is_looked_at(machine: Machine) -> None:
    machine.answers["ip"] = (
        "2: eth1    inet 10.0.0.11/24 scope global eth1\n3: eth2    inet6 fd00::11/64 scope global\n"
    )
    zone = '<zone><interface name="eth2"/></zone>'
    put(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    text = refused(machine, mode="peers_only")
    assert "[PF-123] the cluster's interface eth2 is in zone trusted (its file)" in text
    assert "interface eth1" not in text


def test_the_default_zone_may_have_the_interface(machine: Machine) -> None:
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    zone = PUBLIC.replace("</zone>", '<interface name="eth1"/></zone>')
    put(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert firewall(machine).present()["changed"]


def test_a_zone_of_ours_that_is_about_to_go_is_nobodys(machine: Machine) -> None:
    """NetworkManager's profile names the zone that earlier versions made."""
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    put(machine.root, "/etc/sysconfig/network-scripts/ifcfg-eth1", "ZONE=fullmesh\n")
    assert "[PF-123] the cluster's interface eth1 is in zone fullmesh (ifcfg-eth1)" in refused(
        machine
    )


OLD_ZONE = f"""<?xml version="1.0" encoding="utf-8"?>
<!-- {firewalld_files.MARK} -->
<zone>
  <short>fullmesh</short>
  <source ipset="fullmesh-peers4"/>
  <port port="29500" protocol="tcp"/>
</zone>
"""


def test_a_node_of_an_earlier_version_is_moved_over_in_one_reload_and_goes_back_whole(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its zone goes and the policy comes between one reload and the next; the rollback knows both files."""
    armed: list[list[str]] = []
    arm = engine.arm

    def watched(*words: Any, **more: Any) -> None:
        armed.append(list(words[3]))
        arm(*words, **more)

    monkeypatch.setattr(engine, "arm", watched)
    put(machine.root, ZONE_FILE, OLD_ZONE)
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = strict()
    run = firewall(machine)
    assert run.present()["changed"]
    assert not os.path.exists(str(machine.root) + ZONE_FILE)
    assert {ZONE_FILE, JOB_FILE} <= set(armed[0])
    assert machine.commands().count("firewall-cmd --reload") == 1
    assert run.call.notes == []
    assert not firewall(machine).present()["changed"]


# --- what listens here before a firewall is started -----------------------------------------------

# /proc/net of a lab node: sshd; listeners on 8000, 8001 (IPv6), 8003 (eth1's address), 50010, 2049/udp; on loopback
# 8002 and 323/udp; a DHCP client, LLMNR, a connected and a nameless UDP client; one peer connected to 8000.
SOCKETS = Path(__file__).parent / "data/sockets"
OWNERS = {"348453": "python3", "348458": "nfsd", "348454": "python3"}
CARDS = """\
2: eth0    inet 10.77.1.11/24 brd 10.77.1.255 scope global eth0
3: eth1    inet 10.78.1.11/24 scope global eth1
"""
ONLY_SSH = '<zone><service name="ssh"/></zone>'


def bare(machine: Machine) -> Machine:
    """A node that never had a firewall, with what listens there."""
    for name in ("tcp", "tcp6", "udp", "udp6"):
        put(machine.root, "/proc/net/" + name, (SOCKETS / name).read_text(encoding="utf-8"))
    put(machine.root, "/proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n")
    for pid, inode in enumerate(OWNERS, 580):
        put(machine.root, f"/proc/{pid}/comm", OWNERS[inode] + "\n")
        place = Path(f"{machine.root}/proc/{pid}/fd")
        place.mkdir()
        (place / "3").symlink_to(f"socket:[{inode}]")
    put(machine.root, "/etc/firewalld/zones/public.xml", ONLY_SSH)
    machine.answers["ip"] = CARDS
    return machine


def test_a_first_start_names_what_it_would_cut_and_stops(machine: Machine) -> None:
    said = refused(bare(machine))
    assert (
        "[PF-129] no firewall runs on this node, and firewalld's zone public would block reachable listeners: "
        "2049/udp (nfsd), 8000/tcp (python3; 10.78.1.12 is connected), 8001/tcp (python3), "
        "8003/tcp (a process that could not be named). "
    ) in said
    assert ours(machine) == []
    assert "start firewalld" not in machine.commands()


def test_so_it_does_before_the_package_is_there(machine: Machine) -> None:
    bare(machine).units = {}
    for name in ("zones/public.xml", "zones/trusted.xml"):
        os.unlink(f"{machine.root}/usr/lib/firewalld/{name}")
    os.unlink(f"{machine.root}/etc/firewalld/zones/public.xml")
    said = refused(machine)
    assert "[PF-129]" in said
    assert "22/tcp" not in said


@pytest.mark.parametrize(
    ("zone", "lost"),
    [
        ('<zone><service name="ssh"/><port port="2000-2050" protocol="udp"/></zone>', "8000/tcp"),
        ('<zone><service name="ssh"/><protocol value="tcp"/></zone>', "2049/udp"),
        ('<zone><service name="ssh"/><service name="site"/></zone>', "8001/tcp"),
        ('<zone><rule><port port="1-9000" protocol="tcp"/><accept/></rule></zone>', "2049/udp"),
        (
            '<zone><service name="ssh"/><rule family="ipv4"><source address="10.9.0.0/16"/>'
            '<port port="1-9000" protocol="tcp"/><accept/></rule></zone>',
            "2049/udp",
        ),
    ],
)
def test_what_the_zone_lets_in_is_not_cut(machine: Machine, zone: str, lost: str) -> None:
    bare(machine)
    port = '<port port="8000" protocol="tcp"/>'
    put(machine.root, "/etc/firewalld/services/base.xml", f"<service>{port}</service>")
    site = '<service><include service="base"/><port port="2049" protocol="udp"/></service>'
    put(machine.root, "/etc/firewalld/services/site.xml", site)
    put(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert f"would block reachable listeners: {lost} " in refused(machine)


def test_each_interface_has_its_zone(machine: Machine) -> None:
    """8003 is bound to eth1's address, and eth1 is in a zone that lets everything in."""
    bare(machine)
    zone = '<zone target="ACCEPT"><interface name="eth1"/></zone>'
    put(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    said = refused(machine)
    assert "8000/tcp" in said  # on eth0 as well
    assert "8003/tcp" not in said


def test_cut_goes_on_and_says_what_is_shut(machine: Machine) -> None:
    run = firewall(bare(machine), start="cut")
    assert run.present()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-211"]
    assert "Its start blocks for everybody: 2049/udp (nfsd), 8000/tcp" in run.call.notes[0]["text"]
    assert not firewall(machine, start="cut").observed.is_first_start()


def test_carry_opens_it_to_the_peers_from_then_on(machine: Machine) -> None:
    carried = [(2049, udp), (8000, dport), (8001, dport), (8003, dport)]
    rules = [job(made(port), family=family) for family in "46" for port, made in carried]
    bare(machine).table_after = [*kernel(), *rules]
    run = firewall(machine, start="carry")
    result = run.present()
    assert result["ports"][-4:] == ["2049/udp", "8000/tcp", "8001/tcp", "8003/tcp"]
    assert "for everybody but the peers: 2049/udp (nfsd)" in run.call.notes[0]["text"]
    firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    put(machine.root, "/proc/net/tcp", "")  # the service is restarted just now
    again = firewall(machine, start="carry")
    assert not again.present()["changed"]
    assert again.call.notes == []


# keepalived's two sockets, for what comes and for its group; a ping; one that only sends.
RAW = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
  77: 00000000:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90001
  77: 120000E0:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90002
  66: 00000000:0001 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90003
 255: 00000000:00FF 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90004
"""


def talking(machine: Machine) -> Machine:
    """Nothing there but what waits for a protocol without ports."""
    bare(machine)
    for name in ("tcp", "tcp6", "udp", "udp6"):
        put(machine.root, "/proc/net/" + name, "")
    put(machine.root, "/proc/net/raw", RAW)
    return machine


def test_a_protocol_without_ports_is_cut_as_well(machine: Machine) -> None:
    """Two nodes that do not hear each other's VRRP would both take the address."""
    said = refused(talking(machine))
    assert (
        "block reachable listeners: IP protocol 112 (a process that could not be named). Fix: open"
        in said
    )
    assert "`firewall-offline-cmd --zone=public --add-protocol=112`" in said
    zone = '<zone><service name="ssh"/><protocol value="vrrp"/></zone>'
    put(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert firewall(machine, check=True).present()["changed"]


def test_carry_opens_a_protocol_without_ports(machine: Machine) -> None:
    left = {"meta": {"key": "l4proto"}}
    vrrp = {"match": {"op": "==", "left": left, "right": "vrrp"}}
    machine.table_after = [*kernel(), *(job(vrrp, family=family) for family in "46")]
    result = firewall(talking(machine), start="carry").present()
    assert result["ports"][-1] == "112/ip"
    assert '    <protocol value="112"/>' in firewalld.read_text_or_empty(
        str(machine.root) + JOB_FILE
    )
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    firewall(machine, start="carry").confirmed()
    machine.table = kernel()
    assert firewalld.find_ruleset_faults(kernel(), settings_of(machine, start="carry"))
    machine.table = machine.table_after
    assert not firewall(machine, start="carry").present()["changed"]


@pytest.mark.parametrize("unit", ["active", "inactive"])
def test_a_firewall_that_judged_before_is_started_as_ever(machine: Machine, unit: str) -> None:
    """It runs, or somebody has stopped what we made: that was shut when the node converged."""
    machine.units[firewall_peers.UNIT] = ("loaded", unit, "enabled")
    if unit == "inactive":
        put(machine.root, JOB_FILE, rendered()[JOB_FILE])
    run = firewall(bare(machine))
    assert run.present()["changed"]
    assert run.call.notes == []


def test_where_ufw_judged_nothing_is_lost(machine: Machine) -> None:
    taken_over(bare(machine)).present()


def test_peers_only_says_what_peers_lose(machine: Machine) -> None:
    bare(machine).units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    put(machine.root, "/etc/firewalld/zones/public.xml", PUBLIC)
    machine.table_after = strict()
    peers = ["10.78.1.11", "10.78.1.12"]
    run = firewall(machine, check=True, mode="peers_only", peers=peers)
    run.present()
    assert [note["code"] for note in run.call.notes] == ["PF-210"]
    assert "8000/tcp (python3; 10.78.1.12 is connected), 8001/tcp" in run.call.notes[0]["text"]
    assert "2049" not in run.call.notes[0]["text"]  # nobody reached that
    put(machine.root, ZONE_FILE, OLD_ZONE)
    again = firewall(machine, check=True, mode="peers_only", peers=peers)
    again.present()
    assert again.call.notes == []


def others(port: int) -> list[dict[str, Any]]:
    """A table of the user's that drops a port."""
    chain = {"family": "inet", "table": "mine", "name": "in", "hook": "input", "prio": 0}
    drop = {
        "family": "inet",
        "table": "mine",
        "chain": "in",
        "handle": 4,
        "expr": [dport(port), {"drop": None}],
    }
    return [{"chain": chain | {"policy": "accept"}}, {"rule": drop}]


def test_a_rule_beside_firewalld_is_refused_before_and_found_after(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.others = others(29500)
    assert "[PF-124] table inet mine, chain in (hook input), handle 4" in refused(machine)
    assert ours(machine) == []
    machine.others = []
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    run = machine.run

    def late(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        machine.others = others(50005) if "start firewalld" in " ".join(argv) else machine.others
        return rc, out

    machine.run = late  # type: ignore[method-assign]
    assert "[PF-124]" in refused(machine)
    assert undone == ["peer_firewall"]


def test_a_carried_port_that_its_owner_leads_elsewhere_is_no_reason_to_refuse(
    machine: Machine,
) -> None:
    """A container's published port: podman listens on it, and netavark's rule leads it into the container."""
    bare(machine).others = others(8000)
    assert firewall(machine, check=True, start="carry").present()["changed"]
    machine.others = others(29500)
    with pytest.raises(firewall_peers.FirewallRefusedError, match="PF-124"):
        firewall(machine, check=True, start="carry").present()


@pytest.mark.parametrize("unit", ["active", "inactive"])
def test_the_iptables_backend_is_refused_before_any_change(machine: Machine, unit: str) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", unit, "enabled")
    bare(machine).others = others(
        29500
    )  # nothing else is said: it would be read from the other backend
    put(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=iptables\n")
    assert refused(machine) == (
        "[PF-126] /etc/firewalld/firewalld.conf has FirewallBackend=iptables, which is not supported. "
        "Fix: set FirewallBackend=nftables there and run `systemctl try-restart firewalld`."
    )
    assert ours(machine) == []
    put(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=nftables\n")
    assert "PF-126" not in refused(machine)


def test_an_undo_goes_through_with_the_iptables_backend(machine: Machine) -> None:
    put(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=iptables\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = firewall(machine, state="reloaded")
    assert run.reloaded()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-208"]
    assert "iptables rules" in run.call.notes[0]["text"]


@pytest.mark.parametrize(
    ("said", "fine"), [("0.6.3\n", False), ("0.9.0\n", True), ("1.3.3\n", True), ("", True)]
)
def test_a_firewalld_without_policies_is_refused(machine: Machine, said: str, fine: bool) -> None:
    machine.answers["firewall-offline-cmd"] = said
    if fine:
        assert firewall(machine).present()["changed"]
    else:
        assert "[PF-127] firewalld 0.6.3" in refused(machine)
        assert ours(machine) == []


def test_rules_of_others_that_cannot_be_put_back_are_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    saved = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 7000 -j ACCEPT\nCOMMIT\n"
    machine.answers["iptables-save"] = saved
    run = machine.run

    def flushing(argv: list[str]) -> tuple[int, str]:
        if "start firewalld" in " ".join(argv):
            machine.answers["iptables-save"] = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
            machine.fails = "iptables-restore"
        return run(argv)

    machine.run = flushing  # type: ignore[method-assign]
    assert "[PF-128]" in refused(machine)
    machine.fails = ""
    preserve.write_root_file(preserve.PLACE + "4", saved)
    machine.fails = "iptables-restore"
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-128\]"):
        firewall(machine).left()


@pytest.mark.parametrize(
    ("rdma", "layer", "wanted"),
    [
        ("auto", "Ethernet", True),
        ("auto", "InfiniBand", False),
        ("auto", "", False),
        ("true", "", True),
        ("false", "Ethernet", False),
    ],
)
def test_roce_gets_its_port_where_a_card_has_it(
    machine: Machine, rdma: str, layer: str, wanted: bool
) -> None:
    if layer:
        put(machine.root, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", layer + "\n")
    roce = [job(udp(4791), family=family) for family in "46"]
    machine.table_after = [*kernel(), *roce] if wanted else kernel()
    result = firewall(machine, rdma=rdma).present()
    assert ("4791/udp" in result["ports"]) is wanted
    policy = firewalld.read_text_or_empty(str(machine.root) + JOB_FILE)
    assert ('<port port="4791" protocol="udp"/>' in policy) is wanted


def test_runtime_only_settings_stop_a_reload(machine: Machine) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = machine.run

    def with_port(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        extra = argv == ["firewall-cmd", "--list-all-zones"]
        return rc, out.replace("  ports:\n", "  ports: 8443/tcp\n") if extra else out

    machine.run = with_port  # type: ignore[method-assign]
    assert "[PF-114]" in refused(machine)
    assert ours(machine) == []


def test_networks_of_containers_outlive_a_reload_and_its_rollback(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """firewall-cmd --list-all-zones where netavark has put a podman network into zone trusted."""
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    trusted = "trusted (active)\n  target: ACCEPT\n  interfaces:\n  sources: {}\n  ports:\n"
    kept = ZONES + "\n" + trusted.format("192.0.2.0/24")
    ran = ZONES + "\n" + trusted.format("192.0.2.0/24 10.88.0.0/16")
    machine.told["firewall-cmd --list-all-zones"] = ran
    machine.told["firewall-cmd --permanent --list-all-zones"] = kept
    machine.table = kernel()
    firewall(machine).present()
    again = "firewall-cmd --zone=trusted --add-source=10.88.0.0/16"
    calls = machine.calls
    assert calls.index("firewall-cmd --reload") < calls.index(again)
    journal = engine.read_json(engine.folder("peer_firewall") + "/journal.json")
    assert f"{again} || true" in journal["commands"]
    # without its table firewalld is restarted; nobody plays the unit that would put things back
    engine.disarm(machine.run, "peer_firewall", "run")
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    machine.calls.clear()
    machine.fails = "--add-source"
    machine.table = []
    assert "[PF-117] 10.88.0.0/16, which another program had added to zone trusted" in refused(
        machine
    )


SAVED = """*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -j NETAVARK-HOSTPORT-MASQ
-A POSTROUTING -s 10.89.7.0/24 -j NETAVARK-500DD4BB96F67
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
COMMIT
"""
IN_NFTABLES = """table inet netavark {
  chain POSTROUTING {
    type nat hook postrouting priority srcnat; policy accept;
    meta mark & 0x00002000 == 0x00002000 masquerade
    ip saddr 10.88.0.0/16 jump nv_2f259bab_10_88_0_0_nm16
    ip6 saddr fd7a:1::/64 jump nv_2f259bab_fd7a:1::_nm64
  }
}
"""


@pytest.mark.parametrize(
    ("saved", "nft", "networks"),
    [(SAVED, "", ["10.89.7.0/24"]), ("", IN_NFTABLES, ["10.88.0.0/16", "fd7a:1::/64"])],
)
def test_the_first_start_leaves_containers_their_way_out(
    machine: Machine, saved: str, nft: str, networks: list[str]
) -> None:
    """Containers that started before firewalld are put where netavark puts those that start after it."""
    machine.answers["iptables-save"] = saved
    run = machine.run
    asked = ["nft", "list", "chain", "inet", "netavark", "POSTROUTING"]
    machine.run = lambda argv: (  # type: ignore[method-assign]
        (0 if nft else 1, nft) if argv == asked else run(argv)
    )
    firewall(machine).present()
    calls = [call for call in machine.calls if "start firewalld" in call or "add-source" in call]
    again = [f"firewall-cmd --zone=trusted --add-source={one}" for one in networks]
    assert calls == ["systemctl start firewalld.service", *again]


BAN = 'rule family="ipv4" source address="203.0.113.7" port port="ssh" protocol="tcp" reject'


def test_bans_outlive_a_reload_and_its_rollback(machine: Machine) -> None:
    """EL's fail2ban writes them as rich rules, at runtime only."""
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.told["firewall-cmd --list-all-zones"] = f"{ZONES}\t{BAN}\n"
    machine.table = kernel()
    firewall(machine).present()
    calls = machine.calls
    again = f"firewall-cmd --zone=public --add-rich-rule={BAN}"
    assert calls.index("firewall-cmd --reload") < calls.index(again)
    journal = engine.read_json(engine.folder("peer_firewall") + "/journal.json")
    assert f"firewall-cmd --zone=public '--add-rich-rule={BAN}' || true" in journal["commands"]


@pytest.mark.parametrize(
    "rule",
    [
        'rule family="ipv4" source address="192.0.2.7" accept',
        'rule family="ipv4" source address="192.0.2.7" log prefix="a drop " level="info"',
        'rule family="ipv4" source address="192.0.2.7" log prefix=" drop" accept',
        'rule family="ipv4" source address="192.0.2.7" mark set="7"',
    ],
)
def test_a_door_that_is_open_at_runtime_only_is_not_opened_for_good(
    machine: Machine, rule: str
) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.told["firewall-cmd --list-all-zones"] = f"{ZONES}\t{BAN}\n\t{rule}\n"
    assert "[PF-114]" in refused(machine)


def test_a_source_that_others_took_away_at_runtime_stops_a_reload(machine: Machine) -> None:
    kept = ZONES.replace("  sources:\n", "  sources: 192.0.2.0/24\n")
    assert firewalld_others.find_unsaved_settings(ZONES, kept, "fullmesh") == [
        "zone public, sources: none"
    ]
    assert firewalld_others.find_unsaved_settings(kept, ZONES, "fullmesh") == []
    assert firewalld_others.find_runtime_additions(kept, ZONES, "fullmesh") == [
        ("public", "source", "192.0.2.0/24")
    ]
    assert firewalld_others.find_runtime_additions(kept, ZONES, "public") == []


@pytest.mark.parametrize("flush", ["yes", "no"])
@pytest.mark.parametrize(
    ("line", "text", "kept"),
    [
        ("--list-all-zones", BOUND.format("drop"), True),
        ("--list-all-policies", POLICIES.format("http", ""), False),
        ("--direct --get-all-rules", "ipv4 filter INPUT 0 -j DROP", True),
    ],
)
def test_everything_that_a_reload_would_drop_stops_it_and_an_undo_only_says_so(
    machine: Machine, line: str, text: str, kept: bool, flush: str
) -> None:
    """With FlushAllOnReload=no firewalld keeps some of it by itself."""
    put(machine.root, "/etc/firewalld/firewalld.conf", f"FlushAllOnReload={flush}\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = kernel()
    machine.told[f"firewall-cmd {line}"] = text
    machine.told[f"firewall-cmd --permanent {line}"] = (
        text.replace("eth0", "").replace("http", "").replace("ipv4 filter INPUT 0 -j DROP", "")
    )
    lost = flush == "yes" or not kept
    if lost:
        assert "[PF-114]" in refused(machine)
        assert ours(machine) == []
    run = firewall(machine, state="reloaded")
    assert run.reloaded()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-208"] * lost
    assert machine.commands().count("firewall-cmd --reload") == 1


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        ("--check-config", "PF-116"),
        ("start firewalld", "PF-117"),
        ("firewall-cmd --state", "PF-117"),
        ("systemd-run", "PF-119"),
    ],
)
def test_each_failing_step_has_its_code(
    machine: Machine, fails: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    machine.fails = fails
    assert f"[{code}]" in refused(machine)


# As the virtual machines of tests/vm write them, where firewalld's domain is permissive.
READ = (
    'AVC avc:  denied  { search } for  pid=239 comm="firewalld" name="root" dev="vda" ino=767 scontext='
    "system_u:system_r:firewalld_t:s0 tcontext=unconfined_u:object_r:user_home_dir_t:s0 tclass=dir permissive=1"
)
SEND = (
    "USER_AVC pid=214 uid=100 auid=4294967295 ses=4294967295 subj=system_u:system_r:system_dbusd_t:s0 "
    "msg='avc:  denied  { send_msg } for msgtype=method_return dest=:1.51 spid=239 tpid=665 "
    "scontext=system_u:system_r:firewalld_t:s0 tcontext=unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023 "
    "tclass=dbus permissive=1"
)
AUDIT = 'type=AVC msg=audit({}.497:9): avc:  denied  {{ write }} for  pid=239 comm="firewalld" '
AUDIT += "scontext=system_u:system_r:firewalld_t:s0 tcontext=system_u:object_r:lib_t:s0 tclass=file permissive=0"
OTHER = "AVC avc:  denied  { read } for  pid=9 scontext=u:r:chronyd_t:s0 tcontext=u:object_r:etc_t:s0 tclass=file"
DENIED = {
    READ.replace("=1", "=0"): "firewalld_t may not search a dir of user_home_dir_t",
    SEND.replace(
        "permissive=1", "permissive=0"
    ): "firewalld_t may not send_msg a dbus of unconfined_t",
    READ: "",
    SEND: "",
    OTHER: "",
    "something else": "",
}


def enforcing(machine: Machine, word: str = "1\n") -> None:
    put(machine.root, denials.ENFORCE, word)


@pytest.mark.parametrize(("line", "words"), DENIED.items())
def test_denials_of_firewalld_are_told_and_no_others(
    machine: Machine, line: str, words: str
) -> None:
    def run(argv: list[str]) -> tuple[int, str]:
        assert argv[0] != "journalctl" or "--since=@1000" in argv
        return (0, f"{line}\n{line}\n") if argv[0] == "journalctl" else (127, "")

    enforcing(machine)
    wanted = [words] if words else []
    assert denials.list_denials("firewalld", run, 1000.4, str(machine.root)) == wanted
    enforcing(machine, "0\n")
    assert denials.list_denials("firewalld", run, 1000.4, str(machine.root)) == []


def test_the_audit_log_is_asked_for_what_is_new(machine: Machine) -> None:
    def run(argv: list[str]) -> tuple[int, str]:
        both = AUDIT.format(999) + "\n" + AUDIT.format(1000).replace("write", "read")
        return (0, both) if argv[0] == "ausearch" else (0, "")

    enforcing(machine)
    found = denials.list_denials("firewalld", run, 1000.4, str(machine.root))
    assert found == ["firewalld_t may not read a file of lib_t"]


@pytest.mark.parametrize("guilty", [True, False])
def test_selinux_is_named_where_it_keeps_firewalld_from_starting(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, guilty: bool
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    enforcing(machine)
    machine.fails = "start firewalld"
    run = machine.run

    def audited(argv: list[str]) -> tuple[int, str]:
        line = AUDIT.format(4102444800) if guilty else OTHER
        return (0, line) if argv[0] == "ausearch" else run(argv)

    machine.run = audited  # type: ignore[method-assign]
    said = refused(machine)
    assert "[PF-117]" in said
    wanted = "SELinux blocks it: firewalld_t may not write a file of lib_t. Fix: label its files"
    assert (wanted in said) is guilty
    assert ("journalctl -u firewalld" in said) is not guilty


def test_rules_that_are_not_there_are_an_error_and_everything_goes_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    run = machine.run

    def forgetful(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        machine.table = without("29500")
        return rc, out

    machine.run = forgetful  # type: ignore[method-assign]
    assert "[PF-118]" in refused(machine)
    assert undone == ["peer_firewall"]


def test_off_says_so_and_names_ufw(machine: Machine) -> None:
    put(machine.root, "/etc/ufw/ufw.conf", "ENABLED=yes\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = firewall(machine, state="off")
    assert run.off()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-201", "PF-202"]
    assert f"{STOPPED}\nsystemctl disable firewalld.service" in machine.commands()


# --- the rollback ---------------------------------------------------------------------------------


def test_a_confirmed_change_stays(machine: Machine) -> None:
    firewall(machine).present()
    assert firewall(machine).confirmed()["rollback"] == "disarmed"
    assert len(ours(machine)) == 5


def test_a_connection_from_before_the_change_confirms_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Established connections pass by the new rules; only one that they let in proves that there is a way in."""
    with socket.create_server(("127.0.0.1", 0)) as sshd:

        def login() -> socket.socket:
            client = socket.create_connection(sshd.getsockname())
            ends = [*client.getsockname(), *sshd.getsockname()]
            words = [str(word) for word in ends]
            monkeypatch.setattr(session, "find_ssh_session", lambda environ, pid: words)
            return client

        with login():
            firewall(machine).present()
            with pytest.raises(firewall_peers.FirewallRefusedError, match="older than the change"):
                firewall(machine).confirmed()
            assert engine.state_of(engine.folder("peer_firewall")) == "armed"
            engine.restore_transaction(engine.folder("peer_firewall"), "nobody came back")
            with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
                firewall(machine).confirmed()
            firewall(machine).present()
        with login():
            assert firewall(machine).confirmed()["rollback"] == "disarmed"


def test_too_late_is_said(machine: Machine) -> None:
    firewall(machine).present()
    put(Path(engine.STORE), "/peer_firewall/fired", "")
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
        firewall(machine).confirmed()
