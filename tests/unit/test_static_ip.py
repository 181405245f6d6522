"""static_ip: what is written for each owner of an interface, what is refused, what is read back."""

from __future__ import annotations

import configparser
import ipaddress
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fullmesh_static_ip as text
import pytest
import static_ip_links as module
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fullmesh import static_ip

Link = dict[str, Any]


def link(**more: Any) -> Link:
    plain: Link = {
        "interface": "eth1",
        "mac": "",
        "addresses": ["10.0.0.11/24"],
        "gateway": "",
        "dns": [],
        "search": [],
        "mtu": 0,
        "routes": [],
    }
    return plain | more


FULL = link(
    mac="02:00:00:00:00:0a",
    addresses=["10.0.0.11/24", "fd00::11/64"],
    gateway="10.0.0.1",
    dns=["10.0.0.53", "fd00::53"],
    search=["lab.example"],
    mtu=9000,
    routes=[{"to": "10.9.0.0/16", "via": "10.0.0.2"}, {"to": "fd09::/48", "via": "fd00::2"}],
)


def parsed_keyfile(one: Link) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser()
    parser.read_string(text.keyfile(one))
    return {name: dict(parser[name]) for name in parser.sections()}


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


def test_keyfile_of_a_plain_link_leaves_the_default_route_and_ipv6_alone() -> None:
    file = parsed_keyfile(link())
    assert file["ipv4"]["never-default"] == "true"
    assert file["ipv6"] == {"method": "link-local"}
    assert "ethernet" not in file


def test_a_profile_keeps_its_uuid() -> None:
    assert parsed_keyfile(link())["connection"]["uuid"] == text.profile_uuid("eth1")
    assert text.profile_uuid("eth1") != text.profile_uuid("eth2")


def test_netplan_of_a_full_link() -> None:
    assert yaml.safe_load(text.netplan([FULL]))["network"]["ethernets"]["eth1"] == {
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
    file = yaml.safe_load(text.netplan([link(), link(interface="eth2")]))
    assert list(file["network"]["ethernets"]) == ["eth1", "eth2"]


@given(st.lists(st.ip_addresses(), min_size=1, max_size=5, unique=True))
def test_both_backends_carry_every_address(addresses: list[Any]) -> None:
    written = [f"{one}/{32 if one.version == 4 else 128}" for one in addresses]
    one = link(addresses=written)
    keyfile = parsed_keyfile(one)
    values = [v for f in ("ipv4", "ipv6") for k, v in keyfile[f].items() if k.startswith("address")]
    assert sorted(values) == sorted(written)
    assert (
        yaml.safe_load(text.netplan([one]))["network"]["ethernets"]["eth1"]["addresses"] == written
    )
    assert {
        str(ipaddress.ip_interface(v)) for v in module.written_addresses([text.keyfile(one)])
    } == {str(ipaddress.ip_interface(v)) for v in written}


# --- what the kernel says ---------------------------------------------------------------------


def kernel(*addresses: dict[str, Any], name: str = "eth1", mtu: int = 1500) -> dict[str, Any]:
    return {
        "ifname": name,
        "address": "02:00:00:00:00:0a",
        "mtu": mtu,
        "flags": ["UP", "LOWER_UP"],
        "addr_info": [{"prefixlen": 24, "scope": "global", **one} for one in addresses],
    }


OURS = {"local": "10.0.0.11"}


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
def test_what_the_kernel_lacks(wanted: Link, seen: dict[str, Any], word: str | None) -> None:
    faults = text.lacks(wanted, text.parse_links(json.dumps([seen])), [])
    assert faults == [] if word is None else word in faults[0]


@pytest.mark.parametrize(
    ("route", "via"),
    [
        ({"dst": "default", "gateway": "10.0.0.1", "dev": "eth1"}, "10.0.0.1"),
        ({"dst": "default", "gateway": "fd00::1", "dev": "eth1"}, "fd00::1"),
    ],
)
def test_the_default_route_is_recognised(route: dict[str, str], via: str) -> None:
    routes = text.parse_routes(json.dumps([route]))
    seen = text.parse_links(json.dumps([kernel(OURS)]))
    assert text.lacks(link(gateway=via), seen, routes) == []


@pytest.mark.parametrize(
    ("connection", "server"),
    [
        ("10.0.0.1 50000 10.0.0.11 22", "10.0.0.11"),
        ("::ffff:10.0.0.1 50000 ::ffff:10.0.0.11 22", "10.0.0.11"),
        ("fe80::1%eth1 50000 fe80::2%eth1 22", "fe80::2"),
        ("", ""),
        ("a b c d", ""),
    ],
)
def test_the_address_that_we_came_in_on(connection: str, server: str) -> None:
    assert text.plain_server(connection) == server


@pytest.mark.parametrize(
    ("server", "addresses", "cut"),
    [
        ("10.0.0.11", ["10.0.0.12/24"], True),
        ("10.0.0.11", ["10.0.0.11/24"], False),
        ("10.0.0.11", ["10.0.0.12/24", "10.0.0.11/16"], False),
        ("192.0.2.1", ["10.0.0.12/24"], False),
        ("", ["10.0.0.12/24"], False),
    ],
)
def test_we_never_cut_ourselves_off(server: str, addresses: list[str], cut: bool) -> None:
    seen = text.parse_links(json.dumps([kernel(OURS)]))
    assert text.cuts_off(link(addresses=addresses), server, seen) is cut


# --- the module -------------------------------------------------------------------------------


class Machine:
    """Stands for ip, nmcli, netplan and networkctl."""

    def __init__(self, root: Path, owner: str) -> None:
        self.root = root
        self.owner = owner
        self.kernel = [kernel()]
        self.asked: list[list[str]] = []
        self.refuses = ""
        self.takes = True
        (root / "sys/class/net/eth1").mkdir(parents=True)
        (root / "sys/class/net/eth1/type").write_text("1\n")
        (root / "sys/class/net/eth1/ifindex").write_text("2\n")
        for directory in ("etc/NetworkManager/system-connections", "etc/netplan"):
            (root / directory).mkdir(parents=True)

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        self.asked.append(command)
        joined = " ".join(command)
        if self.refuses and self.refuses in joined:
            return 1, "", "no"
        if command[:3] == ["ip", "-j", "addr"]:
            return 0, json.dumps(self.kernel), ""
        if "GENERAL.STATE" in joined:
            states = {
                "networkmanager": (0, "30 (disconnected)\n", ""),
                "idle": (0, "10 (unmanaged)", ""),
            }
            return states.get(self.owner, (127, "", "not found"))
        if joined == "netplan info":
            return (0 if self.owner == "netplan" else 127), "", ""
        if self.takes and ("connection up" in joined or "reconfigure" in joined):
            self.kernel = [kernel(OURS)]
        return 0, "", ""

    def ours(self) -> list[str]:
        return sorted(module.present_files(module.Node(self, str(self.root))))

    def call(self, state: str = "present", check: bool = False, **more: Any) -> dict[str, Any]:
        params = {
            "links": [link()],
            "provider": "auto",
            "check_duplicates": False,
            "wait_seconds": 0,
            "original": {},
        }
        node = module.Node(self, str(self.root))
        result: dict[str, Any] = getattr(module.Links(node, params | more, check), state)()
        return result


@pytest.fixture(params=["networkmanager", "netplan"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def test_the_second_run_changes_nothing(machine: Machine) -> None:
    first = machine.call()
    assert (first["changed"], first["providers"]) == (True, {"eth1": machine.owner})
    assert machine.ours() == first["files"]
    assert (machine.root / first["files"][0][1:]).stat().st_mode & 0o777 == 0o600
    assert machine.call()["changed"] is False


def test_check_mode_writes_nothing_and_shows_all(machine: Machine) -> None:
    result = machine.call(check=True)
    assert result["changed"] is True
    assert len(result["diff"]) == 2
    assert machine.ours() == []


def test_an_address_that_went_away_is_put_back(machine: Machine) -> None:
    machine.call()
    machine.kernel = [kernel()]
    result = machine.call()
    assert (result["changed"], result["lacking"]) == (
        True,
        ["10.0.0.11/24 is not on eth1 (it has no address)"],
    )


def test_an_interface_that_is_as_wanted_is_adopted(machine: Machine) -> None:
    machine.kernel = [kernel(OURS)]
    result = machine.call()
    assert result["adopted"] == ["eth1"]
    words = [" ".join(command) for command in machine.asked]
    assert not [word for word in words if "connection up" in word or "reconfigure" in word]


def test_what_is_not_read_back_is_taken_back(machine: Machine) -> None:
    machine.takes = False
    with pytest.raises(module.LinkError, match=r"IP-107.*it has no address"):
        machine.call()
    assert machine.ours() == []


@pytest.mark.parametrize(
    ("owner", "refuses", "code"),
    [
        ("networkmanager", "connection up", "IP-108"),
        ("networkmanager", "connection load", "IP-108"),
        ("netplan", "--root-dir", "IP-106"),
        ("netplan", "networkctl reconfigure", "IP-108"),
    ],
)
def test_what_the_owner_refuses_is_taken_back(
    tmp_path: Path, owner: str, refuses: str, code: str
) -> None:
    machine = Machine(tmp_path, owner)
    machine.refuses = refuses
    with pytest.raises(module.LinkError, match=code):
        machine.call()
    assert machine.ours() == []


@pytest.mark.parametrize("owner", ["idle", "nobody"])
def test_without_an_owner_we_stop(tmp_path: Path, owner: str) -> None:
    machine = Machine(tmp_path, owner)
    with pytest.raises(module.LinkError, match="IP-102"):
        machine.call()


def bridge(root: Path) -> None:
    (root / "sys/class/net/eth1/bridge").mkdir()


def infiniband(root: Path) -> None:
    (root / "sys/class/net/eth1/type").write_text("32\n")


def ifupdown(root: Path) -> None:
    (root / "etc/network").mkdir()
    (root / "etc/network/interfaces").write_text("auto eth1\niface eth1 inet dhcp\n")


def native(root: Path) -> None:
    (root / "run/systemd/netif/links").mkdir(parents=True)
    (root / "run/systemd/netif/links/2").write_text("NETWORK_FILE=/etc/systemd/network/1.network\n")


@pytest.mark.parametrize("owner", [bridge, infiniband, ifupdown, native])
def test_what_we_do_not_support_is_refused(tmp_path: Path, owner: Callable[[Path], None]) -> None:
    machine = Machine(tmp_path, "netplan")
    owner(tmp_path)
    with pytest.raises(module.LinkError, match="IP-103"):
        machine.call()
    assert machine.ours() == []


def test_an_interface_that_is_not_there_is_named(machine: Machine) -> None:
    with pytest.raises(module.LinkError, match=r"IP-101.*eth9.*this node has eth1"):
        machine.call(links=[link(interface="eth9")])


def test_our_own_connection_is_kept(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 5 10.0.0.50 22")
    machine.kernel = [kernel({"local": "10.0.0.50"})]
    with pytest.raises(module.LinkError, match=r"IP-104.*10\.0\.0\.50"):
        machine.call()


def test_an_address_of_another_host_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "duplicate_of", lambda *_: "02:00:00:00:00:99")
    with pytest.raises(module.LinkError, match=r"IP-105.*02:00:00:00:00:99"):
        machine.call(check_duplicates=True)
    assert machine.ours() == []


def test_verified_only_looks(machine: Machine) -> None:
    with pytest.raises(module.LinkError, match="IP-107"):
        machine.call("verified")
    machine.kernel = [kernel(OURS)]
    assert machine.call("verified")["changed"] is False


def test_absent_removes_our_files_and_gives_the_run_time_state_back(machine: Machine) -> None:
    machine.call()
    original = {"eth1": {"addresses": ["10.0.0.7/24"], "mtu": 1400}, "gone": {"addresses": []}}
    result = machine.call("absent", original=original)
    assert machine.ours() == []
    assert result["given_back"] == [
        "ip addr del 10.0.0.11/24 dev eth1",
        "ip addr add 10.0.0.7/24 dev eth1",
        "ip link set eth1 mtu 1400",
    ]
    assert machine.call("absent", original=original)["changed"] is False


def test_an_adopted_address_stays(machine: Machine) -> None:
    machine.kernel = [kernel(OURS)]
    machine.call()
    original = {"eth1": {"addresses": ["10.0.0.11/24"], "mtu": 1500}}
    assert machine.call("absent", original=original)["given_back"] == []


SOURCE = bytes.fromhex("02000000000a")


def frame(sender: str, address: str) -> bytes:
    probe = module.arp_probe(bytes.fromhex(sender), "10.0.0.11")
    return probe[:28] + bytes(int(part) for part in address.split(".")) + probe[32:]


@pytest.mark.parametrize(
    ("data", "owner"),
    [
        (frame("02000000000b", "10.0.0.11"), "02:00:00:00:00:0b"),
        (frame("02000000000b", "10.0.0.12"), ""),
        (frame("02000000000a", "10.0.0.11"), ""),
        (b"short", ""),
    ],
)
def test_arp_answers(data: bytes, owner: str) -> None:
    assert module.arp_owner(data, SOURCE, "10.0.0.11") == owner


def test_an_arp_probe_claims_nothing() -> None:
    probe = module.arp_probe(SOURCE, "10.0.0.11")
    assert len(probe) == 42
    assert probe[28:32] == b"\0\0\0\0"


# --- the settings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "wait", "codes"),
    [
        ([link()], 30, []),
        ([link(interface="")], 30, ["IP-109"]),
        ([link(), link()], 30, ["IP-110"]),
        ([link(gateway="10.0.0.1"), link(interface="eth2", gateway="10.1.0.1")], 30, ["IP-111"]),
        ([link(gateway="10.0.0.1"), link(interface="eth2", gateway="fd00::1")], 30, []),
        ([link()], 0, ["IP-112"]),
        ([link()], 601, ["IP-112"]),
    ],
)
def test_settings_that_cannot_work(links: list[Link], wait: int, codes: list[str]) -> None:
    assert [fault.code for fault in static_ip.faults(links, wait)] == codes


def test_the_manifest_watches_every_address() -> None:
    assert static_ip.addresses([FULL]) == [
        {"interface": "eth1", "address": "10.0.0.11/24"},
        {"interface": "eth1", "address": "fd00::11/64"},
    ]
