"""Network backends: the files that they write."""

from __future__ import annotations

import configparser
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network import owner as network_owner
from ansible.module_utils.fullmesh.network.backends import (
    common,
    ifupdown,
    netplan,
    networkd,
    networkmanager,
)
from backend_links import BARE, BOND, EVERY, MAC, OVER, Machine, pairs, read_recording
from hypothesis import given
from hypothesis import strategies as st
from network_samples import Link, link

FULL = link(
    mac=MAC,
    addresses=["10.0.0.11/24", "10.0.1.11/24", "fd00::11/64", "fd01::11/64", "fd02::11/64"],
    gateway="10.0.0.1",
    dns=["10.0.0.53", "fd00::53"],
    search=["lab.example", "b.example"],
    mtu=9000,
    routes=[{"to": "10.9.0.0/16", "via": "10.0.0.2"}, {"to": "fd09::/48", "via": "fd00::2"}],
)


BACKUP = link(
    interface="bond1",
    addresses=["10.2.0.11/24"],
    bond={"mode": "active-backup", "members": ["eth4", "eth5"], "miimon": 100, "primary": "eth5"},
)


ALL = [OVER, FULL, BOND, BARE, BACKUP]


def test_networkd_of_a_full_link() -> None:
    files = networkd.build_files([FULL])
    assert list(files) == ["/etc/systemd/network/00-fullmesh-eth1.network"]
    assert pairs(next(iter(files.values()))) == [
        ("Match.MACAddress", MAC),
        ("Match.Type", "ether"),
        ("Link.MTUBytes", "9000"),
        ("Link.RequiredForOnline", "no"),
        ("Network.DHCP", "no"),
        ("Network.LinkLocalAddressing", "ipv6"),
        ("Network.IPv6AcceptRA", "no"),
        *(("Network.Address", one) for one in FULL["addresses"]),
        ("Network.Gateway", "10.0.0.1"),
        ("Network.DNS", "10.0.0.53"),
        ("Network.DNS", "fd00::53"),
        ("Network.Domains", "lab.example b.example"),
        ("Route.Destination", "10.9.0.0/16"),
        ("Route.Gateway", "10.0.0.2"),
        ("Route.Destination", "fd09::/48"),
        ("Route.Gateway", "fd00::2"),
    ]


def test_networkd_of_a_vlan_over_a_bond() -> None:
    files = networkd.build_files([OVER, BOND])
    base = "/etc/systemd/network/00-fullmesh-"
    assert set(files) == {
        base + name
        for name in (
            "bond0.netdev",
            "bond0.network",
            "bond0.100.netdev",
            "bond0.100.network",
            "eth2.network",
            "eth3.network",
        )
    }
    assert pairs(files[base + "bond0.netdev"]) == [
        ("NetDev.Name", "bond0"),
        ("NetDev.Kind", "bond"),
        ("Bond.Mode", "802.3ad"),
        ("Bond.MIIMonitorSec", "100ms"),
        ("Bond.LACPTransmitRate", "fast"),
        ("Bond.TransmitHashPolicy", "layer3+4"),
    ]
    assert ("VLAN.Id", "100") in pairs(files[base + "bond0.100.netdev"])
    assert ("Network.VLAN", "bond0.100") in pairs(files[base + "bond0.network"])
    assert ("Network.Bond", "bond0") in pairs(files[base + "eth2.network"])


def test_networkd_marks_the_primary() -> None:
    files = networkd.build_files([BACKUP])
    assert "PrimarySlave=yes" in files["/etc/systemd/network/00-fullmesh-eth5.network"]
    assert "PrimarySlave" not in files["/etc/systemd/network/00-fullmesh-eth4.network"]


def test_ifupdown_of_a_full_link() -> None:
    content = ifupdown.build_files([FULL])["/etc/network/interfaces.d/fullmesh"]
    body = content.split("\n\n", 1)[1]
    assert [line for line in body.splitlines() if line and line[0] != " "] == [
        "auto eth1",
        "iface eth1 inet static",
        "iface eth1 inet static",
        "iface eth1 inet6 static",
        "iface eth1 inet6 static",
        "iface eth1 inet6 static",
    ]
    assert body.count("    gateway 10.0.0.1\n") == 1
    assert body.index("gateway") < body.index("10.0.1.11")
    for part in (
        *(f"    address {one}\n" for one in FULL["addresses"]),
        f"pre-up grep -qix {MAC} /sys/class/net/eth1/address",
        "pre-up ip link set eth1 mtu 9000",
        "dns-nameservers 10.0.0.53 fd00::53",
        "dns-search lab.example b.example",
        "up ip route replace 10.9.0.0/16 via 10.0.0.2 dev eth1",
        "up ip route replace fd09::/48 via fd00::2 dev eth1",
    ):
        assert part in body


def test_ifupdown_creates_the_bond_before_its_vlan() -> None:
    body = ifupdown.build_files([OVER, BOND])["/etc/network/interfaces.d/fullmesh"]
    assert body.index("auto bond0\n") < body.index("auto bond0.100\n")
    assert "type bond mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer3+4" in body
    assert "ip link set eth2 down; ip link set eth2 master bond0" in body
    assert "ip link add link bond0 name bond0.100 type vlan id 100" in body
    assert body.count("post-down ip link delete") == 2


def test_netplan_of_all_kinds() -> None:
    network = yaml.safe_load(netplan.build_files(ALL)[netplan.PATH])["network"]
    assert network["bonds"]["bond0"]["interfaces"] == ["eth2", "eth3"]
    assert network["bonds"]["bond0"]["parameters"] == {
        "mode": "802.3ad",
        "mii-monitor-interval": "100",
        "lacp-rate": "fast",
        "transmit-hash-policy": "layer3+4",
    }
    assert "addresses" not in network["bonds"]["bond0"]
    assert network["bonds"]["bond1"]["parameters"]["primary"] == "eth5"
    vlan = network["vlans"]["bond0.100"]
    assert (vlan["id"], vlan["link"], vlan["addresses"]) == (100, "bond0", OVER["addresses"])
    assert vlan["routes"] == [{"to": "::/0", "via": "fd03::1"}]
    # a foreign parent interface is named, and not configured
    assert network["ethernets"]["eth0"] == {}
    assert network["ethernets"]["eth2"]["link-local"] == []


def keyfiles(links: list[Link]) -> dict[str, configparser.ConfigParser]:
    result = {}
    for path, content in networkmanager.build_files(links).items():
        parser = configparser.ConfigParser()
        parser.read_string(content)
        result[path.rsplit("fullmesh-", 1)[1].removesuffix(".nmconnection")] = parser
    return result


def test_networkmanager_of_all_kinds() -> None:
    files = keyfiles(ALL)
    assert dict(files["bond0"]["bond"]) == {
        "mode": "802.3ad",
        "miimon": "100",
        "lacp_rate": "fast",
        "xmit_hash_policy": "layer3+4",
    }
    assert files["bond0"]["connection"]["autoconnect-slaves"] == "1"
    assert files["bond0"]["ethernet"]["mtu"] == "9000"
    assert files["bond0"]["ipv4"]["method"] == "disabled"
    head = files["eth3"]["connection"]
    assert (head["master"], head["slave-type"], head["type"]) == ("bond0", "bond", "ethernet")
    assert files["eth3"].sections() == ["connection"]
    assert dict(files["vlan7"]["vlan"]) == {"id": "7", "parent": "eth0", "flags": "1"}
    assert "eth0" not in files
    uuids = {one["connection"]["uuid"] for one in files.values()}
    assert len(uuids) == len(files)


def test_networkmanager_numbers_addresses_and_routes_as_its_manual_does() -> None:
    """nm-settings-keyfile(5): address1, address2, route1. The file is compared as a whole."""
    one = link(
        mac="02:00:00:00:00:0a",
        addresses=["192.0.2.1/24", "192.0.2.2/24"],
        gateway="192.0.2.254",
        dns=["192.0.2.53"],
        search=["lab.test"],
        mtu=9000,
        routes=[
            {"to": "198.51.100.0/24", "via": "192.0.2.253"},
            {"to": "203.0.113.0/24", "via": "192.0.2.253"},
        ],
    )
    (text,) = networkmanager.build_files([one]).values()
    assert text.split("\n\n")[1:] == [
        "[ethernet]\nmac-address=02:00:00:00:00:0A\nmtu=9000",
        "[ipv4]\nmethod=manual\nmay-fail=false\naddress1=192.0.2.1/24\naddress2=192.0.2.2/24\n"
        "gateway=192.0.2.254\ndns=192.0.2.53;\ndns-search=lab.test;\n"
        "route1=198.51.100.0/24,192.0.2.253\nroute2=203.0.113.0/24,192.0.2.253",
        "[ipv6]\nmethod=link-local\n",
    ]


@given(st.lists(st.ip_addresses(), min_size=1, max_size=6, unique=True), st.booleans())
def test_every_backend_carries_every_address(found: list[Any], tagged: bool) -> None:
    written = [f"{one}/{32 if one.version == 4 else 128}" for one in found]
    vlan = {"id": 5, "parent": "eth1"} if tagged else {}
    one = link(interface="eth1.5" if tagged else "eth1", addresses=written, vlan=vlan)
    for name in EVERY:
        content = "".join(network_owner.get_backend(name).build_files([one]).values())
        for value in written:
            assert value in content


@pytest.mark.parametrize("name", EVERY)
def test_the_same_links_always_give_the_same_files(name: str) -> None:
    backend = network_owner.get_backend(name)
    files = backend.build_files(ALL)
    assert files == backend.build_files(ALL)
    machine = Machine(files)
    assert network_owner.read_own_files(machine.read, machine.listed) == files
    assert all(content.startswith(common.HEAD) for content in files.values())
    assert all(backend.get_file_mode(path) in (0o600, 0o644) for path in files)
    assert backend.build_files([]) == {}


def test_a_foreign_file_next_to_our_own_is_kept() -> None:
    machine = Machine(
        {"/etc/sysconfig/network-scripts/ifcfg-ens33": read_recording("ifcfg-ens33-el7")}
    )
    assert network_owner.read_own_files(machine.read, machine.listed) == {}
