"""The pairs that are measured at the same time, and the node that is blamed for slow ones: properties."""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any

import pytest
import records
from causes.changes import get_survey
from causes.rdma import make_try, set_results
from hypothesis import given
from hypothesis import strategies as st
from test_compare import add_third_node

from fullmesh.causes.quality.dg138_packet_loss import rule_packet_loss
from fullmesh.causes.quality.dg139_slow_link import rule_slow_rates
from fullmesh.causes.quality.rates import SlowCulprit, Way, find_slow_culprits, schedule_rate_rounds
from fullmesh.diagnose import judge, shape
from fullmesh.filters.observe import diagnose
from fullmesh.result.findings import Finding

FAST, SLOW = 9000.0, 9.0


def names(count: int) -> list[str]:
    return [f"n{number:02}" for number in range(count)]


@given(st.integers(0, 65))
def test_every_pair_is_measured_once_without_overlap(count: int) -> None:
    made = schedule_rate_rounds(names(count))
    assert len(made) == (count - 1 + count % 2 if count > 1 else 0)
    for pairs in made:
        ends = [end for pair in pairs for end in pair]
        assert len(ends) == len(set(ends)) == count - count % 2
    every = [frozenset(pair) for pairs in made for pair in pairs]
    assert len(every) == len(set(every)) == count * (count - 1) // 2


def measured(count: int, slow: set[Way]) -> dict[Way, float]:
    return {way: SLOW if way in slow else FAST for way in permutations(names(count), 2)}


def find_culprits(count: int, slow: set[Way]) -> list[tuple[str, str]]:
    rates = measured(count, slow)
    return [(one.kind, one.node) for one in find_slow_culprits(rates, slow)]


def list_pairs_of(node: str, count: int) -> set[Way]:
    return {way for way in permutations(names(count), 2) if node in way}


@given(st.data())
def test_one_culprit_among_many_is_named(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 12))
    node = data.draw(st.sampled_from(names(count)))
    both = list_pairs_of(node, count)
    assert find_culprits(count, {way for way in both if way[0] == node}) == [("out", node)]
    assert find_culprits(count, {way for way in both if way[1] == node}) == [("in", node)]
    assert find_culprits(count, both) == [("node", node)]
    other = data.draw(st.sampled_from([one for one in names(count) if one != node]))
    assert find_culprits(count, {(node, other)}) == [("link", node)]


@given(st.data())
def test_two_slow_nodes_are_named_and_no_other(data: st.DataObject) -> None:
    count = data.draw(st.integers(5, 12))
    one, other = sorted(data.draw(st.permutations(names(count)))[:2])
    found = find_culprits(count, list_pairs_of(one, count) | list_pairs_of(other, count))
    assert sorted(found) == [("node", one), ("node", other)]


@given(st.data())
def test_a_slow_node_and_a_slow_link_are_distinguished(data: st.DataObject) -> None:
    count = data.draw(st.integers(5, 12))
    node, here, there = data.draw(st.permutations(names(count)))[:3]
    found = find_culprits(count, list_pairs_of(node, count) | {(here, there)})
    assert found == [("node", node), ("link", here)]


@given(st.data())
def test_each_slow_link_is_reported_once_and_no_fast_node(
    data: st.DataObject,
) -> None:
    count = data.draw(st.integers(2, 7))
    every = list(permutations(names(count), 2))
    slow = set(data.draw(st.lists(st.sampled_from(every), unique=True)))
    found = find_slow_culprits(measured(count, slow), slow)
    ways = [way for one in found for way in one.ways]
    assert sorted(ways) == sorted(slow)
    for one in found:
        if one.kind in ("node", "out"):
            assert {way for way in every if way[0] == one.node} <= slow
        if one.kind in ("node", "in"):
            assert {way for way in every if way[1] == one.node} <= slow


@pytest.mark.parametrize("count", [3, 8])
def test_if_all_are_slow_no_node_is_blamed(count: int) -> None:
    assert find_culprits(count, set(permutations(names(count), 2))) == [("all", "")]


def test_of_two_nodes_the_one_that_sends_slower_is_named() -> None:
    rates = {("a", "b"): 9.0, ("b", "a"): 8.0}
    assert find_slow_culprits(rates, rates) == [SlowCulprit("link", "b", (("b", "a"), ("a", "b")))]


def test_acknowledgements_that_wait_do_not_hide_the_direction() -> None:
    every = list_pairs_of("n01", 4)
    rates = measured(4, set()) | {way: 10.0 if way[0] == "n01" else 60.0 for way in every}
    assert [(one.kind, one.node) for one in find_slow_culprits(rates, every)] == [("out", "n01")]
    rates |= {way: 60.0 if way[0] == "n01" else 10.0 for way in every}
    assert [(one.kind, one.node) for one in find_slow_culprits(rates, every)] == [("in", "n01")]


def test_a_direction_that_waits_for_the_other_is_not_blamed() -> None:
    out = {way for way in list_pairs_of("n01", 4) if way[0] == "n01"}
    rates = measured(4, out) | {("n02", "n01"): 60.0}
    assert [(one.kind, one.node) for one in find_slow_culprits(rates, out | {("n02", "n01")})] == [
        ("out", "n01")
    ]
    rates |= {("n02", "n01"): 8.0}  # as slow as the other direction, which is more than a wait
    found = find_slow_culprits(rates, out | {("n02", "n01")})
    assert [(one.kind, one.node) for one in found] == [("out", "n01"), ("link", "n02")]


def world(slow: set[Way], **card: Any) -> records.World:
    """Return three nodes with all links measured. *card*: fields of ubuntu1's cluster interface."""
    made = copy.deepcopy(records.load_world("healthy"))
    add_third_node(made)
    nodes = made["nodes"]
    for here in nodes:
        nodes[here]["links"]["bandwidth"] = [
            {
                **{"node": there, "bytes": 8388608, "seconds": 1.0, "complete": True, "lost": 0},
                "mbit_s": SLOW if (here, there) in slow else FAST,
            }
            for there in nodes
            if there != here
        ]
    get_survey(made, "el2")["interfaces"] = copy.deepcopy(get_survey(made, "el1")["interfaces"])
    next(nic for nic in get_survey(made)["interfaces"] if nic["name"] == "eth1").update(card)
    return made


def findings(slow: set[Way], **card: Any) -> list[Finding]:
    made = world(slow, **card)
    look = judge.build_evidence(made["plan"], records.convert_answers(made["nodes"]), records.ABOUT)
    return list(rule_slow_rates(look))


OUT = {("ubuntu1", "el1"), ("ubuntu1", "el2")}
IN = {(there, here) for here, there in OUT}


@pytest.mark.parametrize(
    ("slow", "words", "direction"),
    [
        (OUT, "ubuntu1 sends at most 9 Mbit/s to every peer", "ubuntu1 -> el1 and el2"),
        (IN, "ubuntu1 receives at most 9 Mbit/s from every peer", "el1 and el2 -> ubuntu1"),
        (OUT | IN, "ubuntu1 sends and receives at most 9 Mbit/s", "ubuntu1 <-> el1 and el2"),
        ({("el1", "ubuntu1")}, "el1 sends 9 Mbit/s to ubuntu1", "el1 -> ubuntu1"),
    ],
)
def test_the_finding_names_node_and_direction(slow: set[Way], words: str, direction: str) -> None:
    (found,) = findings(slow)
    assert found.cause.startswith(words)
    assert found.direction.replace(", ", " and ") == direction
    assert (found.code, set(found.pairs), found.seen) == ("DG-139", slow, "9.0 Mbit/s")


def test_all_links_slow_is_one_finding_without_a_node() -> None:
    (found,) = findings(OUT | IN | {("el1", "el2"), ("el2", "el1")})
    assert found.cause == "every link is slow: at best 9 Mbit/s"
    assert "switch" in found.fix


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"speed": 100}, "eth1 runs at 100 Mbit/s, others' at 10000"),
        ({"duplex": "half"}, "eth1 is half duplex"),
        ({"errors": {"rx_crc_errors": 7, "rx_dropped": 3}}, "eth1 counts rx_crc_errors"),
    ],
)
def test_an_interface_unlike_the_others_is_named(card: dict[str, Any], words: str) -> None:
    (found,) = findings(OUT, **card)
    assert found.cause.endswith(f"({words})")
    assert not findings(OUT)[0].cause.endswith(")")


def test_a_slow_node_that_loses_packets_is_one_finding() -> None:
    made = world(OUT)
    for record in made["nodes"]["el1"]["links"]["links"]:
        record.update(lost=4, segments=60)
    look = judge.build_evidence(made["plan"], records.convert_answers(made["nodes"]), records.ABOUT)
    assert list(rule_packet_loss(look)) == []
    for rate in made["nodes"]["ubuntu1"]["links"]["bandwidth"]:
        rate["mbit_s"] = FAST
    look = judge.build_evidence(made["plan"], records.convert_answers(made["nodes"]), records.ABOUT)
    assert [one.code for one in rule_packet_loss(look)] == ["DG-138"]


def test_a_node_measures_with_its_partner_on_a_reached_listener() -> None:
    made = records.load_world("healthy")
    plan, said, pairs = made["plan"], made["nodes"], [("el1", "ubuntu1")]
    opened = {name: one["node"]["ports"] for name, one in said.items()}
    assert diagnose.diagnose_rounds(plan, opened) == [pairs]
    linked = {name: one["links"] for name, one in said.items()}
    given = diagnose.diagnose_partners(plan, opened, linked, pairs)
    assert given["node"] == {"el1": "el1", "ubuntu1": "ubuntu1"}
    assert given["address"]["el1"] == plan["nodes"]["el1"]["address"]
    for name, other in (pairs[0], pairs[0][::-1]):
        (target,) = given["targets"][name]
        assert target["node"] == other
        rest = {"node": {other: other}}
        shut = {"links": [{**one, "verdict": "dropped"} for one in linked[name]["links"]]}
        for probe in (shut, {}, None):
            wanted = diagnose.diagnose_partners(plan, opened, {**linked, name: probe}, pairs)
            assert wanted["node"] == rest["node"]
    no_partner = {"node": {}}
    assert diagnose.diagnose_partners(plan, opened, {}, pairs) == no_partner
    assert diagnose.diagnose_partners(plan, opened, linked, []) == no_partner
    assert diagnose.diagnose_rounds(plan, {"el1": opened["el1"]}) == []


def test_rdma_rates_are_measured_for_pairs_that_passed() -> None:
    made = records.load_world("healthy")
    failed = make_try("el1", 2, own={"step": "rtr", "count": 0})
    set_results(("el1", failed))(made)
    made["nodes"]["ubuntu1"]["links"]["rdma"]["pairs"][0]["gid"] = 7  # false data of a node
    plan, said, pairs = made["plan"], made["nodes"], [("el1", "ubuntu1")]
    opened = {name: one["node"]["ports"] for name, one in said.items()}
    linked = {name: one["links"] for name, one in said.items()}
    given = diagnose.diagnose_partners(plan, opened, linked, pairs)
    (target,) = given["rdma"]["el1"]
    assert (target["node"], target["device"]) == ("ubuntu1", "rxe1")
    assert target["address"] == plan["nodes"]["ubuntu1"]["address"]
    assert target["tcp_port"] in {one["port"] for one in opened["ubuntu1"]}
    assert [one["device"] for one in given["rdma"]["ubuntu1"]] == ["rxe2"]


def test_the_rates_of_all_rounds_are_part_of_the_links() -> None:
    rate = {"node": "ubuntu1", "device": "rxe1", "peer_device": "rxe1", "mbit_s": 1.5}
    rounds = [{"answers": {"el1": {"rdma": {"pairs": [], "counters": {}, "rates": [rate]}}}}] * 2
    variables = {
        "__diagnose_linked": {"answers": {"el1": {"rdma": {"pairs": [], "counters": {}}}}},
        "__diagnose_rated": {"results": rounds},
    }
    found = diagnose.collect_observations(variables, "el1")
    assert found["links"]["rdma"]["rates"] == [rate, rate]
    odd = [{**rate, "mbit_s": value} for value in (-1.0, 1e9, "x", None)]
    lying = {"rdma": {"pairs": [], "counters": {}, "rates": [*odd, {**rate, "node": "z"}, rate]}}
    assert shape.sanitize_probe(lying, {"el1", "ubuntu1"})["rdma"]["rates"] == [rate]


def test_without_slow_links_no_node_is_blamed() -> None:
    assert find_slow_culprits(measured(4, set()), []) == []
