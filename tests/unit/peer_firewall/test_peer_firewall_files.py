"""The peers' firewall: the zone, policies and sets that it writes."""

from __future__ import annotations

from ipaddress import ip_network
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ansible.module_utils.fullmesh.firewall import (
    firewalld_files,
)
from firewall_machine import JOB_FILE, ZONE_FILE, render_files
from hypothesis import given
from hypothesis import strategies as st


def parse_job_policy(**settings: Any) -> list[tuple[str, str]]:
    """Return (source, port) of every rule of the peers' policy."""
    policy = ElementTree.fromstring(render_files(**settings)[JOB_FILE])  # noqa: S314 (ours)
    assert (policy.get("target"), policy.get("priority")) == ("CONTINUE", "-19000")
    found = []
    for one in policy.findall("rule"):
        source, port = one.find("source"), one.find("port")
        assert source is not None
        assert one.find("accept") is not None
        opened = [] if port is None else [port.get("port"), port.get("protocol")]
        found.append((str(source.get("ipset")), "/".join(map(str, opened))))
    return found


def test_policy_opens_exact_ports_to_peers_only() -> None:
    ports = ["22/tcp", "29500/tcp", "50000-54095/tcp"]
    expected = [(f"fullmesh-peers{family}", port) for family in "46" for port in ports]
    assert parse_job_policy() == expected
    assert ZONE_FILE not in render_files()


def test_peers_only_binds_peers_to_a_zone_without_openings() -> None:
    zone = ElementTree.fromstring(render_files(mode="peers_only")[ZONE_FILE])  # noqa: S314 (ours)
    assert zone.get("target") is None  # the default: reject the rest, accept ICMP
    assert [tag.get("ipset") for tag in zone.findall("source")] == [
        "fullmesh-peers4",
        "fullmesh-peers6",
    ]
    assert {tag.tag for tag in zone} == {"short", "description", "source"}
    assert parse_job_policy(mode="peers_only") == parse_job_policy()


def test_peers_trusted_accepts_everything_from_the_same_sources() -> None:
    assert parse_job_policy(mode="peers_trusted") == [
        ("fullmesh-peers4", ""),
        ("fullmesh-peers6", ""),
    ]
    assert ZONE_FILE not in render_files(mode="peers_trusted")


def test_controllers_get_ssh_without_removing_other_access() -> None:
    text = render_files(ssh_ports=[2222, 22])["/etc/firewalld/policies/fullmesh-ssh.xml"]
    policy = ElementTree.fromstring(text)  # noqa: S314 (ours)
    assert policy.get("target") == "CONTINUE"
    assert int(str(policy.get("priority"))) < -15000
    rules = policy.findall("rule")
    assert [str(rule.find("port").get("port")) for rule in rules] == ["22", "2222"]  # type: ignore[union-attr]
    assert all(rule.find("source").get("ipset") == "fullmesh-controllers4" for rule in rules)  # type: ignore[union-attr]


ALL_FILE = "/etc/firewalld/policies/fullmesh-all.xml"


def test_services_are_open_to_their_allowed_clients() -> None:
    files = render_files(controller_ports=["8443/tcp"], public_ports=["8000/tcp", "9000-9010/udp"])
    ssh = ElementTree.fromstring(files["/etc/firewalld/policies/fullmesh-ssh.xml"])  # noqa: S314 (ours)
    ssh_ports = [rule.find("port").get("port") for rule in ssh.findall("rule")]  # type: ignore[union-attr]
    assert ssh_ports == ["22", "8443"]
    public = ElementTree.fromstring(files[ALL_FILE])  # noqa: S314 (ours)
    assert public.get("target") == "CONTINUE"
    assert int(str(public.get("priority"))) < 0  # before the zone that binds peers in peers_only
    assert [(one.get("port"), one.get("protocol")) for one in public.findall("port")] == [
        ("8000", "tcp"),
        ("9000-9010", "udp"),
    ]
    assert ALL_FILE not in render_files()


def test_the_tunnel_port_is_open_to_the_addresses_of_the_links_only() -> None:
    files = render_files(tunnel_peers=["192.0.2.11", "192.0.2.12"], tunnel_ports=["29820/udp"])
    policy = ElementTree.fromstring(files["/etc/firewalld/policies/fullmesh-tun.xml"])  # noqa: S314 (ours)
    (rule,) = policy.findall("rule")
    assert rule.find("source").get("ipset") == "fullmesh-tunnel4"  # type: ignore[union-attr]
    port = rule.find("port")
    assert port is not None
    assert (port.get("port"), port.get("protocol")) == ("29820", "udp")
    held = files["/etc/firewalld/ipsets/fullmesh-tunnel4.xml"]
    assert "192.0.2.11" in held
    assert "10.0.0.11" not in held
    assert not [path for path in render_files() if "tun" in path]


def test_families_without_addresses_have_no_files() -> None:
    names = {Path(path).name for path in render_files(peers=["10.0.0.1"])}
    assert names == {
        "fullmesh-job.xml",
        "fullmesh-ssh.xml",
        "fullmesh-peers4.xml",
        "fullmesh-controllers4.xml",
    }


def test_names_fit_the_limits_of_firewalld() -> None:
    for path in firewalld_files.map_own_paths("x" * 13).values():
        limit = 31 if "/ipsets/" in path else 17  # firewalld: max_zone_name_len, IPSET_MAXNAMELEN
        assert len(Path(path).stem) <= limit


def test_addresses_are_sorted_and_normalized() -> None:
    found = firewalld_files.group_by_family(
        ["10.0.0.12", "::ffff:10.0.0.11", "fe80::1%eth0", "127.0.0.1", "10.0.0.12"]
    )
    assert found == {"4": ["10.0.0.11", "10.0.0.12"], "6": ["fe80::1"]}


def test_addresses_of_another_network_are_skipped() -> None:
    found = firewalld_files.group_by_family(
        ["10.9.1.1", "10.9.0.0/16", "10.9.2.0/24", "198.51.100.7", "fd00:9::/32"]
    )
    assert found == {"4": ["10.9.0.0/16", "198.51.100.7"], "6": ["fd00:9::/32"]}


def test_set_has_intervals_only_if_it_contains_a_network() -> None:
    files = render_files(controllers=["10.9.0.0/16", "fd00::7"])
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
def test_set_covers_its_input_without_overlaps(networks: list[str]) -> None:
    inputs = [ip_network(one) for one in networks]
    sets = [
        ip_network(one)
        for family in firewalld_files.group_by_family(networks).values()
        for one in family
    ]
    assert not any(one.overlaps(other) for one, other in combinations(sets, 2))
    for one in inputs:
        mapped = one.version == 6 and one.num_addresses == 1 and one.network_address.ipv4_mapped
        inside = ip_network(mapped) if mapped else one
        same = [other for other in sets if other.version == inside.version]
        assert inside.is_loopback or any(inside.subnet_of(other) for other in same)  # type: ignore[arg-type]


@given(st.lists(st.ip_addresses().map(str), min_size=1, max_size=8))
def test_rendered_files_are_well_formed(addresses: list[str]) -> None:
    for text in render_files(peers=addresses, controllers=addresses).values():
        ElementTree.fromstring(text)  # noqa: S314 (ours)
        assert "<protocol" not in text
        assert firewalld_files.MARK in text
