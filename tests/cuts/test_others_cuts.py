"""Cut an interface that has foreign routing and configuration, and check that both are restored.

Policy rules, other tables, multipath routes and nexthop ids are real in a container, because it has
its own network namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .conftest import Cut, Lab, Node
from .test_cuts import came_back, says

MakeCut = Callable[[str], Cut]
# eth9 is another interface of the node, which no run changes. No route of it leads to the source of
# ssh.
MAKE = """
set -e
ip link add eth9 type veth peer name elsewhere9
ip link set elsewhere9 up && ip link set eth9 up && ip address add 192.0.2.1/24 dev eth9
ip route add default via {gateway} dev eth1 table 100
ip route add blackhole 203.0.113.0/24 table 100
ip rule add priority 5000 from 192.0.2.0/24 lookup 100
ip rule add priority 5001 fwmark 0x7 iif eth9 lookup 100
ip route add 198.51.100.0/25 metric 20 nexthop via {gateway} dev eth1 weight 3 nexthop via 192.0.2.2 dev eth9 weight 1
ip nexthop add id 7001 via {gateway} dev eth1
ip nexthop add id 7002 via 192.0.2.2 dev eth9
ip nexthop add id 7010 group 7001,3/7002
ip route add 198.51.100.128/26 nhid 7001
ip route add 198.51.100.192/26 nhid 7010
"""
GONE = """
ip route flush table 100; ip rule del priority 5000; ip rule del priority 5001
ip route del 198.51.100.0/25; ip nexthop flush; ip link del eth9
"""
# The current state (linkdown) of a nexthop or route is not a setting.
LOOK = """
ip rule show
ip -o route show table 100
ip -o route show 198.51.100.0/25
ip -o route show 198.51.100.128/26
ip -o route show 198.51.100.192/26
ip -o nexthop show
"""


def list_foreign_entries(node: Node) -> list[str]:
    """Return the foreign entries in the kernel."""
    return [" ".join(line.split()) for line in node.run(LOOK).splitlines()]


@pytest.fixture
def routed(lab: Lab) -> Iterator[Lab]:
    """Make nodes with policy routing, a route over two interfaces, and nexthop objects."""
    for node in lab.nodes:
        node.run(MAKE.format(gateway=lab.gateway))
    try:
        yield lab
    finally:
        for node in lab.nodes:
            node.run(GONE)


@pytest.mark.rest
@pytest.mark.parametrize("spoilt", ["gateway", "address"])
def test_rules_tables_and_nexthops_are_restored(routed: Lab, cut: MakeCut, spoilt: str) -> None:
    before = {node.name: list_foreign_entries(node) for node in routed.nodes}
    for seen in before.values():
        assert sum(" id 7010 group" in f" {line}" for line in seen) == 1
        assert sum(line.startswith("500") for line in seen) == 2

    def wrong(node: Node) -> dict[str, object]:
        if spoilt == "gateway":
            return routed.link(node, gateway=routed.at("99"))
        elsewhere = f"10.77.{routed.index}.{node.planned.split('.')[3]}"
        return routed.link(node, addresses=[elsewhere], gateway="")

    with cut(f"others' rules, tables and nexthops, wrong {spoilt}"):
        words = routed.start(wrong).end()
    came_back(words, routed)
    assert {node.name: list_foreign_entries(node) for node in routed.nodes} == before


# Foreign settings in a profile or file: the setting, the command that writes it, its undo.
LEAVES = {
    "el": (
        "f=$(nmcli -g UUID,DEVICE connection show --active | sed -n 's/:eth1$//p');"
        " nmcli connection modify $f connection.zone work",
        "f=$(nmcli -g UUID,DEVICE connection show --active | sed -n 's/:eth1$//p');"
        " nmcli connection modify $f connection.zone ''",
        "connection.zone=work",
    ),
    "ubuntu": (
        "printf 'network: {version: 2, ethernets: {eth1: {dhcp4: true}}}\\n' > /etc/netplan/00-site.yaml"
        " && chmod 600 /etc/netplan/00-site.yaml",
        "rm /etc/netplan/00-site.yaml",
        "/etc/netplan/00-site.yaml configures eth1 in a form that Fullmesh cannot edit line by line",
    ),
    "debian": (
        "printf 'iface eth1 inet static\\n    address 192.0.2.9/24\\n    post-up tc qdisc add dev eth1 root fq\\n'"
        " > /etc/network/interfaces.d/site",
        "rm /etc/network/interfaces.d/site",
        "tc qdisc add dev eth1 root fq",
    ),
}


def get_leaves(node: Node) -> tuple[str, str, str]:
    """Return the entry of the node's system."""
    return LEAVES[node.family.rstrip("0123456789")]


@pytest.mark.rest
def test_a_profile_with_other_settings_is_refused(lab: Lab, cut: MakeCut) -> None:
    """A zone in EL's profile, a one-line netplan file, a command in Debian's stanza: named, and nothing is armed."""
    for node in lab.nodes:
        node.run(get_leaves(node)[0])
    try:
        with cut("settings that our profile would lose"):
            words = lab.start(lab.link).end()
            assert all(node.log() == "" for node in lab.nodes)
        says(words, "[IP-118]", *(get_leaves(node)[2] for node in lab.nodes))
    finally:
        for node in lab.nodes:
            node.run(get_leaves(node)[1])
