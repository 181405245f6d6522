"""The peers' firewall: openings and claims of foreign configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld_others,
)
from firewall_machine import BOUND, PEERS, POLICIES, ZONES, write_file


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
def test_openings_of_a_zone_are_read(root: Path, zone: str, port: int, open_: bool) -> None:
    assert firewalld_others.is_allowed_by_zone(str(root), zone, port) is open_


def test_file_in_etc_replaces_the_packaged_one(root: Path) -> None:
    write_file(root, "/etc/firewalld/zones/public.xml", "<zone/>")
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
def test_zone_that_claims_a_peer_is_reported(root: Path, source: str, claimed: bool) -> None:
    write_file(root, "/etc/firewalld/ipsets/office.xml", "<ipset><entry>10.0.0.11</entry></ipset>")
    write_file(root, "/etc/firewalld/zones/work.xml", f"<zone>{source}</zone>")
    found = firewalld_others.find_claiming_zones(str(root), "fullmesh", PEERS)
    assert bool(found) is claimed
    assert all("zone work" in text for text in found)


def test_runtime_only_entries_are_reported() -> None:
    saved = ZONES.replace("eth0", "")
    assert firewalld_others.find_unsaved_settings(ZONES, saved, "fullmesh") == []
    runtime = ZONES.replace("  ports:\n", "  ports: 8443/tcp\n")
    assert firewalld_others.find_unsaved_settings(runtime, saved, "fullmesh") == [
        "zone public, ports: 8443/tcp"
    ]
    assert firewalld_others.find_unsaved_settings(runtime, saved, "public") == []


@pytest.mark.parametrize(
    ("zone", "permanent", "nmcli", "reported"),
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
def test_runtime_only_interface_is_reported(
    zone: str, permanent: str, nmcli: str, reported: bool
) -> None:
    """networkd and ifupdown do not know zones: a user called ``firewall-cmd --change-interface``."""

    def run(argv: list[str]) -> tuple[int, str]:
        if not nmcli:
            return 10, "Error: NetworkManager is not running."
        return 0, "profile\n" if "device" in argv else nmcli + "\n"

    text = BOUND.format(zone)
    found = firewalld_others.find_unbound_interfaces(
        run, text, text.replace("eth0", permanent), ["fullmesh", "public"]
    )
    assert found == ["zone work, interfaces: eth0"] * reported


def test_only_foreign_policies_are_compared() -> None:
    runtime, saved = POLICIES.format("http", "http"), POLICIES.format("", "")
    found = firewalld_others.find_unsaved_settings(runtime, saved, "fullmesh", "policy")
    assert found == ["policy allow-host-ipv6, services: http"]


def test_foreign_entries_and_direct_rules_are_compared() -> None:
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
