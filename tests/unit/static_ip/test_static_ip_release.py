"""static_ip: interfaces and addresses that are no longer in any link."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import links as network_links
from ansible.module_utils.fullmesh.network import static_ip as network_static_ip
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from network_samples import Link, link
from static_ip_node import NET, OURS, Machine, kernel, make_machine, parsed_keyfile, way

ELSEWHERE = link(interface="eth2", addresses=["10.1.0.11/24"])


def with_a_second_card(machine: Machine, *links: dict[str, Any]) -> Machine:
    """Confirm the links, then add a second interface."""
    for name, value in (("type", "1"), ("ifindex", "3")):
        device = machine.root / "sys/class/net/eth2"
        device.mkdir(exist_ok=True)
        (device / name).write_text(value + "\n")
    if links:
        machine.run(links=list(links))
    machine.kernel = [kernel(OURS), kernel(name="eth2")]
    return machine


@pytest.mark.parametrize("backend", ["networkmanager", "netplan"])
@pytest.mark.parametrize("check", [True, False])
def test_an_interface_that_carries_ssh_is_not_let_go(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch, backend: str, check: bool
) -> None:
    """It would work until the next boot, which would not bring it up."""
    machine = with_a_second_card(make_machine(tmp_path, backend, monkeypatch), link())
    own_files = {path: Path(path).read_text() for path in machine.ours()}
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.11", "22"]
    )
    words = r"IP-120\] eth1 carries this connection, to 10\.0\.0\.11: .*fullmesh_links.*undo\.yml"
    with pytest.raises(network_links.LinkError, match=words):
        machine.call(links=[ELSEWHERE], check=check)
    assert {path: Path(path).read_text() for path in machine.ours()} == own_files
    # it may be removed if the other interface gets that address, or if ssh uses another one
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
    # another one stays, that of a foreign interface
    machine.routes = {"-4": [NET, way(), way(dev="eth0", metric=100)]}
    assert machine.call(links=[ELSEWHERE], check=True)["changed"]


def test_configuration_of_others_may_be_replaced(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of our files gives eth1 its address, and none removes it."""
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
        # an address on another interface does not save the others
        (["10.5.0.11/24"], ["10.0.0.11", "fd00::11"]),
        (["fd00::11/64", "10.0.0.11/24"], ["10.5.0.11"]),
        (["10.0.0.11/24", "10.5.0.11/24", "fd00::11/64"], []),
    ],
)
def test_addresses_without_a_link_are_lost_or_kept(
    file: str, stays: list[str], lost: list[str]
) -> None:
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
    # nothing is about to change, so a manual route does not matter
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
        # a router advertisement: off in our files, and not in theirs
        (kernel(OURS), way(protocol="ra"), link()),
        # a route of another interface, which stays with its lease
        (kernel(OURS), way(dev="eth0", protocol="dhcp"), link()),
        # a VLAN's parent keeps its own files
        (
            kernel({"local": "10.0.0.15", "dynamic": True}),
            way(protocol="dhcp"),
            link(interface="eth1.7", vlan={"id": 7, "parent": "eth1"}),
        ),
        # a change of the address: tried, and reverted if it is wrong
        (kernel({"local": "10.0.0.50"}), way(), link()),
        # a gateway that is no neighbor of the new address cannot be configured
        (kernel({"local": "10.7.0.5", "dynamic": True}), way(via="10.7.0.1"), link()),
    ],
)
def test_a_default_route_is_kept_only_if_the_link_needs_it(
    machine: Machine, seen: dict[str, Any], route: dict[str, Any], wanted: Link
) -> None:
    machine.kernel, machine.routes = [seen], {"-4": [route]}
    assert machine.call(check=True, links=[wanted])["changed"]


def test_a_default_route_of_another_interface_is_no_obstacle(machine: Machine) -> None:
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
