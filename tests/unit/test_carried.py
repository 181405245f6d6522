"""Separate the state of other programs on a reconfigured interface from that of its owner, in iproute2's output."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest
from ansible.module_utils.fullmesh.facts.configured import read_configured_networks
from ansible.module_utils.fullmesh.network import carried
from ansible.module_utils.fullmesh.transaction import engine

FILES = {
    "/etc/netplan/50-cloud-init.yaml": "network: {ethernets: {eth1: {addresses: [10.0.0.5/24]}}}\n",
    "/etc/sysconfig/network-scripts/route-eth1": "10.99.0.0/16 via 10.0.0.1 dev eth1\n",
    "/etc/network/interfaces": "iface eth1 inet6 static\n  address 2001:DB8::5\n  netmask 64\n",
    "/etc/hosts": "10.0.0.77 elsewhere\n",
}


def list_files(pattern: str) -> list[str]:
    return [path for path in FILES if fnmatch(path, pattern)]


KNOWN = read_configured_networks(FILES.__getitem__, list_files)


def view(routes: list[engine.Route], *addresses: str, up: bool = True) -> engine.KernelView:
    """One interface, with a lease."""
    lease = "10.0.0.9/24"
    return {
        "links": {
            "eth1": {
                "mtu": 1500,
                "up": up,
                "addresses": [lease, *addresses],
                "leases": [lease],
                "manner": {one: ["broadcast", "10.0.0.255"] for one in addresses},
            }
        },
        "routes": routes,
        "connected": [],
        "nexthops": ["id 7 via 10.0.0.8 dev eth1 proto zebra", "id 8 dev eth1 proto static"],
        "rules": [
            ["-4", "0", "from all lookup local"],
            ["-4", "5000", "from 172.17.0.0/16 lookup 100"],
            ["-4", "6000", "from all lookup 7 proto static"],
        ],
    }


def test_settings_in_an_owners_file_are_recognized_in_any_spelling() -> None:
    assert {"10.0.0.5", "10.99.0.0/16", "2001:db8::5"} <= KNOWN
    assert "10.0.0.77" not in KNOWN


def test_an_unowned_address_is_carried_over_but_no_lease() -> None:
    goal = carried.find_unowned_state(
        view([], "10.0.0.200/32", "10.0.0.5/24", "2001:db8::5/64"), KNOWN
    )
    assert goal["links"]["eth1"]["addresses"] == ["10.0.0.200/32"]
    assert goal["links"]["eth1"]["manner"] == {"10.0.0.200/32": ["broadcast", "10.0.0.255"]}
    # a card that is down keeps nothing alive, and is not brought up for that
    assert carried.find_unowned_state(view([], "10.0.0.200/32", up=False), KNOWN)["links"] == {}


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("198.51.100.0/24 via 10.0.0.8 proto bird metric 32", True),
        ("default via 10.0.0.8 proto zebra metric 20", True),
        ("192.0.2.0/24 via 10.0.0.8", True),
        ("default via 10.0.0.1 table 100", True),
        ("default via 10.0.0.1", False),
        ("default via 10.0.0.1 proto dhcp metric 100", False),
        ("10.5.0.0/16 via 10.0.0.1 proto static", False),
        ("10.5.0.0/16 via 10.0.0.1 table 100 proto static", False),
        ("10.99.0.0/16 via 10.0.0.1", False),
        ("2001:db8:1::/64 proto ra metric 1024 pref medium", False),
    ],
)
def test_routes_of_daemons_and_by_hand_are_carried_over(line: str, kept: bool) -> None:
    goal = carried.find_unowned_state(view([["-4", "eth1", line]]), KNOWN)
    assert [one[2] for one in goal["routes"]] == [line] * kept
    assert goal["connected"] == []
    assert goal["ours"] == {"addresses": {}, "routes": []}


def test_rules_and_nexthops_of_others_are_and_owners_are_not() -> None:
    goal = carried.find_unowned_state(view([]), KNOWN)
    assert [one[1] for one in goal["rules"]] == ["0", "5000"]
    assert goal["nexthops"] == ["id 7 via 10.0.0.8 dev eth1 proto zebra"]
    assert carried.has_unowned_state(goal)
    nothing = view([])
    nothing["rules"], nothing["nexthops"] = nothing["rules"][:1], []
    assert not carried.has_unowned_state(carried.find_unowned_state(nothing, KNOWN))


def test_settings_lost_by_the_change_are_named_with_their_command() -> None:
    said = carried.describe_lost_state(["ip -4 route replace 192.0.2.0/24 via 10.0.0.8 dev eth1"])
    assert said.startswith("[IP-121]")
    assert "`ip -4 route replace 192.0.2.0/24 via 10.0.0.8 dev eth1`" in said
