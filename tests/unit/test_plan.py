"""The cluster plan: what it derives, and every fault that it refuses."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.faults import InvalidInputError
from fullmesh.model import plan, ports, services
from fullmesh.model.node_view import resolve_node_interfaces

Hosts = dict[str, dict[str, Any]]


def make_two_hosts(**common: Any) -> Hosts:
    """Two good hosts, with the given settings on both."""
    return {
        "a": {"fullmesh_address": "10.0.0.11/24", "fullmesh_interface": "eth1", **common},
        "b": {"fullmesh_address": "10.0.0.12/24", "fullmesh_interface": "ens5", **common},
    }


def with_b(**own: Any) -> Hosts:
    """Two hosts, the second one with the given settings."""
    hosts = make_two_hosts()
    hosts["b"] |= own
    return hosts


def codes(hosts: Hosts) -> list[str]:
    with pytest.raises(InvalidInputError) as refused:
        plan.derive_plan(hosts)
    return [fault.code for fault in refused.value.faults]


def test_two_plain_hosts() -> None:
    derived = plan.derive_plan(make_two_hosts(fullmesh_local_ranks=4))
    assert derived["world_size"] == 8
    assert derived["master"] == {"node": "a", "address": "10.0.0.11", "port": 29500}
    assert derived["rendezvous"] == {"endpoint": "10.0.0.11:29400", "port": 29400}
    assert derived["data_ports"]["sysctl"] == "50000 54095"
    assert derived["open_ports"] == ["29400/tcp", "29500/tcp", "50000-54095/tcp"]
    assert derived["peers"] == ["10.0.0.11", "10.0.0.12"]
    assert derived["hosts"][1] == {"address": "10.0.0.12", "names": ["b"]}
    assert derived["nodes"]["b"]["ranks"] == [4, 5, 6, 7]
    assert derived["nodes"]["b"]["interface"] == "ens5"


def test_ipv6_cluster() -> None:
    hosts = {
        name: {"fullmesh_address": f"fd00::{at}/64"} for at, name in enumerate(("a", "b"), start=11)
    }
    derived = plan.derive_plan(hosts)
    assert derived["family"] == "ipv6"
    assert derived["rendezvous"]["endpoint"] == "[fd00::11]:29400"


def test_several_links_and_dual_stack() -> None:
    hosts = make_two_hosts()
    for at, own in enumerate(hosts.values(), start=11):
        own["fullmesh_address"] = [f"10.0.0.{at}/24", f"fd00::{at}/64"]
        own["fullmesh_links"] = [
            {"interface": "02:00:00:00:00:0A", "addresses": f"10.1.0.{at}/24", "mtu": 9000}
        ]
    derived = plan.derive_plan(hosts)
    assert derived["peers"][:3] == ["10.0.0.11", "fd00::11", "10.1.0.11"]
    extra = derived["nodes"]["a"]["links"][1]
    assert (extra["mac"], extra["interface"], extra["mtu"]) == ("02:00:00:00:00:0a", "", 9000)
    assert derived["hosts"][0]["address"] == "10.0.0.11"


def test_master_by_name_gets_rank_0() -> None:
    derived = plan.derive_plan(make_two_hosts(fullmesh_master="b"))
    assert derived["nodes"]["b"]["node_rank"] == 0
    assert derived["master"]["address"] == "10.0.0.12"


def test_given_node_ranks() -> None:
    hosts = make_two_hosts()
    hosts["a"]["fullmesh_node_rank"], hosts["b"]["fullmesh_node_rank"] = "1", 0
    assert plan.derive_plan(hosts)["master"]["node"] == "b"


def test_inventory_names_that_are_addresses_do_not_reach_etc_hosts() -> None:
    hosts = {
        "198.51.100.7": make_two_hosts()["a"],
        "b": make_two_hosts()["b"] | {"fullmesh_hostname": "gpu-b.example"},
    }
    assert [line["names"] for line in plan.derive_plan(hosts)["hosts"]] == [
        ["node0"],
        ["b", "gpu-b.example"],
    ]


def test_ports_of_services_are_reserved() -> None:
    low = {"name": "web", "ports": [443, "1000-1030", 9100], "reach": "none"}
    made = plan.derive_plan(make_two_hosts(fullmesh_services=[low]))
    assert not [one for one in made["open_ports"] if one.startswith(("443", "1000", "9100"))]
    assert made["reserved_ports"] == [
        "1024-1030",
        9100,
        29400,
        29500,
    ]


def test_a_time_leader_opens_ntp_to_the_peers() -> None:
    assert (
        plan.derive_plan(make_two_hosts(time_sync_source="leader"))["open_ports"][-1] == "123/udp"
    )


def test_controllers_may_be_networks() -> None:
    derived = plan.derive_plan(make_two_hosts(fullmesh_controllers=["10.9.0.1", "fd00:9::/64"]))
    assert derived["controllers"] == ["10.9.0.1", "fd00:9::/64"]


def test_extra_vars_arrive_as_text() -> None:
    derived = plan.derive_plan(
        make_two_hosts(fullmesh_master_port="29600", fullmesh_local_ranks="2")
    )
    assert (derived["master"]["port"], derived["world_size"]) == (29600, 4)


@pytest.mark.parametrize(
    ("hosts", "code"),
    [
        ({}, "PL-100"),
        ({"a": {}}, "PL-103"),
        (with_b(fullmesh_address=[]), "PL-103"),
        (with_b(fullmesh_address="10.0.0.12"), "PL-104"),
        (with_b(fullmesh_address="10.0.0.300/24"), "PL-104"),
        (with_b(fullmesh_address="10.0.0.0/24"), "PL-104"),
        (with_b(fullmesh_address="10.0.0.255/24"), "PL-104"),
        (with_b(fullmesh_address="127.0.1.1/8"), "PL-104"),
        (with_b(fullmesh_address="fe80::1/64"), "PL-104"),
        (with_b(fullmesh_address="224.0.0.5/24"), "PL-104"),
        (with_b(fullmesh_address="10.0.0.11/24"), "PL-105"),
        (with_b(fullmesh_address="10.0.1.12/24"), "PL-106"),
        (with_b(fullmesh_address="10.0.0.12/25"), "PL-106"),
        (with_b(fullmesh_address="fd00::12/64"), "PL-107"),
        (with_b(fullmesh_master_port=29501), "PL-108"),
        (make_two_hosts(fullmesh_master_port=80), "PL-109"),
        (make_two_hosts(fullmesh_master_port="many"), "PL-109"),
        (make_two_hosts(fullmesh_rendezvous_port=70000), "PL-109"),
        (make_two_hosts(fullmesh_master_port=50010), "PL-110"),
        (make_two_hosts(fullmesh_master_port=29400), "PL-111"),
        (
            make_two_hosts(monitoring_tools_node_exporter=True, fullmesh_data_ports="9000-9999"),
            "PL-110",
        ),
        (make_two_hosts(monitoring_tools_node_exporter="yes", fullmesh_master_port=9100), "PL-111"),
        (
            make_two_hosts(monitoring_tools_node_exporter=True, fullmesh_rendezvous_port=9100),
            "PL-111",
        ),
        (make_two_hosts(fullmesh_data_ports="50000"), "PL-112"),
        (make_two_hosts(fullmesh_data_ports="51000-50000"), "PL-112"),
        (make_two_hosts(fullmesh_data_ports="1-65535"), "PL-112"),
        (make_two_hosts(fullmesh_data_ports="50000-50031"), "PL-113"),
        (make_two_hosts(fullmesh_local_ranks=8, fullmesh_data_ports="50000-50999"), "PL-113"),
        (make_two_hosts(fullmesh_local_ranks=1024, fullmesh_process_groups=4096), "PL-113"),
        (with_b(fullmesh_local_ranks=0), "PL-114"),
        (with_b(fullmesh_local_ranks=True), "PL-114"),
        (make_two_hosts(fullmesh_process_groups="x"), "PL-114"),
        (with_b(fullmesh_node_rank=1), "PL-115"),
        (make_two_hosts(fullmesh_node_rank=0), "PL-115"),
        (make_two_hosts(fullmesh_master="z"), "PL-116"),
        (with_b(fullmesh_interface="a name with blanks"), "PL-117"),
        (with_b(fullmesh_links="eth2"), "PL-117"),
        (with_b(fullmesh_links=[{"interfaces": "eth2"}]), "PL-117"),
        (with_b(fullmesh_links=[{"interface": "ens5", "addresses": "10.1.0.1/24"}]), "PL-117"),
        (make_two_hosts(fullmesh_controllers=["my laptop"]), "PL-118"),
        (with_b(fullmesh_hostname="under_score"), "PL-119"),
        (make_two_hosts(fullmesh_hostname="same"), "PL-119"),
        (make_two_hosts(fullmesh_converge="never"), "PL-120"),
        (make_two_hosts(fullmesh_wait_seconds="long"), "PL-120"),
        (make_two_hosts(fullmesh_routed="maybe"), "PL-120"),
        (make_two_hosts(fullmesh_expected_nodes=3), "PL-135"),
        (make_two_hosts(fullmesh_expected_nodes=1), "PL-135"),
        (make_two_hosts(fullmesh_expected_nodes="two"), "PL-135"),
        (with_b(fullmesh_expected_nodes=2), "PL-108"),
        (make_two_hosts(fullmesh_serial=0), "PL-128"),
        (with_b(fullmesh_serial=1), "PL-108"),
        (with_b(fullmesh_ssh_address="gateway:ssh"), "PL-129"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused(hosts: Hosts, code: str) -> None:
    assert code in codes(hosts)


SCRAPED = {"name": "exporter", "ports": [9100]}


def test_the_node_exporter_port_is_opened_only_for_a_service() -> None:
    assert services.list_open_ports(
        plan.derive_plan(make_two_hosts(fullmesh_services=[SCRAPED])), "peers"
    )
    hosts = make_two_hosts(monitoring_tools_node_exporter=True, fullmesh_services=[SCRAPED])
    assert not [port for port in plan.derive_plan(hosts)["open_ports"] if port.startswith("9100")]


@pytest.mark.parametrize(
    "exporter",
    [
        {"monitoring_tools_node_exporter": False},
        # of the user's own: its port is whatever he chose
        {"monitoring_tools_node_exporter": True, "monitoring_tools_textfile_dir": "/srv/text"},
    ],
)
def test_the_port_of_an_unmanaged_node_exporter_is_not_reserved(
    exporter: dict[str, Any],
) -> None:
    assert (
        plan.derive_plan(make_two_hosts(**exporter, fullmesh_master_port=9100))["master"]["port"]
        == 9100
    )


@pytest.mark.parametrize(
    "link",
    [
        {"gateway": "10.2.0.1"},
        {"gateway": "10.1.0.12"},
        {"mtu": 100},
        {"mtu": "big"},
        {"dns": ["resolver"]},
        {"routes": [{"to": "10.2.0.0/24"}]},
        {"routes": [{"to": "10.2.0.1/24", "via": "10.1.0.1"}]},
    ],
)
def test_refused_link_details(link: dict[str, Any]) -> None:
    entry = {"interface": "eth2", "addresses": "10.1.0.12/24", **link}
    assert codes(with_b(fullmesh_links=[entry])) == ["PL-123"]


def test_node_ranks_that_contradict_the_master() -> None:
    hosts = make_two_hosts(fullmesh_master="b")
    hosts["a"]["fullmesh_node_rank"], hosts["b"]["fullmesh_node_rank"] = 0, 1
    assert codes(hosts) == ["PL-115"]


def test_all_faults_at_once() -> None:
    hosts = make_two_hosts(fullmesh_master_port=80, fullmesh_data_ports="x")
    hosts["b"]["fullmesh_address"] = "10.0.0.12"
    assert codes(hosts) == ["PL-104", "PL-109", "PL-112"]


@pytest.mark.parametrize("version", ["2.16.0", "2.19.14", "2.21.3", "2.22.0rc1"])
def test_controllers_that_can_run_this(version: str) -> None:
    assert plan.find_controller_faults(version) == []


@pytest.mark.parametrize("version", ["2.15.13", "2.9.27", "2.23.0", "3.0", ""])
def test_controllers_that_cannot(version: str) -> None:
    assert [fault.code for fault in plan.find_controller_faults(version)] == ["PL-121"]


def test_routed_clusters_may_span_networks() -> None:
    hosts = with_b(fullmesh_address="10.0.1.12/24")
    for own in hosts.values():
        own["fullmesh_routed"] = True
    assert plan.derive_plan(hosts)["nnodes"] == 2


def test_digest_follows_settings_but_not_run_options() -> None:
    base = plan.derive_plan(make_two_hosts())["digests"]["a"]
    assert plan.derive_plan(make_two_hosts(fullmesh_converge="always"))["digests"]["a"] == base
    assert (
        plan.derive_plan(make_two_hosts(verify_cluster_deadline_seconds=9))["digests"]["a"] == base
    )
    assert plan.derive_plan(make_two_hosts(fullmesh_serial=1))["digests"]["a"] == base
    assert plan.derive_plan(make_two_hosts(fullmesh_expected_nodes=2))["digests"]["a"] == base
    assert plan.derive_plan(make_two_hosts(peer_firewall_mode="off"))["digests"]["a"] != base
    assert plan.derive_plan(make_two_hosts(), code="x")["digests"]["a"] != base


INTERFACES = [
    {"name": "lo", "mac": "00:00:00:00:00:00", "kind": "", "addresses": ["127.0.0.1/8"]},
    {"name": "ens5", "mac": "02:00:00:00:00:01", "kind": "", "addresses": ["10.0.0.12/24"]},
    {"name": "ens6", "mac": "02:00:00:00:00:02", "kind": "", "addresses": []},
]


@pytest.mark.parametrize(
    ("interface", "found"),
    [("ens6", "ens6"), ("02:00:00:00:00:02", "ens6"), ("", "ens5"), ("eth9", ""), (None, "ens5")],
)
def test_node_view_names_the_interface(interface: str | None, found: str) -> None:
    derived = plan.derive_plan(with_b(fullmesh_interface=interface))
    node = resolve_node_interfaces(derived, "b", INTERFACES)
    assert node["interface"] == node["links"][0]["interface"] == found


@given(st.integers(min_value=1, max_value=16), st.integers(min_value=1, max_value=32))
def test_the_computed_range_always_suffices(ranks: int, groups: int) -> None:
    chosen = ports.choose_default_range(ranks, groups)
    assert len(chosen) >= 2 * ports.compute_smallest_size(ranks, groups)
    assert 32768 <= chosen.first <= chosen.last <= 65535


@pytest.mark.parametrize(
    ("local", "world", "size"),
    # nccl#1882: 2,048 ranks, where each rank talks to each; beyond what there is, all that there is
    [(8, 0, 4096), (8, 1024, 4096), (8, 2048, 8192), (8, 4096, 16384), (8, 65536, 32768)],
)
def test_the_range_has_room_for_all_to_all(local: int, world: int, size: int) -> None:
    chosen = ports.choose_default_range(local, 4, world)
    assert len(chosen) == size >= min(32768, 2 * ports.compute_all_to_all_size(local, world))
    assert chosen.last <= 65535


def test_unsurveyed_machines_count_as_ordinary_ones() -> None:
    hosts = {
        f"n{at}": {"fullmesh_address": f"10.3.{at // 200}.{at % 200 + 1}/16"} for at in range(256)
    }
    assert plan.derive_plan(hosts)["data_ports"]["size"] == 8192


@st.composite
def clusters(draw: st.DrawFn) -> Hosts:
    """Inventories that must work: distinct addresses in one network, any ranks."""
    size = draw(st.integers(min_value=1, max_value=12))
    network = draw(st.sampled_from(["10.3.0.0/24", "fd00:3::/120"]))
    numbers = draw(
        st.lists(st.integers(min_value=1, max_value=254), min_size=size, max_size=size, unique=True)
    )
    base = ipaddress.ip_network(network)
    return {
        f"n{at}": {
            "fullmesh_address": f"{base[number]}/{base.prefixlen}",
            "fullmesh_local_ranks": draw(st.integers(min_value=1, max_value=16)),
        }
        for at, number in enumerate(numbers)
    }


@given(clusters())
def test_every_rank_exists_once(hosts: Hosts) -> None:
    derived = plan.derive_plan(hosts)
    ranks = [rank for node in derived["nodes"].values() for rank in node["ranks"]]
    assert sorted(ranks) == list(range(derived["world_size"]))
    assert sorted(node["node_rank"] for node in derived["nodes"].values()) == list(
        range(len(hosts))
    )
    assert len(set(derived["peers"])) == len(hosts)
    data = range(derived["data_ports"]["first"], derived["data_ports"]["last"] + 1)
    assert not set(derived["reserved_ports"]) & set(data)


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=12)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(sorted(plan.settings.PLAN_SETTINGS)), JSON, max_size=6))
def test_nonsense_is_refused_and_never_crashes(nonsense: dict[str, Any]) -> None:
    seen: list[str] = []
    try:
        plan.derive_plan(with_b(**nonsense))
    except InvalidInputError as refused:
        seen = [fault.code for fault in refused.faults]
    assert set(seen) <= plan.CODES.keys()
