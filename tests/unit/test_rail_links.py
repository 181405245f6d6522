"""The tests of the plan's rails: their connections, the queries to the kernel, and the effect of invalid answers."""

from __future__ import annotations

import copy
import json
import time
from pathlib import Path
from typing import Any

import pytest
import records
from ansible.module_utils.fullmesh.facts import neighbors
from ansible.module_utils.fullmesh.probe import listeners, rails
from causes.cases import CHANGE_CASES
from causes.rails import add_rails, find_rail_nic, lose_links, make_link, make_mac
from causes.rdma import make_try
from records import EL1 as EL
from records import UBUNTU1 as UB
from test_ladder_links import TOKEN, make_spec

from fullmesh.causes.rails.ends import has_same_rail
from fullmesh.causes.rails.vc242_swapped import WrongCable, fold_wrong_cables
from fullmesh.diagnose import shape
from fullmesh.result.findings import Finding
from fullmesh.verify import rail_targets

PLAN: Any = {
    "nodes": {f"n{at}": {"address": f"10.0.0.{at}"} for at in range(1, 4)},
    "rails": [
        {
            "name": "rail0",
            "network": "10.1.0.0/24",
            "cable": False,
            "members": {f"n{at}": f"10.1.0.{at}" for at in range(1, 4)},
        },
        {
            "name": "ring/1",
            "network": "10.2.0.0/30",
            "cable": True,
            "members": {"n1": "10.2.0.1", "n2": "10.2.0.2"},
        },
        {
            "name": "cluster",
            "network": "10.0.0.0/24",
            "cable": False,
            "members": {f"n{at}": f"10.0.0.{at}" for at in range(1, 4)},
        },
    ],
}


def open_all(plan: Any) -> Any:
    """Each node has opened its listeners."""
    return {
        name: [
            {**one, "port": 40000 + at, "error": ""}
            for at, one in enumerate(rail_targets.list_rail_addresses(plan, name))
        ]
        for name in plan["nodes"]
    }


def test_each_rail_leads_to_its_own_nodes_except_over_the_cluster_address() -> None:
    found = rail_targets.build_rail_targets(PLAN, open_all(PLAN))
    ways = {
        name: [(one["rail"], one["own"], one["node"], one["address"], one["port"]) for one in held]
        for name, held in found.items()
    }
    assert ways["n1"] == [
        ("rail0", "10.1.0.1", "n2", "10.1.0.2", 40000),
        ("ring/1", "10.2.0.1", "n2", "10.2.0.2", 40001),
        ("rail0", "10.1.0.1", "n3", "10.1.0.3", 40000),
    ]
    assert [one[2] for one in ways["n3"]] == ["n1", "n2"]


def test_a_listener_that_failed_is_no_target() -> None:
    opened = open_all(PLAN)
    opened["n2"][0]["error"] = "EADDRNOTAVAIL"
    found = rail_targets.build_rail_targets(PLAN, opened)
    assert ("rail0", "n2") not in {(one["rail"], one["node"]) for one in found["n1"]}


def test_a_node_cannot_lead_its_peers_to_another_address() -> None:
    opened = open_all(PLAN)
    opened["n2"][0]["address"] = "192.0.2.1"
    opened["n2"].append({"rail": "mine", "address": "192.0.2.1", "port": 22, "error": ""})
    found = rail_targets.build_rail_targets(PLAN, opened)
    assert {one["address"] for one in found["n1"]} == {"10.1.0.2", "10.1.0.3", "10.2.0.2"}


def test_connections_per_node_are_limited() -> None:
    plan = copy.deepcopy(PLAN)
    members = {f"n{at}": f"10.1.{at // 200}.{at % 200 + 1}" for at in range(400)}
    plan["nodes"] = {name: {"address": f"a-{name}"} for name in members}
    plan["rails"] = [{**PLAN["rails"][0], "members": members}]
    found = rail_targets.build_rail_targets(plan, open_all(plan))
    assert {len(held) for held in found.values()} == {rail_targets.MOST}
    assert found["n399"][0]["node"] == "n0"


@pytest.mark.parametrize("port", [-1, 0, 70000])
def test_a_port_that_cannot_exist_is_no_listener_of_a_rail(port: int) -> None:
    good = {"rail": "rail0", "address": "10.1.0.1", "port": 40000, "error": ""}
    assert shape.keep_valid_rail_ports([good, {**good, "port": port}, 7]) == [good]


@pytest.mark.parametrize(
    ("key", "value"),
    [("dev", "eth0; id"), ("mac", "{{ x }}"), ("via", "a\nb"), ("node", "n9"), ("rtt_ms", "nan")],
)
def test_a_result_that_no_node_has_is_dropped(key: str, value: str) -> None:
    good = make_link(0, EL)
    said = {"duplicates": [], "queues": [], "heard": [], "links": [good, {**good, key: value}]}
    probe = shape.sanitize_probe({"rails": said}, {EL, UB})
    assert probe["rails"]["links"] == [good]


def test_rails_are_tried_from_their_own_address(tmp_path: Path) -> None:
    held = [{"rail": f"rail{at}", "address": f"127.0.{at}.3"} for at in range(2)] + [
        {"rail": "rail2", "address": "192.0.2.1"}
    ]
    opened = listeners.start_listeners(make_spec(tmp_path, rails=held))
    assert [one["error"] for one in opened["rails"]] == ["", "", "EADDRNOTAVAIL"]
    me: Any = {"node": "me", "address": "127.0.0.1", "token": TOKEN, "payload": 65536}
    targets: Any = [
        {
            "rail": one["rail"],
            "own": one["address"].replace(".3", ".2"),
            "node": "peer",
            "address": one["address"],
            "port": one["port"],
            "kind": "sample",
        }
        for one in opened["rails"][:2]
    ]
    targets.append({**targets[0], "rail": "rail2", "own": "198.51.100.9", "port": 1})
    said = rails.probe_rails(targets, me, 1.0)
    report = listeners.stop_listeners("run1", str(tmp_path))
    assert [(one["rail"], one["verdict"], one["errno"]) for one in said["links"]] == [
        ("rail0", "open", ""),
        ("rail1", "open", ""),
        ("rail2", "no_route", "EADDRNOTAVAIL"),
    ]
    assert report
    assert report["proved"] == {"me": 2}


def diagnose(*changes: Any) -> list[dict[str, Any]]:
    """The findings about rails and RDMA."""
    world = records.load_world("healthy")
    for change in changes:
        change(world)
    found: list[dict[str, Any]] = records.diagnose_answers(world)["findings"]
    return found


def test_healthy_rails_give_no_finding() -> None:
    assert diagnose(add_rails) == []


def test_a_fault_of_each_rail_is_a_finding_of_its_own() -> None:
    found = diagnose(
        lose_links(0, EL, UB),
        lambda world: find_rail_nic(world, UB, 1).update(mtu=1500),
    )
    assert [(one["code"], one["cause"][:6]) for one in found] == [
        ("VC-240", "rail0:"),
        ("VC-233", "rail1:"),
    ]


def hear_other_rail(name: str, rail: int, peer: str, other: int) -> Any:
    """A node's interface hears an interface of the peer's other rail."""
    one = {"nic": f"eth{rail + 2}", "mac": make_mac(other, peer)}
    return lambda world: world["nodes"][name]["links"]["rails"]["heard"].append(one)


def test_swapped_cables_are_one_finding() -> None:
    (found,) = diagnose(CHANGE_CASES["rail, swapped cables"][1].apply)
    assert (found["code"], found["node"], found["peer"]) == ("VC-242", EL, UB)
    assert found["cause"] == f"rail0, rail1: the cables of {EL} or {UB} are swapped"
    assert found["seen"] == f"eth2 of {EL} reaches eth3 of {UB}, eth3 of {EL} reaches eth2 of {UB}"
    assert found["fix"].startswith(f"swap the cables of eth2, eth3 at {EL} or {UB}, or correct")


def test_the_other_rail_of_a_shared_switch_is_no_swapped_cable() -> None:
    """The peer's interface of this rail does not answer, and that of the other rail answers and works."""
    found = diagnose(lose_links(0, EL, UB), hear_other_rail(EL, 0, UB, 1))
    assert [one["code"] for one in found] == ["VC-240"]


def test_a_cable_to_an_interface_without_a_rail_is_named() -> None:
    def move_cable(world: Any) -> None:
        lose_links(0, EL, UB)(world)
        mac = world["nodes"][UB]["node"]["facts"]["survey"]["interfaces"][1]["mac"]
        world["nodes"][EL]["links"]["rails"]["heard"].append({"nic": "eth2", "mac": mac})

    (found,) = diagnose(move_cable)
    assert found["cause"] == f"rail0: the cable of {EL} leads to eth1 of {UB}"


def swap(swapped: str, nodes: str, *rails: int) -> list[WrongCable]:
    """The wrong ends that nodes at a switch hear if some of them have each cable at the next rail's port."""
    following = dict(zip(rails, (*rails[1:], rails[0]), strict=True))

    def find_network(node: str, rail: int) -> int:
        return following[rail] if node in swapped else rail

    return [
        WrongCable(f"rail{rail}", node, f"eth{rail}", f"rail{other}", peer, f"eth{other}")
        for node in nodes
        for peer in nodes
        for rail in rails
        for other in rails
        if node != peer and rail != other and find_network(node, rail) == find_network(peer, other)
    ]


@pytest.mark.parametrize(
    ("wrong", "causes"),
    [
        (swap("c", "abc", 0, 1), ["rail0, rail1: the cables of c are swapped"]),
        (swap("bd", "abcde", 0, 1), ["rail0, rail1: the cables of b, d are swapped"]),
        (swap("b", "abcd", 0, 1, 2), ["rail0, rail1, rail2: the cables of b are swapped"]),
        (swap("ab", "abcd", 0, 1), ["rail0, rail1: the cables of a or b or c or d are swapped"]),
        (
            swap("c", "abc", 0, 1) + swap("a", "abc", 2, 3),
            [
                "rail0, rail1: the cables of c are swapped",
                "rail2, rail3: the cables of a are swapped",
            ],
        ),
        (
            [
                WrongCable("ring/1", "a", "eth0", "ring/3", "c", "eth0"),
                WrongCable("ring/3", "a", "eth1", "ring/1", "b", "eth1"),
            ],
            ["ring/1, ring/3: the cables of a are swapped"],
        ),
    ],
)
def test_the_node_that_differs_from_the_others_has_the_swapped_cables(
    wrong: list[WrongCable], causes: list[str]
) -> None:
    found = list(fold_wrong_cables(wrong))
    assert [finding.cause for finding, _ in found] == causes
    assert sum(len(cables) for _, cables in found) == len(wrong)


def make_loss(rail: int) -> Finding:
    """RDMA packets are lost on a rail."""
    said = make_try(EL, rail)
    del said
    ends = f"10.91.{rail}.11 -> 10.91.{rail}.12"
    return Finding("VC-224", "L2", "lost", node=EL, seen=ends, pairs=((EL, UB),))


@pytest.mark.parametrize(("rail", "same"), [(0, True), (1, False)])
def test_rdma_of_another_rail_has_a_cause_of_its_own(rail: int, same: bool) -> None:
    seen = "10.91.0.11 -> 10.91.0.12: dropped"
    root = Finding("VC-240", "L2", "rail0: no connection", node=EL, seen=seen, pairs=((EL, UB),))
    assert has_same_rail(root, make_loss(rail)) is same


def test_an_entry_from_before_the_cables_were_swapped_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel keeps the entries of neighbors that no longer answer."""
    macs = {"fe80::1": "02:00:00:00:00:01", "fe80::2": "02:00:00:00:00:02"}
    known = [
        {"dst": address, "dev": nic, "lladdr": mac, "state": ["STALE"]}
        for nic in ("eth2", "eth3")
        for address, mac in macs.items()
    ]
    monkeypatch.setattr(rails, "run_ip", lambda *_: json.dumps(known))
    answered = {("eth2", "fe80::2"), ("eth3", "fe80::1")}
    monkeypatch.setattr(neighbors, "greet_neighbors", lambda _: answered)
    assert rails.hear_neighbors(["eth2", "eth3"]) == [
        {"nic": "eth2", "mac": macs["fe80::2"]},
        {"nic": "eth3", "mac": macs["fe80::1"]},
    ]


def test_second_tries_of_many_rails_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the switch loses large packets on all rails, each second try takes twice the deadline."""
    tried: list[str] = []

    def refute(found: Any, ways: Any, me: Any, seconds: float) -> Any:
        del ways
        tried.append(me["address"])
        time.sleep(2 * seconds)
        return found, []

    monkeypatch.setattr(rails, "refute_black_holes", refute)
    monkeypatch.setattr(rails, "probe_links", lambda wanted, *_: wanted)
    targets: Any = [
        {"node": "b", "address": f"10.{at}.0.2", "port": 1, "kind": "sample", "own": f"10.{at}.0.1"}
        for at in range(8)
    ]
    me: Any = {"node": "a", "address": "10.9.0.1", "token": "", "payload": 0}
    found = rails.connect_over_rails(targets, me, 0.05)
    assert len(found) == len(targets)
    assert tried == ["10.0.0.1"]
