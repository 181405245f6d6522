"""Rails in the inventory: each node's links on them, and every fault of them at once."""

from __future__ import annotations

import configparser
import ipaddress
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network import change, checks, machine, static_ip
from ansible.module_utils.fullmesh.network.backends import netplan, networkd, networkmanager
from fact_samples import facts
from hypothesis import given
from hypothesis import strategies as st
from network_samples import Link, link

from fullmesh.faults import InvalidInputError
from fullmesh.model import membership, plan, rails
from fullmesh.model.node_view import resolve_node_interfaces
from fullmesh.model.types import ClusterPlan
from fullmesh.roles import cluster_env, preflight
from fullmesh.roles import static_ip as static_ip_role
from fullmesh.settings import ROOT

Hosts = dict[str, dict[str, Any]]
FIRST = {"name": "rail0", "nic": "ens1", "pool": "10.10.0.0/24", "mtu": 9000}
SECOND = {"name": "rail1", "nic": "ens2", "pool": "10.10.1.0/24", "mtu": 9000}
RING = {
    "name": "ring",
    "pool": "10.20.0.0/24",
    "mtu": 9000,
    "cables": [{"a": "p0", "b": "p1"}, {"b": "p0", "c": "p1"}, {"c": "p0", "a": "p1"}],
}


def hosts(*given: dict[str, Any], names: str = "abc", **more: Any) -> Hosts:
    return {
        name: {
            "fullmesh_address": f"192.168.0.{at}/24",
            "fullmesh_interface": "eth0",
            "fullmesh_rails": list(given),
            **more,
        }
        for at, name in enumerate(names, 11)
    }


def derive(*given: dict[str, Any], names: str = "abc", **more: Any) -> ClusterPlan:
    return plan.derive_plan(hosts(*given, names=names, **more))


def refused(*given: Any, names: str = "abc", **more: Any) -> list[str]:
    with pytest.raises(InvalidInputError) as found:
        plan.derive_plan(hosts(*given, names=names, **more))
    return [str(fault) for fault in found.value.faults]


def codes(*given: Any, names: str = "abc", **more: Any) -> list[str]:
    return [text[1:7] for text in refused(*given, names=names, **more)]


def on(made: ClusterPlan, host: str) -> dict[str, tuple[str, str]]:
    """A host's NIC and address on each rail."""
    links = made["nodes"][host]["links"]
    nics = {
        one["rail"]: one["interface"] or one["mac"] or one["pattern"]
        for one in links
        if "rail" in one
    }
    held = {one["rail"]: one["addresses"][0] for one in links if "rail" in one}
    return {name: (nics[name], held[name]) for name in nics}


def test_a_cluster_without_rails_has_no_rail_settings() -> None:
    made = derive()
    assert "rails" not in made
    assert "rail" not in made["nodes"]["a"]["links"][0]
    assert "4791/udp" not in made["open_ports"]


def test_each_address_is_at_the_place_of_the_cluster_address() -> None:
    made = derive(FIRST, SECOND)
    assert on(made, "b") == {"rail0": ("ens1", "10.10.0.12/24"), "rail1": ("ens2", "10.10.1.12/24")}
    assert [one["mtu"] for one in made["nodes"]["b"]["links"]] == [0, 9000, 9000]
    assert made["nodes"]["b"]["address"] == "192.168.0.12"


def test_peers_and_the_roce_port_are_open() -> None:
    made = derive(FIRST)
    assert made["peers"][:2] == ["192.168.0.11", "10.10.0.11"]
    assert made["open_ports"][-1] == "4791/udp"


def test_the_peers_of_each_rail() -> None:
    made = derive(FIRST, RING)
    assert rails.list_rail_peers(made["rails"], "a") == {
        "rail0": {"b": "10.10.0.12", "c": "10.10.0.13"},
        "ring/1": {"b": "10.20.0.2"},
        "ring/3": {"c": "10.20.0.9"},
    }


def test_a_node_that_joins_changes_no_other_node() -> None:
    two, three = derive(FIRST, SECOND, names="ab"), derive(FIRST, SECOND, names="abc")
    for name in "ab":
        same = [membership.select_node_state(made, name) for made in (two, three)]
        assert same[0] == same[1]
    assert membership.compute_list_digest(two) != membership.compute_list_digest(three)


def test_a_node_that_opens_a_ring_changes_the_variables_of_every_node() -> None:
    """Between a and b no cable changes, but now no tree joins the nodes of the ring."""
    four = ["a", "b", "c", "d", "a"]
    longer = {**RING, "cables": [{x: "p0", y: "p1"} for x, y in zip(four, four[1:], strict=False)]}
    made = [derive(RING), derive(longer, names="abcd")]
    assert on(made[0], "b") == on(made[1], "b")
    same = [membership.select_node_state(one, "b") for one in made]
    assert same[0] != same[1]


def test_a_nic_may_be_a_mac_a_pattern_or_one_for_each_node() -> None:
    each = {"a": "02:00:00:00:00:0A", "b": "ens*f0", "c": "p9"}
    made = derive({**FIRST, "nic": each})
    assert [on(made, name)["rail0"][0] for name in "abc"] == ["02:00:00:00:00:0a", "ens*f0", "p9"]
    assert made["nodes"]["b"]["links"][1]["interface"] == ""


def test_the_cluster_nic_becomes_a_rail_with_its_address() -> None:
    made = derive({"name": "twin0", "nic": "eth0", "mtu": 9000}, SECOND)
    links = made["nodes"]["a"]["links"]
    assert [(one["interface"], one["rail"], one["mtu"]) for one in links] == [
        ("eth0", "twin0", 9000),
        ("ens2", "rail1", 9000),
    ]
    assert on(made, "a")["twin0"] == ("eth0", "192.168.0.11/24")
    assert made["rails"][0]["members"]["c"] == "192.168.0.13"


def test_rails_in_networks_of_their_own_need_no_table() -> None:
    assert [one.get("table", 0) for one in derive(FIRST, SECOND)["nodes"]["a"]["links"]] == [
        0,
        0,
        0,
    ]


def shared(number: int) -> dict[str, Any]:
    given = {name: f"10.10.0.{at + 50 * number}/24" for at, name in enumerate("abc", 11)}
    return {"name": f"rail{number}", "nic": f"ens{number}", "addresses": given}


def test_rails_in_one_network_get_a_table_each() -> None:
    made = derive(shared(0), SECOND, shared(3))
    tables = {one.get("rail"): one.get("table") for one in made["nodes"]["a"]["links"]}
    assert tables == {None: None, "rail0": 30100, "rail1": 0, "rail3": 30102}


def test_the_cluster_nic_as_a_rail_shares_its_network_too() -> None:
    given = {name: f"192.168.0.{at}/24" for at, name in enumerate("abc", 111)}
    made = derive(
        {"name": "one", "nic": "eth0"}, {"name": "two", "nic": "ens1", "addresses": given}
    )
    assert [one["table"] for one in made["nodes"]["c"]["links"]] == [30100, 30101]


def test_each_cable_of_a_ring_has_a_network_of_its_own() -> None:
    made = derive(RING)
    assert on(made, "a") == {"ring/1": ("p0", "10.20.0.1/30"), "ring/3": ("p1", "10.20.0.10/30")}
    assert on(made, "c") == {"ring/2": ("p1", "10.20.0.6/30"), "ring/3": ("p0", "10.20.0.9/30")}
    assert [one["network"] for one in made["rails"]] == [
        "10.20.0.0/30",
        "10.20.0.4/30",
        "10.20.0.8/30",
    ]
    assert all(one["cable"] for one in made["rails"])


def test_both_twins_of_a_port_get_a_network() -> None:
    cable = {"a": ["enp1s0f0np0", "enP2p1s0f0np0"], "b": ["enp1s0f0np0", "enP2p1s0f0np0"]}
    made = derive({"name": "spark", "pool": "10.20.0.0/29", "cables": [cable]}, names="ab")
    assert on(made, "b") == {
        "spark/1": ("enp1s0f0np0", "10.20.0.2/30"),
        "spark/2": ("enP2p1s0f0np0", "10.20.0.6/30"),
    }


def ring_of_four() -> dict[str, Any]:
    order = ["a", "b", "c", "d", "a"]
    cables = [{one: "p0", two: "p1"} for one, two in zip(order, order[1:], strict=False)]
    return {**RING, "cables": cables}


def test_a_ring_of_four_reaches_its_neighbours_only() -> None:
    made = derive(ring_of_four(), names="abcd")
    reached = rails.list_rail_peers(made["rails"], "a")
    assert {host for peers in reached.values() for host in peers} == {"b", "d"}


def test_every_fault_comes_at_once() -> None:
    found = codes(
        {**FIRST, "nic": {"a": "ens1", "b": "ens1"}},
        {**SECOND, "pool": "10.10.1.0/29"},
        {"name": "odd", "speed": 400},
        {**RING, "cables": RING["cables"][:2]},
    )
    assert found == ["PL-137", "PL-138", *["PL-139"] * 3, "PL-141"]


@pytest.mark.parametrize(
    ("given", "code", "word"),
    [
        ("fast", "PL-137", "cannot read 'fast'"),
        ({**FIRST, "vlan": 7}, "PL-137", "vlan"),
        ({**FIRST, "name": ""}, "PL-137", "name ''"),
        ({**FIRST, "name": "a b"}, "PL-137", "name 'a b'"),
        ({**FIRST, "nic": "en s"}, "PL-137", "not the name, MAC or pattern"),
        ({**FIRST, "nic": "a" * 33}, "PL-137", "not the name, MAC or pattern"),
        ({**FIRST, "pool": "10.10.0.1/24"}, "PL-137", "host bits"),
        ({**FIRST, "pool": "127.0.0.0/8"}, "PL-137", "no addresses for hosts"),
        ({**FIRST, "mtu": 90}, "PL-123", "mtu '90'"),
        ({**FIRST, "nic": None}, "PL-138", "a has no NIC"),
        ({**FIRST, "nic": {"a": "e", "b": "e"}}, "PL-138", "c has no NIC"),
        (
            {**FIRST, "nic": dict.fromkeys("abcx", "e")},
            "PL-138",
            "'x', which is not in torch_nodes",
        ),
        ({"name": "r", "nic": "ens1"}, "PL-138", "a, b, c has no address"),
        ({**FIRST, "addresses": {}}, "PL-137", "addresses is {}"),
        ({"name": "r", "nic": "e", "addresses": "10.1.0.1/24"}, "PL-137", "addresses is"),
        ({**shared(0), "addresses": {"a": "10.1.0.1/24"}}, "PL-138", "b has no address"),
        ({**shared(0), "addresses": dict.fromkeys("abc", "10.1.0.1")}, "PL-104", "no prefix"),
        ({**shared(0), "addresses": dict.fromkeys("abc", "10.1.0.1/24")}, "PL-105", "a, b, c"),
        (
            {
                **shared(0),
                "addresses": {"a": "10.1.0.1/24", "b": "10.1.0.2/24", "c": "10.2.0.3/24"},
            },
            "PL-137",
            "10.1.0.0/24 and 10.2.0.0/24",
        ),
        ({**FIRST, "pool": "10.10.0.0/29"}, "PL-139", "too small for address 11"),
        ({**FIRST, "pool": "10.10.0.0/28", "mtu": 1500}, "", ""),
        ({**FIRST, "pool": "192.168.0.0/24"}, "PL-140", "overlaps 192.168.0.0/24 of eth0"),
        ({**FIRST, "pool": "192.168.0.0/16"}, "PL-140", "overlaps 192.168.0.0/24 of eth0"),
        ({**FIRST, "nic": "eth0"}, "PL-137", "already has the address of a link"),
        ({"name": "r", "nic": "eth0", "cables": []}, "PL-137", "cables need a pool"),
        ({**RING, "nic": "eth0"}, "PL-137", "cables need a pool"),
        ({**RING, "cables": "all"}, "PL-137", "'all'"),
        ({**RING, "cables": [{"a": "p0"}]}, "PL-137", "does not have two ends"),
        ({**RING, "cables": [{"a": ["p0", "p2"], "b": "p1"}]}, "PL-137", "different numbers"),
        ({**RING, "cables": [{"a": "p0", "x": "p1"}]}, "PL-138", "'x', which is not in"),
        ({**RING, "cables": RING["cables"][:2]}, "PL-141", "a has cables to b"),
        ({**RING, "cables": []}, "PL-141", "a has cables to no node"),
        ({**RING, "pool": "10.20.0.0/29"}, "PL-139", "room for 2 networks, but the cables need 3"),
        ({**RING, "pool": "10.20.0.0/31"}, "PL-139", "room for 0 networks"),
        (
            {
                **RING,
                "cables": [{"a": "p0", "b": "p1"}, {"b": "p0", "c": "p1"}, {"c": "p0", "a": "p0"}],
            },
            "PL-138",
            "p0 of a already belongs to rail ring/1",
        ),
        (
            {**RING, "cables": [{"a": "eth0", "b": "p1"}, *RING["cables"][1:]]},
            "PL-138",
            "eth0 of a already belongs to a link",
        ),
    ],
)
def test_a_bad_rail_has_a_code(given: Any, code: str, word: str) -> None:
    if not code:
        assert derive(given)["rails"]
        return
    found = refused(given)
    assert any(text.startswith(f"[{code}]") and word in text for text in found), found


@pytest.mark.parametrize(
    ("first", "second", "code", "word"),
    [
        (FIRST, {**SECOND, "name": "rail0"}, "PL-137", "two rails are called rail0"),
        (FIRST, {**SECOND, "nic": "ens1"}, "PL-138", "ens1 of a already belongs to rail rail0"),
        (FIRST, {**SECOND, "pool": "10.10.0.0/24"}, "PL-140", "rail0 and rail1 overlap"),
        (FIRST, {**SECOND, "pool": "10.10.0.0/16"}, "PL-140", "rail0 and rail1 overlap"),
        (FIRST, {**shared(2)}, "PL-140", "rail0 and rail2 overlap"),
        (FIRST, {**RING, "pool": "10.10.0.128/25"}, "PL-140", "rail0 and ring overlap"),
        ({"name": "x", "nic": "eth0"}, {"name": "y", "nic": "eth0"}, "PL-138", "belongs to rail x"),
    ],
)
def test_two_rails_that_conflict(first: Any, second: Any, code: str, word: str) -> None:
    found = refused(first, second)
    assert any(text.startswith(f"[{code}]") and word in text for text in found), found


def test_two_ipv6_rails_may_not_share_a_network() -> None:
    each = [
        {
            "name": f"r{n}",
            "nic": f"e{n}",
            "addresses": {h: f"fd00::{n}{at}/64" for at, h in enumerate("abc", 1)},
        }
        for n in (1, 2)
    ]
    assert codes(*each) == ["PL-140"]


IPV6 = [{**FIRST, "pool": "fd00:10::/64"}, {**SECOND, "pool": "fd00:11::/64"}]


def test_rails_with_ipv6_on_an_ipv4_cluster_have_their_addresses_from_pools() -> None:
    made = derive(*IPV6)
    assert made["family"] == "ipv4"
    assert on(made, "b") == {
        "rail0": ("ens1", "fd00:10::c/64"),
        "rail1": ("ens2", "fd00:11::c/64"),
    }
    assert {"fd00:10::b", "fd00:11::d"} <= {*made["peers"]}


def test_rails_of_both_families_are_refused_because_nccl_uses_one() -> None:
    (fault,) = refused(FIRST, IPV6[1])
    assert fault.startswith("[PL-137] fullmesh_rails: rail0 IPv4 and rail1 IPv6 addresses. ")
    held = {"name": "rail0", "nic": "eth0"}  # the cluster's NIC, with its address
    assert codes(held, IPV6[1]) == ["PL-137"]


def test_an_mtu_of_link_and_rail_must_be_the_same() -> None:
    own = {"fullmesh_address": None, "fullmesh_links": None}
    given = hosts({"name": "r", "nic": "eth0", "mtu": 9000}, names="ab", **own)
    for at, host in enumerate(given.values(), 11):
        host["fullmesh_links"] = [
            {"interface": "eth0", "addresses": f"192.168.0.{at}/24", "mtu": 1500}
        ]
    with pytest.raises(InvalidInputError, match="r has MTU 9000, but eth0 of a 1500"):
        plan.derive_plan(given)


def test_a_member_of_a_bond_is_no_rail() -> None:
    given = hosts(FIRST, names="ab")
    for host in given.values():
        host["fullmesh_links"] = [{"bond": {"mode": "802.3ad", "members": ["ens1", "ens3"]}}]
    with pytest.raises(InvalidInputError, match="ens1 of a already belongs to a bond"):
        plan.derive_plan(given)


def test_rails_differ_between_hosts() -> None:
    given = hosts(FIRST, names="ab")
    given["b"]["fullmesh_rails"] = [SECOND]
    with pytest.raises(InvalidInputError, match="PL-108"):
        plan.derive_plan(given)


def test_a_node_without_a_cluster_address_has_only_that_fault() -> None:
    given = hosts(FIRST, RING)
    del given["b"]["fullmesh_address"]
    with pytest.raises(InvalidInputError) as found:
        plan.derive_plan(given)
    assert [fault.code for fault in found.value.faults] == ["PL-103"]


@given(
    st.integers(min_value=2, max_value=60),
    st.integers(min_value=1, max_value=8),
    st.integers(min_value=16, max_value=24),
)
def test_derived_addresses_are_in_their_pool_and_unique(
    nodes: int, count: int, prefix: int
) -> None:
    pools = list(ipaddress.ip_network("10.0.0.0/8").subnets(new_prefix=prefix))[:count]
    given = [
        {"name": f"r{at}", "nic": f"e{at}", "pool": str(pool)} for at, pool in enumerate(pools)
    ]
    made = plan.derive_plan(
        {
            f"n{at}": {"fullmesh_address": f"192.168.0.{at}/24", "fullmesh_rails": given}
            for at in range(1, nodes + 1)
        }
    )
    every = [ipaddress.ip_address(at) for rail in made["rails"] for at in rail["members"].values()]
    assert len(set(every)) == nodes * count == len(every)
    for rail, pool in zip(made["rails"], pools, strict=True):
        assert all(ipaddress.ip_address(at) in pool for at in rail["members"].values())


# --- on a node ------------------------------------------------------------------------------------


def interface(name: str, **more: Any) -> Any:
    plain = {"name": name, "kind": "", "mac": "02:00:00:00:00:01", "addresses": [], "mtu": 1500}
    return {**plain, "state": "up", "carrier": True, "speed": 0, **more}


PATTERN = {**FIRST, "nic": "ens*f0"}


@pytest.mark.parametrize(
    ("names", "found", "said"),
    [
        (["eth0", "ens3f0", "ens3f1"], "ens3f0", ""),
        (["eth0", "ens3f0", "ens9f0"], "ens3f0", ""),
        (["eth0", "ens3f0", "ens4f0"], "", "found ens3f0, ens4f0"),
        (["eth0", "ENS3f0"], "", "found none"),
    ],
)
def test_a_pattern_finds_exactly_one_nic(names: list[str], found: str, said: str) -> None:
    """ens9f0 is a VLAN, which is no NIC."""
    seen = [interface(name, kind="vlan" if name == "ens9f0" else "") for name in names]
    node = resolve_node_interfaces(derive(PATTERN), "a", seen)
    assert node["links"][1]["interface"] == found
    faults = static_ip_role.find_static_ip_faults(node["links"], 30)
    assert [fault.code for fault in faults] == ([] if found else ["IP-109"])
    early = preflight._find_link_faults(derive(PATTERN), "a", facts(interfaces=seen))
    words = f"rail rail0 needs one interface ens*f0, {said}"
    assert [words in str(fault) for fault in early if fault.code == "PR-104"] == [True][: len(said)]


RAIL: Link = link(addresses=["10.10.0.11/24"], rail="rail0", table=30100, pattern="")
RULE = {"priority": 30100, "src": "10.10.0.11", "table": "30100"}
WAY = {"dst": "10.10.0.0/24", "dev": "eth1", "table": "30100", "prefsrc": "10.10.0.11"}
MAIN = {"priority": 32766, "src": "all", "table": "main"}


def test_networkmanager_gets_the_table_and_its_rule() -> None:
    parser = configparser.ConfigParser()
    parser.read_string(networkmanager.render_keyfile(RAIL))
    found = {key: value for key, value in parser["ipv4"].items() if key.startswith("rout")}
    assert found == {
        "route1": "10.10.0.0/24",
        "route1_options": "src=10.10.0.11,table=30100",
        "routing-rule1": "priority 30100 from 10.10.0.11 table 30100",
    }
    assert "routing-rule1" not in parser["ipv6"]


def test_netplan_gets_the_table_and_its_rule() -> None:
    routed = {**RAIL, "routes": [{"to": "10.9.0.0/16", "via": "10.10.0.1"}]}
    entry = yaml.safe_load(netplan.render_netplan([routed]))["network"]["ethernets"]["eth1"]
    assert entry["routes"] == [
        {"to": "10.9.0.0/16", "via": "10.10.0.1"},
        {"to": "10.10.0.0/24", "scope": "link", "from": "10.10.0.11", "table": 30100},
    ]
    assert entry["routing-policy"] == [{"from": "10.10.0.11", "table": 30100, "priority": 30100}]


def test_networkd_gets_the_table_and_its_rule() -> None:
    text = networkd.build_files([RAIL])["/etc/systemd/network/00-fullmesh-eth1.network"]
    assert text.endswith(
        "[Route]\nDestination=10.10.0.0/24\nScope=link\nPreferredSource=10.10.0.11\nTable=30100\n\n"
        "[RoutingPolicyRule]\nFrom=10.10.0.11\nTable=30100\nPriority=30100\n"
    )


@pytest.mark.parametrize("backend", [networkmanager, netplan, networkd])
def test_a_rail_with_a_network_of_its_own_has_no_table(backend: Any) -> None:
    alone = {**RAIL, "table": 0}
    assert backend.build_files([alone]) == backend.build_files([link(addresses=["10.10.0.11/24"])])


@pytest.mark.parametrize(
    ("rules", "ways", "words"),
    [
        ([RULE, MAIN], [WAY], []),
        ([MAIN], [WAY], ["no rule from 10.10.0.11 to table 30100"]),
        ([{**RULE, "priority": 100}], [WAY], ["no rule from"]),
        ([{**RULE, "src": "10.10.0.12"}], [WAY], ["no rule from"]),
        ([RULE], [], ["no route to 10.10.0.0/24 on eth1 in table 30100"]),
        ([RULE], [{**WAY, "dev": "eth2"}], ["no route to"]),
        ([RULE], [{**WAY, "table": "local"}], ["no route to"]),
        ([], [], ["no rule from", "no route to"]),
    ],
)
def test_a_table_that_is_incomplete_is_a_difference(
    rules: list[Any], ways: list[Any], words: list[str]
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str]) -> tuple[int, str, str]:
        asked.append(command)
        return 0, json.dumps(rules if "rule" in command else ways), ""

    found = machine.NetworkNode(run).lacking_tables([RAIL, link(interface="eth2")])
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))
    assert static_ip.find_table_faults(link(), "[]", "[]") == []
    asked.clear()
    assert machine.NetworkNode(run).lacking_tables([link()]) == []
    assert asked == []


def test_ifupdown_refuses_rails_in_one_network() -> None:
    checks.refuse_missing_tables(
        [RAIL, link(interface="eth2")], {"eth1": "netplan", "eth2": "ifupdown"}
    )
    with pytest.raises(checks.LinkError, match=r"^\[IP-123\] eth1 is a rail"):
        checks.refuse_missing_tables([RAIL], {"eth1": "ifupdown"})


def test_the_tables_whose_rules_a_rollback_removes() -> None:
    rules = [["-4", "0", "from all lookup local"], ["-4", "30107", "from 10.9.0.1 lookup 30107"]]
    assert change.list_rail_tables([RAIL, link()], rules) == [30100, 30107]
    assert change.list_rail_tables([link()], rules[:1]) == []
    nothing: Any = {"owners": {}, "names": {}}
    assert change.build_restore_commands(nothing) == []
    assert change.build_restore_commands(nothing, [30100]) == [change.build_rule_removal(30100)]


@pytest.mark.parametrize("there", [True, False])
def test_the_command_that_removes_a_rule(there: bool, tmp_path: Path) -> None:
    rule = "30100: from 10.10.0.11 lookup 30100" if there else ""
    tool = tmp_path / "ip"
    tool.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\necho "{rule}"\n')
    tool.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(change.build_rule_removal(30100), env=path, check=True, capture_output=True)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == [
        "-4 rule show priority 30100",
        *(["-4 rule del priority 30100 table 30100"] if there else []),
    ]


# --- the environment of jobs ----------------------------------------------------------------------


def port(device: str, nic: str) -> dict[str, Any]:
    gids = [{"index": 0, "type": "RoCE v2", "gid": "fe80::1", "interface": nic}]
    return {
        "device": device,
        "port": 1,
        "driver": "mlx5_core",
        "layer": "Ethernet",
        "active": True,
        "gids": gids,
    }


def environment(made: ClusterPlan, *nics: str, host: str = "a") -> dict[str, str]:
    ports = [port(f"mlx5_{at}", nic) for at, nic in enumerate(nics)]
    seen = facts(hcas=[one["device"] for one in ports], rdma=ports)
    env = cluster_env.build_environment(made, made["nodes"][host], seen)
    names = ("NCCL_IB_", "NCCL_CROSS", "NCCL_ALGO", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
    return {name: value for name, value in env.items() if name.startswith(names)}


def test_nccl_uses_the_devices_of_the_rails_and_sockets_stay_on_the_cluster_nic() -> None:
    assert environment(derive(FIRST, SECOND), "eth0", "ens1", "ens2") == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_IB_HCA": "=mlx5_1:1,mlx5_2:1",
        "NCCL_CROSS_NIC": "0",
    }


def test_rails_that_all_reach_each_other_leave_the_choice_to_nccl() -> None:
    assert "NCCL_CROSS_NIC" not in environment(derive(shared(0), shared(1)), "ens0", "ens1")
    assert "NCCL_CROSS_NIC" not in environment(derive(FIRST), "ens1")


def test_a_ring_of_three_crosses_nics() -> None:
    found = environment(derive(RING), "eth0", "p0", "p1")
    assert found["NCCL_IB_HCA"] == "=mlx5_1:1,mlx5_2:1"
    assert (found["NCCL_CROSS_NIC"], found["NCCL_IB_MERGE_NICS"]) == ("1", "0")
    assert found["NCCL_IB_SUBNET_AWARE_ROUTING"] == "1"
    assert "NCCL_ALGO" not in found


def test_a_ring_of_four_has_no_trees() -> None:
    found = environment(derive(ring_of_four(), names="abcd"), "p0", "p1")
    assert found["NCCL_ALGO"] == "Ring"


def test_twins_between_two_nodes_stay_apart() -> None:
    cable = {"a": ["p0", "P0"], "b": ["p0", "P0"]}
    made = derive({"name": "s", "pool": "10.20.0.0/24", "cables": [cable]}, names="ab")
    found = environment(made, "p0", "P0", host="b")
    assert (found["NCCL_CROSS_NIC"], "NCCL_IB_MERGE_NICS" in found) == ("0", False)


@pytest.mark.parametrize(("cluster", "rails_"), [(4, 6), (6, 4), (6, 6), (4, 4)])
def test_the_family_of_the_gids_is_that_of_the_rails(cluster: int, rails_: int) -> None:
    """NCCL takes a link-local GID of RoCE v1 if a port has no address of its family."""
    own = hosts(*(IPV6 if rails_ == 6 else [FIRST, SECOND]))
    for at, host in enumerate(own.values(), 11):
        host["fullmesh_address"] = f"fd01::{at:x}/64" if cluster == 6 else f"192.168.0.{at}/24"
    found = environment(plan.derive_plan(own), "eth0", "ens1", "ens2")
    assert found.get("NCCL_IB_ADDR_FAMILY") == ("AF_INET6" if rails_ == 6 else None)


def test_no_gid_is_pinned() -> None:
    for made in (derive(FIRST, SECOND), derive(RING)):
        assert not [name for name in environment(made, "ens1", "p0", "p1") if "GID" in name]


# --- the page -------------------------------------------------------------------------------------

H100_NICS = [f"enp{bus}s0np0" for bus in (26, 60, 77, 94, 156, 188, 204, 220)]
SPARK_NICS = ["enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1"]
# Section -> the existing NICs, and for the last node: its addresses on the rails, and NCCL's variables.
PRESETS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "Two DGX Sparks": (
        SPARK_NICS[1::2],
        ["192.168.100.11/24", "192.168.101.11/24"],
        {"NCCL_IB_HCA": "=mlx5_1:1,mlx5_2:1", "NCCL_CROSS_NIC": "0"},
    ),
    "Ring of three nodes": (
        SPARK_NICS,
        ["10.20.0.10/30", "10.20.0.14/30", "10.20.0.17/30", "10.20.0.21/30"],
        {
            "NCCL_IB_HCA": "=mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1",
            "NCCL_CROSS_NIC": "1",
            "NCCL_IB_MERGE_NICS": "0",
            "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
        },
    ),
    "Ring of four nodes": (
        SPARK_NICS[:2],
        ["10.20.0.10/30", "10.20.0.13/30"],
        {
            "NCCL_IB_HCA": "=mlx5_1:1,mlx5_2:1",
            "NCCL_CROSS_NIC": "1",
            "NCCL_IB_MERGE_NICS": "0",
            "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
            "NCCL_ALGO": "Ring",
        },
    ),
    "Two rails at one switch": (
        ["ens1np0", "ens2np0"],
        ["10.10.0.12/24", "10.10.1.12/24"],
        {"NCCL_IB_HCA": "=mlx5_1:1,mlx5_2:1", "NCCL_CROSS_NIC": "0"},
    ),
    "Two rails in one network": (
        ["ens1np0", "ens2np0"],
        ["10.10.0.12/24", "10.10.0.22/24"],
        {"NCCL_IB_HCA": "=mlx5_1:1,mlx5_2:1"},
    ),
    "A rack of nodes with eight rails": (
        H100_NICS,
        [f"10.10.{at}.14/24" for at in range(8)],
        {
            "NCCL_IB_HCA": "=" + ",".join(f"mlx5_{at}:1" for at in range(1, 9)),
            "NCCL_CROSS_NIC": "0",
        },
    ),
}
EXAMPLES = {
    section: yaml.safe_load(block)["torch_nodes"]
    for section, block in re.findall(
        r"^## ([^\n]+)\n(?:(?!^## ).)*?```yaml\n(torch_nodes:.*?)```",
        (ROOT / "docs/rails.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
}


def test_each_inventory_of_the_page_is_a_preset() -> None:
    assert EXAMPLES.keys() == PRESETS.keys()


@pytest.mark.parametrize("section", PRESETS)
def test_a_preset_derives_addresses_environment_and_openings(section: str) -> None:
    group, (nics, addresses, variables) = EXAMPLES[section], PRESETS[section]
    made = plan.derive_plan(
        {name: {**group.get("vars", {}), **own} for name, own in group["hosts"].items()}
    )
    last = list(group["hosts"])[-1]
    primary = made["nodes"][last]["links"][0]["addresses"][0]
    seen = [interface("eno1", addresses=[primary]), *(interface(name) for name in nics)]
    node = resolve_node_interfaces(made, last, seen)
    links = [one for one in node["links"] if one.get("rail")]
    assert [one["addresses"][0] for one in links] == addresses
    assert {one["interface"] for one in links} == set(nics)
    assert {one["mtu"] for one in links} == {9000}
    ports = [port(f"mlx5_{at}", one["name"]) for at, one in enumerate(seen)]
    facts_seen = facts(interfaces=seen, hcas=[one["device"] for one in ports], rdma=ports)
    env = cluster_env.build_environment(made, node, facts_seen)
    prefixes = ("NCCL_IB_", "NCCL_CROSS", "NCCL_ALGO")
    assert {key: env[key] for key in env if key.startswith(prefixes)} == variables
    assert env["NCCL_SOCKET_IFNAME"] == f"={node['interface']}"
    assert made["open_ports"][-1] == "4791/udp"
    assert {one.partition("/")[0] for one in addresses} <= {*made["peers"]}
