"""static_ip: files, and missing kernel state."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network import static_ip as network_static_ip
from ansible.module_utils.fullmesh.network.backends import netplan, networkmanager
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from hypothesis import given
from hypothesis import strategies as st
from network_samples import Link, link
from static_ip_node import FULL, OURS, kernel, parsed_keyfile


def test_keyfile_of_a_full_link() -> None:
    file = parsed_keyfile(FULL)
    assert file["ethernet"] == {"mac-address": "02:00:00:00:00:0A", "mtu": "9000"}
    assert file["ipv4"] == {
        "method": "manual",
        "may-fail": "false",
        "address1": "10.0.0.11/24",
        "gateway": "10.0.0.1",
        "dns": "10.0.0.53;",
        "dns-search": "lab.example;",
        "route1": "10.9.0.0/16,10.0.0.2",
    }
    assert file["ipv6"]["route1"] == "fd09::/48,fd00::2"
    assert file["ipv6"]["never-default"] == "true"


def test_a_plain_keyfile_keeps_default_route_and_ipv6() -> None:
    file = parsed_keyfile(link())
    assert file["ipv4"]["never-default"] == "true"
    assert file["ipv6"] == {"method": "link-local"}
    assert "ethernet" not in file


def test_a_profile_keeps_its_uuid() -> None:
    assert parsed_keyfile(link())["connection"]["uuid"] == networkmanager.build_profile_uuid("eth1")
    assert networkmanager.build_profile_uuid("eth1") != networkmanager.build_profile_uuid("eth2")


def test_netplan_of_a_full_link() -> None:
    assert yaml.safe_load(netplan.render_netplan([FULL]))["network"]["ethernets"]["eth1"] == {
        "match": {"macaddress": "02:00:00:00:00:0a"},
        "optional": True,
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "link-local": ["ipv6"],
        "addresses": ["10.0.0.11/24", "fd00::11/64"],
        "mtu": 9000,
        "nameservers": {"addresses": ["10.0.0.53", "fd00::53"], "search": ["lab.example"]},
        "routes": [
            {"to": "0.0.0.0/0", "via": "10.0.0.1"},
            {"to": "10.9.0.0/16", "via": "10.0.0.2"},
            {"to": "fd09::/48", "via": "fd00::2"},
        ],
    }


def test_netplan_has_all_links_in_one_file() -> None:
    file = yaml.safe_load(netplan.render_netplan([link(), link(interface="eth2")]))
    assert list(file["network"]["ethernets"]) == ["eth1", "eth2"]


@given(st.lists(st.ip_addresses(), min_size=1, max_size=5, unique=True))
def test_both_backends_carry_every_address(addresses: list[Any]) -> None:
    written = [f"{one}/{32 if one.version == 4 else 128}" for one in addresses]
    one = link(addresses=written)
    keyfile = parsed_keyfile(one)
    values = [v for f in ("ipv4", "ipv6") for k, v in keyfile[f].items() if k.startswith("address")]
    assert sorted(values) == sorted(written)
    assert (
        yaml.safe_load(netplan.render_netplan([one]))["network"]["ethernets"]["eth1"]["addresses"]
        == written
    )


@pytest.mark.parametrize(
    ("wanted", "seen", "word"),
    [
        (link(), kernel(OURS), None),
        (link(), kernel(), "has no address"),
        (link(), kernel({"local": "10.0.0.99"}), "it has 10.0.0.99/24"),
        (link(), kernel({**OURS, "prefixlen": 16}), "it has 10.0.0.11/16"),
        (link(), kernel({**OURS, "tentative": True}), "still being checked"),
        (link(), kernel({**OURS, "tentative": True, "dadfailed": True}), "another host"),
        (link(), kernel({**OURS, "dynamic": True}), "lease"),
        (link(mtu=9000), kernel(OURS), "MTU of eth1 is 1500, not 9000"),
        (link(mtu=9000), kernel(OURS, mtu=9000), None),
        (link(gateway="10.0.0.1"), kernel(OURS), "no route to 0.0.0.0/0 via 10.0.0.1"),
        (link(), kernel(OURS, name="eth2"), "has no address"),
    ],
)
def test_missing_kernel_state(wanted: Link, seen: dict[str, Any], word: str | None) -> None:
    faults = network_static_ip.find_link_faults(wanted, ip_tool.parse_links(json.dumps([seen])), [])
    assert faults == [] if word is None else word in faults[0]


@pytest.mark.parametrize(
    ("route", "via"),
    [
        ({"dst": "default", "gateway": "10.0.0.1", "dev": "eth1"}, "10.0.0.1"),
        ({"dst": "default", "gateway": "fd00::1", "dev": "eth1"}, "fd00::1"),
    ],
)
def test_the_default_route_is_recognised(route: dict[str, str], via: str) -> None:
    routes = network_static_ip.parse_routes(json.dumps([route]))
    seen = ip_tool.parse_links(json.dumps([kernel(OURS)]))
    assert network_static_ip.find_link_faults(link(gateway=via), seen, routes) == []
