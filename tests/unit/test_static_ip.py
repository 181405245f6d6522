"""static_ip: what is written for each owner of an interface, what is refused, what is read back.

One file, though long: every case runs on the same two fake machines.
"""

from __future__ import annotations

import configparser
import errno
import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from ansible.module_utils.fullmesh.network import links as network_links
from ansible.module_utils.fullmesh.network import reach
from ansible.module_utils.fullmesh.network import static_ip as network_static_ip
from ansible.module_utils.fullmesh.network.backends import netplan, networkmanager
from ansible.module_utils.fullmesh.state import record
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from ansible.module_utils.fullmesh.transaction.engine import ViewLink
from hypothesis import given
from hypothesis import strategies as st
from jinja2.nativetypes import NativeEnvironment
from network_samples import Link, link
from rehearsal import rehearsed

from fullmesh.roles import static_ip

ROOT = Path(__file__).parents[2]
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
    parser.read_string(networkmanager.render_keyfile(one))
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


# --- the module -------------------------------------------------------------------------------


class Machine:
    """Stands for ip, nmcli, netplan, networkctl and systemd; systemd runs the engine when it is told to."""

    def __init__(self, root: Path, owner: str) -> None:
        self.root = root
        self.owner = owner
        self.kernel = [kernel()]
        self.routes: dict[str, list[dict[str, Any]]] = {}
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
        if command[0] == "ip" and "-j" in command:
            routes = self.routes.get(command[2], [])
            return 0, json.dumps(routes if "route" in command else self.kernel), ""
        if "GENERAL.STATE" in joined:
            states = {
                "networkmanager": (0, "30 (disconnected)\n", ""),
                "idle": (0, "10 (unmanaged)", ""),
            }
            return states.get(self.owner, (127, "", "not found"))
        if joined == "netplan info":
            return (0 if self.owner == "netplan" else 127), "", ""
        if joined.startswith(("ifquery", "systemctl is-active")):
            return (0 if self.owner == "netplan" and "ifquery" not in joined else 3), "", ""
        rehearsed(command)
        if "systemd-run" in joined and " apply " in joined:
            network_links.engine.do_apply(command[-1])
        if "systemd-run" in joined and " restore " in joined:
            network_links.engine.restore_transaction(*command[-4:-2])
        if self.takes and ("connection up" in joined or "reconfigure" in joined):
            self.kernel = [kernel(OURS)]
        return 0, "", ""

    def engine(self, command: Any, *_: Any, **__: Any) -> tuple[int, str]:
        """What the engine runs on the node."""
        rc, out, err = self(command if isinstance(command, list) else ["sh", "-c", command])
        return rc, out + err

    def ours(self) -> list[str]:
        return sorted(str(p) for p in self.root.glob("etc/*/**/*fullmesh*") if p.is_file())

    def call(self, state: str = "present", check: bool = False, **more: Any) -> dict[str, Any]:
        params = {
            "links": [link()],
            "provider": "auto",
            "check_duplicates": False,
            "wait_seconds": 0,
            "rollback_seconds": 60,
            "peers": [],
            "master": "",
            "token": "run",
        }
        node = network_links.NetworkNode(self, str(self.root))
        result: dict[str, Any] = getattr(
            network_links.StaticIpLinks(node, params | more, check), state
        )()
        return result

    def run(self, **more: Any) -> dict[str, Any]:
        """What the role does: change, come back, confirm."""
        result = self.call(**more)
        if result["armed"]:
            assert len(self.call("proved", **more)["ballast"]) > 2 * 1500
            assert self.call("confirmed")["changed"]
        return result

    def commands(self) -> list[str]:
        return [" ".join(command) for command in self.asked]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real engine with another root, and no time to lose."""
    tx, root = network_links.engine, str(tmp_path)
    monkeypatch.setattr(tx, "STORE", root + "/store")
    monkeypatch.setattr(tx, "UNITS", root + "/units")
    monkeypatch.setattr(tx, "wait_for_exit", lambda process: None)
    monkeypatch.setattr(tx, "read_kernel_view", lambda names: {"links": {}, "routes": []})
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(network_links.session, "find_ssh_session", lambda *_: [])
    arm, apply = tx.arm, tx.apply_change

    def rooted_arm(
        run: Any, name: str, seconds: int, paths: list[str], *more: Any, **by: Any
    ) -> None:
        arm(run, name, seconds, [root + path for path in paths], *more, **by)

    def rooted_apply(run: Any, name: str, files: dict[str, Any], *more: Any, **by: Any) -> None:
        apply(run, name, {root + path: then for path, then in files.items()}, *more, **by)

    monkeypatch.setattr(tx, "arm", rooted_arm)
    monkeypatch.setattr(tx, "apply_change", rooted_apply)


@pytest.fixture(params=["networkmanager", "netplan"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    return made(tmp_path, request.param, monkeypatch)


def made(root: Path, owner: str, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(root, owner)
    monkeypatch.setattr(network_links.engine, "run_with_deadline", machine.engine)
    return machine


def test_the_second_run_changes_nothing(machine: Machine) -> None:
    first = machine.run()
    assert (first["changed"], first["providers"]) == (True, {"eth1": machine.owner})
    assert machine.ours() == [str(machine.root) + path for path in first["files"]]
    assert Path(machine.ours()[0]).stat().st_mode & 0o777 == 0o600
    assert machine.run()["changed"] is False


def test_check_mode_writes_nothing_and_shows_all(machine: Machine) -> None:
    result = machine.call(check=True)
    assert (result["changed"], result["armed"]) == (True, False)
    assert len(result["diff"]) == 2
    assert result["paths"] == result["files"]
    assert machine.ours() == []
    assert not (machine.root / "store").exists()


def test_an_address_that_went_away_is_put_back(machine: Machine) -> None:
    machine.run()
    machine.kernel = [kernel()]
    result = machine.run()
    assert (result["changed"], result["lacking"]) == (
        True,
        ["10.0.0.11/24 is not on eth1 (it has no address)"],
    )


def test_an_interface_that_is_as_wanted_is_adopted(machine: Machine) -> None:
    machine.kernel = [kernel(OURS)]
    assert machine.run()["adopted"] == ["eth1"]
    words = machine.commands()
    assert not [word for word in words if "connection up" in word or "reconfigure" in word]


def way(dev: str = "eth1", via: str = "10.0.0.1", **more: Any) -> dict[str, Any]:
    """A default route as `ip -j route` says it."""
    return {"dst": "default", "gateway": via, "dev": dev, **more}


NET = {"dst": "10.0.0.0/24", "dev": "eth1", "protocol": "kernel"}


def brought_up(machine: Machine) -> bool:
    return any("connection up" in one or "reconfigure eth1" in one for one in machine.commands())


@pytest.mark.parametrize(
    ("seen", "routes", "words"),
    [
        (kernel(OURS, {"local": "10.0.0.15"}), [NET], "10.0.0.15/24 on eth1"),
        (kernel(OURS, {"local": "10.0.0.15", "dynamic": True}), [NET], "10.0.0.15/24 on eth1"),
        (kernel(OURS), [NET, way(via="10.7.0.1")], "the route to 0.0.0.0/0 via 10.7.0.1"),
        (kernel(OURS), [{"dst": "10.9.0.1", "dev": "eth1"}], "10.9.0.1/32 via the link"),
        (kernel(OURS, mtu=9000), [NET], "the MTU 9000 of eth1"),
    ],
)
def test_settings_that_new_files_lose_are_tried_and_not_kept(
    machine: Machine, seen: dict[str, Any], routes: list[dict[str, Any]], words: str
) -> None:
    """It would work until the next boot, and be confirmed by that."""
    machine.kernel, machine.routes = [seen], {"-4": routes}
    result = machine.run()
    assert (result["adopted"], result["lacking"]) == ([], [])
    assert words in result["diff"][-1]["before"]
    assert brought_up(machine)
    # what somebody adds later is no change of ours
    machine.kernel = [seen]
    assert machine.run()["changed"] is False


def test_kernel_and_link_routes_are_not_surplus(machine: Machine) -> None:
    routes = [NET, way(metric=100, protocol="static"), way(dev="eth0")]
    machine.kernel, machine.routes = [kernel(OURS)], {"-4": routes}
    assert machine.run(links=[link(gateway="10.0.0.1")])["adopted"] == ["eth1"]


def test_a_mac_that_matches_no_nic_is_tried_and_not_kept(machine: Machine) -> None:
    """The kernel has all; but a profile that matches no card brings nothing up at the next boot."""
    machine.kernel = [kernel(OURS)]
    assert machine.run(links=[link(mac="02:00:00:00:00:0a")])["adopted"] == []
    assert brought_up(machine)


@pytest.mark.parametrize("more", [{"dns": ["10.0.0.53"]}, {"search": ["lab.example"]}])
def test_changed_name_servers_are_tried_and_not_kept(
    machine: Machine, more: dict[str, Any]
) -> None:
    machine.kernel = [kernel(OURS)]
    assert machine.run()["adopted"] == ["eth1"]
    assert not brought_up(machine)
    for links in ([link(**more)], [link()]):
        machine.asked.clear()
        assert machine.run(links=links)["adopted"] == []
        assert brought_up(machine)


def test_our_connection_moves_from_an_address_that_the_files_drop(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.15", "22"]
    )
    machine.kernel = [kernel(OURS, {"local": "10.0.0.15", "dynamic": True})]
    assert machine.call(check=True)["moves_to"] == "10.0.0.11"


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("have", [OURS, {"local": "10.0.0.15", "dynamic": True}])
def test_a_default_route_that_no_link_names_is_refused(
    machine: Machine, have: dict[str, Any], check: bool
) -> None:
    machine.kernel, machine.routes = [kernel(have)], {"-4": [NET, way(protocol="dhcp")]}
    words = r"IP-119\] eth1 carries the IPv4 default.*10\.0\.0\.1\).*fullmesh_links: \[\{interface: eth1, "
    words += r'addresses: \["10\.0\.0\.11/24"\], gateway: 10\.0\.0\.1\}\]'
    with pytest.raises(network_links.LinkError, match=words):
        machine.call(check=check)
    assert machine.ours() == []
    assert not (machine.root / "store").exists()
    assert machine.run(links=[link(gateway="10.0.0.1")])["changed"]


ELSEWHERE = link(interface="eth2", addresses=["10.1.0.11/24"])


def with_a_second_card(machine: Machine, *links: dict[str, Any]) -> Machine:
    """The links are confirmed first."""
    for name, value in (("type", "1"), ("ifindex", "3")):
        card = machine.root / "sys/class/net/eth2"
        card.mkdir(exist_ok=True)
        (card / name).write_text(value + "\n")
    if links:
        machine.run(links=list(links))
    machine.kernel = [kernel(OURS), kernel(name="eth2")]
    return machine


@pytest.mark.parametrize("backend", ["networkmanager", "netplan"])
@pytest.mark.parametrize("check", [True, False])
def test_an_interface_that_carries_ssh_is_not_let_go(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch, backend: str, check: bool
) -> None:
    """It would work until the next boot, which would bring nothing up there."""
    machine = with_a_second_card(made(tmp_path, backend, monkeypatch), link())
    ours = {path: Path(path).read_text() for path in machine.ours()}
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.11", "22"]
    )
    words = r"IP-120\] eth1 carries this connection, to 10\.0\.0\.11: .*fullmesh_links.*undo\.yml"
    with pytest.raises(network_links.LinkError, match=words):
        machine.call(links=[ELSEWHERE], check=check)
    assert {path: Path(path).read_text() for path in machine.ours()} == ours
    # where the other one has that address from now on, or ssh comes in elsewhere, it may go
    moved = ELSEWHERE | {"addresses": ["10.1.0.11/24", "10.0.0.11/24"]}
    assert machine.call(links=[moved], check=True)["changed"]
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.9.0.11", "22"]
    )
    assert machine.call(links=[ELSEWHERE], check=True)["changed"]


def test_an_interface_with_the_default_route_is_kept(machine: Machine) -> None:
    machine.routes = {"-4": [NET, way()]}
    with_a_second_card(machine, link(gateway="10.0.0.1"))
    words = r"IP-120\] eth1 carries the IPv4 default route of this node \(via 10\.0\.0\.1\)"
    with pytest.raises(network_links.LinkError, match=words):
        machine.call(links=[ELSEWHERE])
    assert machine.call(links=[ELSEWHERE | {"gateway": "10.1.0.1"}], check=True)["changed"]
    # another one stays, of somebody else's interface
    machine.routes = {"-4": [NET, way(), way(dev="eth0", metric=100)]}
    assert machine.call(links=[ELSEWHERE], check=True)["changed"]


def test_configuration_of_others_may_be_replaced(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file of ours gives eth1 its address, and none takes it away."""
    with_a_second_card(machine)
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.11", "22"]
    )
    assert machine.call(links=[ELSEWHERE], check=True)["changed"]


BOTH = [kernel(OURS, {"local": "10.5.0.11"}, {"local": "fd00::11", "prefixlen": 64})]
FILES = [
    "address1=10.0.0.11/24,10.0.0.1\naddress2=10.5.0.11/24\ndns=10.0.0.53;\naddress1=fd00::11/64\n",
    'addresses: ["10.0.0.11/24", "10.5.0.11/24", "fd00::11/64"]\n',
    'IPADDR=10.0.0.11\nPREFIX=24\nIPADDR1="10.5.0.11"\nIPV6ADDR=fd00::11/64\n',
]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize(
    ("stays", "lost"),
    [
        ([], ["10.0.0.11", "10.5.0.11", "fd00::11"]),
        # one address that finds another card does not save the others
        (["10.5.0.11/24"], ["10.0.0.11", "fd00::11"]),
        (["fd00::11/64", "10.0.0.11/24"], ["10.5.0.11"]),
        (["10.0.0.11/24", "10.5.0.11/24", "fd00::11/64"], []),
    ],
)
def test_addresses_that_no_link_has_any_more(file: str, stays: list[str], lost: list[str]) -> None:
    seen = ip_tool.parse_links(json.dumps(BOTH))
    links = [link(interface="eth2", addresses=stays, dns=["10.0.0.11"])]
    assert network_static_ip.find_dropped_addresses([file], links, seen) == (
        {"eth1": lost} if lost else {}
    )
    assert (
        network_static_ip.find_dropped_addresses(
            [file], [link(interface="eth1", addresses=stays)], seen
        )
        == {}
    )


def test_a_name_server_or_longer_address_is_not_ours() -> None:
    file = (
        "address1=10.0.0.110/24,10.0.0.11\naddress2=110.0.0.11/24\ndns=10.0.0.11;\nDNS1=10.0.0.11\n"
    )
    assert (
        network_static_ip.find_dropped_addresses(
            [file], [], ip_tool.parse_links(json.dumps([kernel(OURS)]))
        )
        == {}
    )


def test_removing_the_gateway_of_a_link_is_refused(machine: Machine) -> None:
    machine.kernel, machine.routes = [kernel(OURS)], {"-4": [NET, way()]}
    machine.run(links=[link(gateway="10.0.0.1")])
    with pytest.raises(network_links.LinkError, match="IP-119"):
        machine.call()
    machine.routes = {"-4": [NET]}
    assert machine.run()["changed"]
    # nothing is about to change: whoever sets a route by hand is not asked
    machine.routes = {"-4": [NET, way()]}
    assert machine.run()["changed"] is False


def test_the_other_familys_default_route_is_named_as_a_route(machine: Machine) -> None:
    six = {"local": "fd00::11", "prefixlen": 64}
    machine.kernel = [kernel(OURS, six)]
    machine.routes = {"-4": [way()], "-6": [way(via="fd00::1")]}
    both = link(addresses=["10.0.0.11/24", "fd00::11/64"], gateway="10.0.0.1")
    with pytest.raises(
        network_links.LinkError, match=r'IPv6.*routes: \[\{to: "::/0", via: "fd00::1"\}\]'
    ):
        machine.call(links=[both])
    both["routes"] = [{"to": "::/0", "via": "fd00::1"}]
    assert machine.run(links=[both])["adopted"] == ["eth1"]
    assert parsed_keyfile(both)["ipv6"]["gateway"] == "fd00::1"
    assert "never-default" not in parsed_keyfile(both)["ipv6"]


@pytest.mark.parametrize(
    ("seen", "route", "wanted"),
    [
        # a router's advertisement: off in our files, and none of theirs
        (kernel(OURS), way(protocol="ra"), link()),
        # another interface's, which stays with its lease
        (kernel(OURS), way(dev="eth0", protocol="dhcp"), link()),
        # a VLAN's parent keeps its own files
        (
            kernel({"local": "10.0.0.15", "dynamic": True}),
            way(protocol="dhcp"),
            link(interface="eth1.7", vlan={"id": 7, "parent": "eth1"}),
        ),
        # from one address to another: tried, and put back where it was wrong
        (kernel({"local": "10.0.0.50"}), way(), link()),
        # a gateway that is no neighbour of the new address could not be written down
        (kernel({"local": "10.7.0.5", "dynamic": True}), way(via="10.7.0.1"), link()),
    ],
)
def test_a_default_route_that_is_not_the_links_to_keep(
    machine: Machine, seen: dict[str, Any], route: dict[str, Any], wanted: Link
) -> None:
    machine.kernel, machine.routes = [seen], {"-4": [route]}
    assert machine.call(check=True, links=[wanted])["changed"]


def test_a_default_route_that_another_interface_keeps(machine: Machine) -> None:
    machine.kernel, machine.routes = (
        [kernel(OURS)],
        {"-4": [way(), way(dev="eth0", via="10.9.0.1")]},
    )
    assert machine.run()["adopted"] == []


def test_each_next_hop_of_a_route_is_read() -> None:
    hops = [{"gateway": "10.0.0.1", "dev": "eth1"}, {"gateway": "10.9.0.1", "dev": "eth0"}]
    found = network_static_ip.parse_detailed_routes(
        json.dumps([{"dst": "default", "nexthops": hops}]), 4
    )
    assert [(one["to"], one["via"], one["dev"]) for one in found] == [
        ("0.0.0.0/0", "10.0.0.1", "eth1"),
        ("0.0.0.0/0", "10.9.0.1", "eth0"),
    ]


def test_it_is_armed_before_anything_is_written(machine: Machine) -> None:
    machine.refuses = " guard"
    with pytest.raises(network_links.engine.RollbackError, match=r"\[TX-103\]"):
        machine.call()
    assert machine.ours() == []


def test_a_setting_that_is_not_read_back_is_reverted(machine: Machine) -> None:
    machine.takes = False
    assert machine.call()["armed"]
    assert machine.ours()
    with pytest.raises(network_links.LinkError, match=r"IP-107.*it has no address"):
        machine.call("proved")
    assert machine.ours() == []
    report = machine.call("restored")["report"]
    assert "IP-107" in report["why"]
    assert machine.call("restored")["report"] == {}


@pytest.mark.parametrize(
    ("owner", "refuses"),
    [("networkmanager", "connection up"), ("netplan", "networkctl reconfigure")],
)
def test_a_refusal_of_the_owner_is_reverted_at_once(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch, owner: str, refuses: str
) -> None:
    machine = made(tmp_path, owner, monkeypatch)
    machine.refuses = refuses
    machine.call()
    assert machine.ours() == []
    with pytest.raises(network_links.LinkError, match=f"IP-108.*{refuses}"):
        machine.call("proved")


def test_the_owner_gives_up_before_the_engine_ends_its_command(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = made(tmp_path, "networkmanager", monkeypatch)
    machine.call(wait_seconds=600)
    (up,) = [one for one in machine.commands() if "connection up" in one]
    assert "--wait 55 " in up
    assert network_links.OWNER_SECONDS < 2 * network_links.engine.COMMAND_SECONDS


def test_a_file_that_the_tool_refuses_is_never_written(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = made(tmp_path, "netplan", monkeypatch)
    machine.refuses = "--root-dir"
    with pytest.raises(network_links.LinkError, match="IP-106"):
        machine.call()
    assert not (tmp_path / "store").exists()


def test_too_late_to_confirm(machine: Machine) -> None:
    machine.call()
    network_links.engine.restore_transaction(
        network_links.engine.folder("static_ip"), "nobody came back"
    )
    for state in ("proved", "confirmed"):
        with pytest.raises(network_links.LinkError, match=r"IP-114.*nobody came back"):
            machine.call(state)
    for state in ("proved", "confirmed"):
        with pytest.raises(network_links.LinkError, match=r"IP-114.*another process"):
            machine.call(state)


def test_peers_that_are_up_and_silent_undo_the_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = ["10.0.0.12", "10.0.0.13"]
    why = {"10.0.0.12": "No route to host"}
    monkeypatch.setattr(
        network_links.reach,
        "find_silent_peers",
        lambda asked, *_: {k: why[k] for k in asked if k in why},
    )
    machine.call()
    assert machine.call("proved", peers=peers)["fresh"]
    assert machine.call("confirmed")["changed"]
    machine.kernel = [kernel()]
    machine.call()
    why["10.0.0.13"] = "no answer"
    with pytest.raises(network_links.LinkError, match=r"IP-115.*10\.0\.0\.12 \(No route to host\)"):
        machine.call("proved", peers=peers)


def test_a_master_that_loses_contact_reverts_the_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers, why = ["10.0.0.10", "10.0.0.12", "10.0.0.13"], {"10.0.0.13": "no answer"}
    monkeypatch.setattr(
        network_links.reach,
        "find_silent_peers",
        lambda asked, *_: {k: why[k] for k in asked if k in why},
    )
    assert machine.call(check=True, peers=peers)["answered"] == []
    before = machine.call(peers=peers)
    assert (before["answered"], before["silent"]) == (peers[:2], peers[2:])
    why["10.0.0.10"] = "no route"
    with pytest.raises(
        network_links.LinkError, match=r"IP-115.*the master 10\.0\.0\.10 \(no route\) within"
    ):
        machine.call("proved", peers=before["answered"], master="10.0.0.10")
    assert "the master 10.0.0.10" in network_links.engine.report_of("static_ip")["why"]
    machine.kernel = [kernel()]
    machine.call(peers=peers)
    # it was silent before, so the others do
    assert machine.call("proved", peers=["10.0.0.12"], master="10.0.0.10")["fresh"]


def test_an_address_that_ipv6_finds_twice(machine: Machine) -> None:
    machine.takes = False
    machine.call()
    machine.kernel = [kernel({**OURS, "dadfailed": True})]
    with pytest.raises(network_links.LinkError, match=r"IP-105.*used by another host"):
        machine.call("proved")


def test_an_old_connection_proves_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_links.engine, "list_port_pairs", lambda: [[22, 50001]])
    machine.call()
    monkeypatch.setattr(
        network_links.session,
        "find_ssh_session",
        lambda *_: ["10.0.0.1", "50001", "10.0.0.11", "22"],
    )
    assert machine.call("proved")["fresh"] is False
    monkeypatch.setattr(
        network_links.session,
        "find_ssh_session",
        lambda *_: ["10.0.0.1", "50002", "10.0.0.11", "22"],
    )
    assert machine.call("proved")["fresh"] is True


@pytest.mark.parametrize("owner", ["idle", "nobody"])
def test_without_an_owner_we_stop(tmp_path: Path, owner: str) -> None:
    machine = Machine(tmp_path, owner)
    with pytest.raises(network_links.LinkError, match="IP-102"):
        machine.call()


def bridge(root: Path) -> None:
    (root / "sys/class/net/eth1/bridge").mkdir()


def bond(root: Path) -> None:
    (root / "sys/class/net/eth1/bonding").mkdir()


def infiniband(root: Path) -> None:
    (root / "sys/class/net/eth1/type").write_text("32\n")


@pytest.mark.parametrize("kind", [bridge, bond, infiniband])
def test_unsupported_settings_are_refused(tmp_path: Path, kind: Callable[[Path], None]) -> None:
    machine = Machine(tmp_path, "netplan")
    kind(tmp_path)
    with pytest.raises(network_links.LinkError, match="IP-103"):
        machine.call()
    assert machine.ours() == []


def test_a_foreign_file_that_we_cannot_edit_safely(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def foreign(*_: Any) -> None:
        raise network_links.owner.ForeignError("/etc/x configures eth1")

    monkeypatch.setattr(
        network_links.owner.get_backend(machine.owner), "find_foreign_changes", foreign
    )
    with pytest.raises(network_links.LinkError, match=r"IP-118\] /etc/x"):
        machine.call()


def test_an_interface_that_is_not_there_is_named(machine: Machine) -> None:
    with pytest.raises(network_links.LinkError, match=r"IP-101.*eth9.*found: eth1"):
        machine.call(links=[link(interface="eth9")])


def test_our_own_connection_moves_with_its_address(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.50", "22"]
    )
    machine.kernel = [kernel({"local": "10.0.0.50"})]
    assert machine.call(check=True)["moves_to"] == "10.0.0.11"
    machine.kernel = [kernel({"local": "10.0.0.50"}, name="eth0"), kernel()]
    assert machine.call(check=True)["moves_to"] == ""


def test_an_address_of_another_host_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_links.reach, "find_duplicate_host", lambda *_: "02:00:00:00:00:99")
    with pytest.raises(network_links.LinkError, match=r"IP-105.*02:00:00:00:00:99"):
        machine.call(check_duplicates=True)
    assert machine.ours() == []


def test_verified_only_looks(machine: Machine) -> None:
    with pytest.raises(network_links.LinkError, match="IP-107"):
        machine.call("verified")
    machine.kernel = [kernel(OURS)]
    assert machine.call("verified")["changed"] is False


def test_a_reboot_in_between_gives_a_card_its_mtu_back(machine: Machine) -> None:
    """netplan's generator and udev have read the new file before the old one is back; NetworkManager starts later."""
    machine.kernel = [kernel(mtu=1400)]
    machine.call(links=[link(mtu=9000)])
    journal = json.loads((machine.root / "store/static_ip/journal.json").read_text())
    assert journal["runtime"]["ours"] == {
        "addresses": {"eth1": ["10.0.0.11/24"]},
        "routes": [],
        "links": ["eth1"],
    }
    steps = journal["boot_commands"]
    if machine.owner == "networkmanager":
        assert steps == []
        return
    assert [step[0] for step in steps] == ["netplan", "/bin/sh"]
    assert steps[1][-2:] == ["eth1", "1400"]
    assert 'ip link set "$0" mtu "$1"' in steps[1][2]
    # a card that is not there yet is no fault
    assert subprocess.run([*steps[1][:3], "no-such-card", "1400"], check=False).returncode == 0


def link_view(*addresses: str, **change: Any) -> ViewLink:
    """An interface as the engine sees it."""
    plain: ViewLink = {
        "mtu": 1500,
        "up": True,
        "addresses": list(addresses),
        "leases": [],
        "manner": {},
    }
    return cast("ViewLink", plain | change)


def remembered(root: Path, paths: list[str]) -> None:
    """What the role's task `Remember` makes: there were no such files."""
    point = record.UndoPoint(str(root), "static_ip")
    point.save(point.load() | {"files": {path: {"kind": "absent"} for path in paths}}, {})


def test_undo_is_a_transaction_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        "links": {"eth1": link_view("10.0.0.7/24", mtu=1400)},
        "routes": [],
    }
    monkeypatch.setattr(network_links.engine, "read_kernel_view", lambda names: before)
    assert machine.call("absent")["changed"] is False
    assert machine.call(check=True)["remembered"] is False
    point = machine.root / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    machine.run()
    paths = [path[len(str(machine.root)) :] for path in machine.ours()]
    remembered(machine.root, paths)
    assert machine.call(check=True)["remembered"] is True
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.11", "22"]
    )
    result = machine.call("absent")
    assert (result["paths"], result["moves_to"], result["armed"]) == (paths, "10.0.0.7", True)
    assert machine.ours() == []
    assert machine.call("proved", links=[])["fresh"]
    assert machine.call("confirmed")["changed"]
    assert machine.call("absent")["changed"] is False


@pytest.mark.parametrize("owner", ["", "02:00:00:00:00:99"])
def test_an_undo_does_not_take_a_reassigned_lease(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    point = machine.root / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    lease = link_view("10.0.0.7/24", leases=["10.0.0.7/24"])
    before = {"links": {"eth1": lease}, "routes": [["-4", "eth1", "default via 10.0.0.1"]]}
    nothing: dict[str, Any] = {"links": {}, "routes": []}
    monkeypatch.setattr(
        network_links.engine, "read_kernel_view", lambda names: before if names else nothing
    )
    machine.run()
    asked: list[str] = []

    def duplicate_of(interface: str, mac: str, address: str) -> str:
        asked.append(address)
        return owner

    monkeypatch.setattr(network_links.reach, "find_duplicate_host", duplicate_of)
    paths = [path[len(str(machine.root)) :] for path in machine.ours()]
    remembered(machine.root, paths)
    if owner:
        # our connection would have to come back there
        monkeypatch.setattr(
            network_links.session,
            "find_ssh_session",
            lambda *_: ["10.0.0.1", "5", "10.0.0.11", "22"],
        )
        for check in (True, False):
            with pytest.raises(
                network_links.LinkError, match=r"IP-105\] 10\.0\.0\.7, the lease that eth1.*00:99"
            ):
                machine.call("absent", check=check)
        assert [path[len(str(machine.root)) :] for path in machine.ours()] == paths
        monkeypatch.setattr(network_links.session, "find_ssh_session", lambda *_: [])
    machine.call("absent")
    assert set(asked) == {"10.0.0.7"}
    journal = json.loads((machine.root / "store/static_ip/journal.json").read_text())
    assert journal["runtime"]["ours"] == {
        "addresses": {} if owner else {"eth1": ["10.0.0.7/24"]},
        "routes": [],
        "links": ["eth1"],
    }
    last = json.loads((machine.root / "store/static_ip/plan.json").read_text())["last"]
    # where it is taken, the interface is left to its owner
    assert list(last["links"]) == ([] if owner else ["eth1"])
    assert last["routes"] == ([] if owner else before["routes"])
    for card in last["links"].values():
        assert (card["addresses"], card["leases"]) == (["10.0.0.7/24"], ["10.0.0.7/24"])


def test_a_current_lease_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> str:
        raise AssertionError("asked")

    monkeypatch.setattr(network_links.reach, "find_duplicate_host", asked)
    had = {"leases": ["10.0.0.11/24"]}
    seen = ip_tool.parse_links(
        json.dumps([kernel(OURS), {**kernel(name="eth2"), "master": "bond0"}])
    )
    gone = {"leases": ["10.7.0.1/24", "fd00::1/64"]}
    kernel_then = {"links": {"eth1": had, "eth2": gone, "eth3": gone}}
    assert network_links.find_taken_leases(kernel_then, seen) == {}


def test_a_recreated_device_is_recreated_in_the_rollback(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The VLAN over a bond of another mode is brought up with it, and so it is when nobody confirms."""
    machine = made(tmp_path, "netplan", monkeypatch)
    for name in ("bond0", "eth1"):
        (tmp_path / "sys/class/net" / name).mkdir(exist_ok=True)
    machine.takes = False
    armed: list[list[str]] = []
    arm = network_links.engine.arm

    def spy(run: Any, name: str, seconds: int, paths: list[str], back: Any, **by: Any) -> None:
        armed.append([" ".join(step) for step in back])
        arm(run, name, seconds, paths, back, **by)

    monkeypatch.setattr(network_links.engine, "arm", spy)
    bond = {"mode": "active-backup", "members": ["eth1"], "miimon": 100}
    links = [
        link(interface="bond0", addresses=[], bond=bond),
        link(interface="bond0.7", vlan={"id": 7, "parent": "bond0"}),
    ]

    def stack(mode: str) -> list[dict[str, Any]]:
        info = {"info_kind": "bond", "info_data": {"mode": mode, "miimon": 100}}
        tag = {"info_kind": "vlan", "info_data": {"id": 7}}
        return [
            {**kernel(), "master": "bond0"},
            {**kernel(name="bond0"), "linkinfo": info},
            {**kernel(OURS, name="bond0.7"), "linkinfo": tag, "link": "bond0"},
        ]

    point = tmp_path / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    machine.kernel = stack("802.3ad")
    assert machine.call(links=links)["adopted"] == []
    deleted = ["bond0.7", "bond0"]
    assert [one.split()[-1] for one in armed[-1] if "delete" in one] == deleted
    network_links.engine.restore_transaction(
        network_links.engine.folder("static_ip"), "nobody came back"
    )
    machine.call("restored")
    machine.kernel = stack("active-backup")
    (tmp_path / "etc/netplan/90-fullmesh.yaml").write_text(network_links.owner.common.HEAD)
    assert machine.call("absent")["armed"]
    assert [one.split()[-1] for one in armed[-1] if "delete" in one] == deleted
    plan = json.loads((tmp_path / "store/static_ip/plan.json").read_text())
    steps = [" ".join(step) for step in plan["commands"]]
    assert [one.split()[-1] for one in steps if "delete" in one] == deleted


def test_undo_after_two_changes_finds_the_second_rollback(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First the cluster's card, then, in a later run, the one that carries ssh: its lease is where undo goes."""
    point = machine.root / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    (machine.root / "sys/class/net/eth0").mkdir()
    (machine.root / "sys/class/net/eth0/type").write_text("1\n")
    lease = link_view("10.9.0.7/24")
    bare = link_view("10.0.0.5/24")
    every = {"eth1": bare, "eth0": lease}

    def runtime(names: list[str]) -> dict[str, Any]:
        return {"links": {name: every[name] for name in every if name in names}, "routes": []}

    monkeypatch.setattr(network_links.engine, "read_kernel_view", runtime)
    machine.kernel = [kernel(), kernel({"local": "10.9.0.7"}, name="eth0")]
    machine.run()
    machine.kernel = [kernel(OURS), kernel({"local": "10.9.0.7"}, name="eth0")]
    machine.takes = False
    ssh = link(interface="eth0", addresses=["10.9.0.77/24"])
    assert machine.call(links=[link(), ssh])["armed"]
    kept = record.UndoPoint(str(machine.root), "static_ip").load()["part"]["network"]
    assert sorted(name for names in kept["names"].values() for name in names) == ["eth0", "eth1"]
    machine.kernel = [kernel(OURS), kernel({"local": "10.9.0.77"}, name="eth0")]
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.9.0.1", "5", "10.9.0.77", "22"]
    )
    assert machine.call("absent", check=True)["moves_to"] == "10.9.0.7"


BACK = {"why": "nobody came", "faults": []}


@pytest.mark.parametrize(
    ("remembered", "answer", "report", "forgets"),
    [
        (False, {"armed": True}, BACK, True),
        (True, {"armed": True}, BACK, False),
        # an undo has a point to go back to
        (None, {"armed": True}, BACK, False),
        # confirmed after all, or silent: nobody knows what stands there
        (False, {"armed": True}, {}, False),
        (False, {"unreachable": True}, {}, False),
        (False, None, {}, False),
        # something could not be put back: the undo may still do it
        (False, {"armed": True}, {"why": "", "faults": ["no room"]}, False),
        # refused before anything was armed
        (False, {"failed": True}, {}, True),
        (True, {"failed": True}, {}, False),
    ],
)
def test_the_undo_point_of_a_failed_change_is_forgotten(
    remembered: bool | None, answer: dict[str, Any] | None, report: dict[str, Any], forgets: bool
) -> None:
    tasks = yaml.safe_load((ROOT / "roles/static_ip/tasks/change.yml").read_text())
    (rescue,) = [task["rescue"] for task in tasks if "rescue" in task]
    (task,) = [one for one in rescue if "block" in one]
    (forget,) = task["block"]
    assert forget["undo_point"] == {"role": "static_ip", "state": "forgotten"}
    # what keeps it from being forgotten is told with the reason of the failure, not in its place
    assert "{{ __static_ip_failure }}" in str(task["rescue"])
    plan = {} if remembered is None else {"remembered": remembered}
    known: dict[str, Any] = {"__static_ip_plan": plan, "__static_ip_restored": {"report": report}}
    if answer is not None:
        known["__static_ip_applied"] = answer
    jinja = NativeEnvironment()
    for name, value in task["vars"].items():
        known[name] = jinja.from_string(value).render(known)
    assert bool(jinja.compile_expression(task["when"])(**known)) is forgets


# --- our way in, and the neighbours -----------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "addresses", "to"),
    [
        ("10.0.0.11", ["10.0.0.12/24"], "10.0.0.12"),
        ("10.0.0.11", ["fd00::1/64", "10.0.0.12/24"], "10.0.0.12"),
        ("10.0.0.11", ["fd00::1/64"], "fd00::1"),
        ("10.0.0.11", ["10.0.0.11/24"], ""),
        ("10.0.0.11", ["10.0.0.12/24", "10.0.0.11/16"], ""),
        ("192.0.2.1", ["10.0.0.12/24"], ""),
        ("", ["10.0.0.12/24"], ""),
    ],
)
def test_where_our_connection_has_to_come_back(server: str, addresses: list[str], to: str) -> None:
    seen = ip_tool.parse_links(json.dumps([kernel(OURS)]))
    assert reach.find_return_address(addresses, ["eth1"], server, seen) == to


SOURCE = bytes.fromhex("02000000000a")


def frame(sender: str, address: str) -> bytes:
    probe = reach.build_arp_probe(bytes.fromhex(sender), "10.0.0.11")
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
    assert reach.parse_arp_owner(data, SOURCE, "10.0.0.11") == owner


def test_an_arp_probe_claims_no_address() -> None:
    probe = reach.build_arp_probe(SOURCE, "10.0.0.11")
    assert len(probe) == 42
    assert probe[28:32] == b"\0\0\0\0"


class Neighbours:
    """What ip(8) says of the routes and neighbours of one address."""

    def __init__(self, state: str, *, via: str = "", dev: str = "eth1") -> None:
        self.state, self.dev = state, dev
        self.route = {"dst": "192.0.2.9", "dev": "eth1"} | ({"gateway": via} if via else {})
        self.probed = False

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[1:3] == ["neigh", "change"]:
            assert argv[3:] == ["192.0.2.9", "dev", self.dev, "nud", "probe"]
            self.probed = True
        if "route" in argv:
            return 0, json.dumps([self.route]), ""
        found = [{"dst": "192.0.2.9", "dev": self.dev, "state": [self.state]}]
        asked = argv[-1] if "dev" in argv else self.dev
        return 0, json.dumps(found if asked == self.dev else []), ""


def nobody(argv: list[str]) -> tuple[int, str, str]:
    """No route, no neighbour."""
    return 2, "", "RTNETLINK answers: Network is unreachable"


def test_a_refusal_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setattr(reach, "SSH_PORT", closed.getsockname()[1])
        assert reach.find_silent_peers(["127.0.0.1"], nobody) == {}


def test_no_route_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "start_ssh_probe", lambda address: (None, errno.EHOSTUNREACH))
    assert reach.find_silent_peers(["192.0.2.9"], nobody) == {"192.0.2.9": "No route to host"}


def test_an_unsent_probe_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "start_ssh_probe", lambda address: (None, errno.ENOBUFS))
    assert reach.find_silent_peers(["192.0.2.9"], nobody) == {
        "192.0.2.9": "No buffer space available"
    }


class Bond:
    """A link that takes a frame after some that it throws away."""

    def __init__(self, lost: int, error: int = errno.ENOBUFS) -> None:
        self.lost, self.error, self.taken = lost, error, 0

    def send(self, frame: bytes) -> None:
        if self.lost:
            self.lost -= 1
            raise OSError(self.error, "")
        self.taken += 1


def test_a_bond_without_a_port_yet_is_given_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "POLL_SECONDS", 0.001)
    slow, never = Bond(3), Bond(10**9)
    assert reach.send_frame(slow, b"x")
    assert slow.taken == 1
    monkeypatch.setattr(reach, "PORT_SECONDS", 0.01)
    assert not reach.send_frame(never, b"x")
    with pytest.raises(OSError, match=str(errno.EPERM)):
        reach.send_frame(Bond(1, errno.EPERM), b"x")


@pytest.mark.parametrize(
    ("says", "silent"),
    [
        (Neighbours("REACHABLE"), False),
        (Neighbours("PERMANENT"), False),
        (Neighbours("FAILED"), True),
        (Neighbours("STALE"), True),
        # the prefix no longer holds it, or it was on another card: what the kernel remembers is no way there
        (Neighbours("REACHABLE", via="192.0.2.1"), True),
        (Neighbours("REACHABLE", dev="eth0"), True),
    ],
)
@pytest.mark.parametrize("error", [errno.EINPROGRESS, errno.EHOSTUNREACH])
def test_a_peer_behind_its_firewall_is_known_by_its_mac(
    monkeypatch: pytest.MonkeyPatch, says: Neighbours, silent: bool, error: int
) -> None:
    """Dropped or rejected (firewalld's reject looks like a missing route), while its MAC is heard."""
    probe = socket.socket() if error == errno.EINPROGRESS else None
    monkeypatch.setattr(reach, "start_ssh_probe", lambda address: (probe, error))
    monkeypatch.setattr(reach.select, "select", lambda *_: ([], [], []))
    assert bool(reach.find_silent_peers(["192.0.2.9"], says, 0.01)) is silent


@pytest.mark.parametrize("state", ["STALE", "REACHABLE", "DELAY", "FAILED"])
def test_a_neighbour_that_the_kernel_remembers_is_asked_again(state: str) -> None:
    says = Neighbours(state)
    reach.refresh_neighbours(["192.0.2.9"], says)
    assert says.probed is (state != "FAILED")
    says.probed = False
    reach.refresh_neighbours(["192.0.2.8"], says)
    assert not says.probed


MASTER, P2, P3 = "10.0.0.10", "10.0.0.12", "10.0.0.13"


@pytest.mark.parametrize(
    ("peers", "silent", "words"),
    [
        ([MASTER, P2, P3], [], []),
        ([MASTER, P2, P3], [P2], []),
        ([MASTER], [], []),
        ([P2, P3], [P3], []),
        ([], [], []),
        ([MASTER, P2, P3], [MASTER], ["the master 10.0.0.10 (no)"]),
        ([MASTER], [MASTER], ["the master 10.0.0.10 (no)"]),
        ([MASTER, P2, P3], [P2, P3], ["any other node: 10.0.0.12 (no), 10.0.0.13 (no)"]),
        (
            [MASTER, P2],
            [P2, MASTER],
            ["the master 10.0.0.10 (no)", "any other node: 10.0.0.12 (no)"],
        ),
    ],
)
def test_the_master_and_one_of_the_others_have_to_answer(
    peers: list[str], silent: list[str], words: list[str]
) -> None:
    assert reach.describe_silent_peers(MASTER, peers, dict.fromkeys(silent, "no")) == words


def test_silent_peers_are_asked_until_enough_have_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The master is still busy with its own change; a peer that is away for good does not matter then."""
    asked: list[list[str]] = []

    def silent(addresses: list[str], run: object, seconds: float) -> dict[str, str]:
        asked.append(addresses)
        return {one: "no" for one in addresses if one == P3 or len(asked) < 3}

    monkeypatch.setattr(reach, "find_silent_peers", silent)
    monkeypatch.setattr(reach.time, "sleep", lambda _: None)
    assert reach.wait_for_peers(MASTER, [MASTER, P2, P3], nobody, 60) == {P3: "no"}
    assert asked == [[MASTER, P2, P3]] * 3


def test_the_asking_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        reach, "find_silent_peers", lambda addresses, *_: dict.fromkeys(addresses, "no")
    )
    assert reach.wait_for_peers(MASTER, [MASTER, P2], nobody, 0) == {MASTER: "no", P2: "no"}


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
    assert [fault.code for fault in static_ip.find_static_ip_faults(links, wait)] == codes


@pytest.mark.parametrize("seconds", [9, 0, 3601])
def test_a_change_always_undoes_itself(seconds: int) -> None:
    assert [fault.code for fault in static_ip.find_static_ip_faults([link()], 30, seconds)] == [
        "IP-116"
    ]


def test_the_manifest_watches_every_address() -> None:
    assert static_ip.list_watched_addresses([FULL]) == [
        {"interface": "eth1", "address": "10.0.0.11/24"},
        {"interface": "eth1", "address": "fd00::11/64"},
    ]
