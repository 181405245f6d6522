"""The schedule by which many nodes are probed: every pair once, bounded answers, deviations followed up."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import simulated_nodes
from ansible.module_utils.fullmesh.probe import listeners, second_call, sweep
from ansible.module_utils.fullmesh.survey import lookup
from hypothesis import given
from hypothesis import strategies as st
from records import diagnose_answers as diagnosed_world
from records import load_diagnosis

from fullmesh import contract
from fullmesh.diagnose import root_cause, thin
from fullmesh.filters.observe import diagnose, verify_cluster
from fullmesh.observed.ladder import LadderLinksResult
from fullmesh.report import blocks, junit, page, terminal
from fullmesh.result.findings import Finding
from fullmesh.settings import ROOT
from fullmesh.verify import build, mesh, probe_wants, schedule
from fullmesh.verify.model import ClusterObservations

COUNT = 40
ABOUT = build.VerificationRun(
    simulated_nodes.RUN, "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:15+00:00"
)
OPTIONS: dict[str, Any] = {
    "checks": ["L0", "L1", "L2", "L3", "L4", "L5", "L6", "L7", "L8"],
    "mode": "peers_range",
    "check_mode": False,
    "clock_limit": 5,
    "deadline": 120,
    "init_timeout": 10,
    "inventory": "inv",
}


def seen_of(count: int, change: Any = None) -> ClusterObservations:
    """Return the observations of a verification of many nodes. *change* breaks some of them."""
    plan, held = simulated_nodes.make_hostvars(count)
    scope = schedule.build_probe_scope(plan, "auto", [], False, simulated_nodes.RUN)
    if change:
        change(plan, held)
    return verify_cluster.collect_seen_state(
        plan, simulated_nodes.group_answers(held), {**OPTIONS, "scope": scope}
    )


def answers(held: Any, part: str) -> Any:
    """What all nodes answered to a question."""
    return simulated_nodes.group_answers(held)[f"__verify_cluster_{part}"]["answers"]


@given(st.integers(2, 70))
def test_every_node_meets_every_other_once(count: int) -> None:
    found = [schedule.list_partners(count, place) for place in range(count)]
    for place, order in enumerate(found):
        assert sorted([*order, place]) == list(range(count))
    if not count % 2:
        for turn in range(count - 1):
            for place in range(count):
                assert found[found[place][turn]][turn] == place


def test_a_sweep_tests_every_pair_on_one_port() -> None:
    plan = simulated_nodes.make_plan(COUNT)
    looks = {
        name: simulated_nodes.query_node(plan, n)["ports"] for n, name in enumerate(plan["nodes"])
    }
    scope = schedule.build_probe_scope(plan, "auto", [], False, "run")
    assert scope["sweep"]
    used: set[tuple[str, int]] = set()
    for name in plan["nodes"]:
        rows = schedule.build_sweep(plan, looks, name, scope)
        assert {row["node"] for row in rows} == plan["nodes"].keys() - {name}
        assert schedule.list_full_targets(plan, looks, name, scope) == []
        of_master = {row["kind"] for row in rows if row["node"] == plan["master"]["node"]}
        assert {"master", "rendezvous"} <= of_master or name == plan["master"]["node"]
        used |= {(row["node"], row["port"]) for row in rows}
    # between them the nodes try every listener of every node
    every = {
        (t["node"], t["port"])
        for n in plan["nodes"]
        for t in probe_wants.list_probe_targets(plan, looks, n)
    }
    assert used == every


def test_few_nodes_or_a_request_test_every_listener() -> None:
    plan = simulated_nodes.make_plan(3)
    assert not schedule.build_probe_scope(plan, "auto", [], False, "run")["sweep"]
    many = simulated_nodes.make_plan(COUNT)
    assert not schedule.build_probe_scope(many, "ports", [], False, "run")["sweep"]


def test_after_a_join_the_new_links_are_tested() -> None:
    plan = simulated_nodes.make_plan(6)
    new = simulated_nodes.make_node_name(4)
    looks = {
        name: simulated_nodes.query_node(plan, n)["ports"] for n, name in enumerate(plan["nodes"])
    }
    scope = schedule.build_probe_scope(plan, "auto", [new], True, "run")
    tried = {
        (name, target["node"])
        for name in plan["nodes"]
        for target in schedule.list_full_targets(plan, looks, name, scope)
    }
    with_new = {pair for pair in tried if new in pair}
    assert len(with_new) == 2 * 5
    assert len(tried - with_new) == 5
    seen = ClusterObservations(plan=plan, nodes={}, scope=scope)
    assert mesh.count_wanted_pairs(seen) == len(tried)
    assert (
        f"the links of {new} and one link of each other node were tested (15 of 30)"
        in (mesh.describe_coverage(seen)[0])
    )
    # every link, on request; and where all are new there are no others
    for other in (
        schedule.build_probe_scope(plan, "all", [new], True, "run"),
        schedule.build_probe_scope(plan, "auto", list(plan["nodes"]), True, "run"),
    ):
        assert not other["few"]


def test_after_a_leave_one_link_of_each_node_is_tried() -> None:
    plan = simulated_nodes.make_plan(4)
    scope = schedule.build_probe_scope(plan, "auto", [], True, "run")
    assert [len(schedule.select_peers(plan, name, scope)) for name in plan["nodes"]] == [1, 1, 1, 1]
    (said,) = mesh.describe_coverage(ClusterObservations(plan=plan, nodes={}, scope=scope))
    assert "one link of each node was tested (4 of 12)" in said


PARAMETERS: dict[str, Any] = {
    "token": "t",
    "node": "",
    "address": "",
    "targets": [],
    "sweep": [],
    "at_once": 16,
    "budget": 60.0,
    "master": "",
    "payload": 65536,
    "seconds": 3.0,
    "bandwidth": 0,
    "rdma": [],
    "run": "",
    "attached": False,
    "rails": [],
}


def test_a_healthy_node_sends_at_most_a_kilobyte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = simulated_nodes.make_plan(1000)
    ports = simulated_nodes.query_node(simulated_nodes.make_plan(3), 1)["ports"]
    looks = dict.fromkeys(plan["nodes"], ports)
    scope = schedule.build_probe_scope(plan, "auto", [], False, "run")
    name = simulated_nodes.make_node_name(500)
    rows = schedule.build_sweep(plan, looks, name, scope)
    own = plan["nodes"][name]["address"]
    asked = {"node": name, "address": own, "sweep": rows, "master": plan["master"]["node"]}
    monkeypatch.setattr(
        sweep, "probe_links", lambda targets, *_more: simulated_nodes.pass_all(targets, own)
    )
    monkeypatch.setattr(
        second_call, "survey_neighbours", lambda _peers: {"count": 0, "entries": {}}
    )
    answer = second_call.connect_to_peers(**{**PARAMETERS, **asked})
    assert contract.convert_value(LadderLinksResult, answer)["swept"]["peers"] == 999
    assert len(json.dumps(answer)) <= 1000


def test_a_sweep_begins_no_more_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = simulated_nodes.make_plan(1000)
    ports = simulated_nodes.query_node(simulated_nodes.make_plan(3), 1)["ports"]
    scope = schedule.build_probe_scope(plan, "auto", [], False, "run")
    rows = schedule.build_sweep(
        plan, dict.fromkeys(plan["nodes"], ports), simulated_nodes.make_node_name(1), scope
    )
    monkeypatch.setattr(
        sweep, "probe_links", lambda targets, *_more: simulated_nodes.pass_all(targets, "")
    )
    me: Any = {"node": "", "address": "", "token": "", "payload": 0}
    found, tried = sweep.sweep_peers(rows, me, 1.0, 16, 0.0)
    assert len(found) == tried == sweep.CHUNK
    _, all_of_them = sweep.sweep_peers(rows, me, 1.0, 16, 60.0)
    assert all_of_them == len(rows)


def test_healthy_links_of_many_nodes_have_no_row() -> None:
    seen = seen_of(COUNT)
    result = root_cause.build_result(seen, ABOUT)
    assert (result["verdict"], result["findings"], result["links"]) == ("ok", [], [])
    pairs = COUNT * (COUNT - 1)
    assert result["mesh"]["open"] == result["mesh"]["tried"] == pairs
    assert result["mesh"]["listeners"] == "one"
    (rung,) = (one for one in result["rungs"] if one["id"] == "L2")
    assert rung["details"]["pairs"] == rung["details"]["open"] == pairs
    assert any("one listener was tested" in note for note in rung["details"]["notes"])
    assert f"links: {pairs} of {pairs} open" in terminal.describe_figures(result)[0]
    shown = page.render_report_page(result)
    assert "in blocks of 1 nodes" in shown
    assert "blocks of links" not in shown
    assert f"{pairs} of {pairs} directed links were tested" in shown
    assert f"{pairs} of {pairs} links are open" in junit.render_junit(result)


def test_a_legend_explains_what_is_counted() -> None:
    result = root_cause.build_result(seen_of(2 * COUNT), ABOUT)
    shown = page.render_report_page(result)
    assert "in blocks of 2 nodes" in shown
    assert re.search(r'<span class="count">\d+ blocks of links</span>', shown)


def block_links(source: int, targets: list[int]) -> Any:
    """Make a change: one node's probe gets no answer from others."""

    def change(plan: Any, held: Any) -> None:
        name = simulated_nodes.make_node_name(source)
        looks = {n: own["__verify_cluster_node"]["ports"] for n, own in held.items()}
        scope = schedule.build_probe_scope(plan, "auto", [], False, simulated_nodes.RUN)
        rows = schedule.build_sweep(plan, looks, name, scope)
        peers = {simulated_nodes.make_node_name(target) for target in targets}
        own = plan["nodes"][name]["address"]
        found = [simulated_nodes.make_connection_result(row, own) for row in rows]
        for record in found:
            if record["node"] in peers:
                record |= {"verdict": "dropped", "errno": "", "ms": 0.0, "rtt_ms": 0.0}
        probe = held[name]["__verify_cluster_links"]
        probe["links"], probe["swept"] = sweep.condense_sweep(
            rows, len(rows), found, plan["master"]["node"]
        )

    return change


def test_deviations_beyond_the_bound_are_judged() -> None:
    targets = list(range(1, 30))
    seen = seen_of(COUNT, block_links(0, targets))
    told = seen.nodes[simulated_nodes.make_node_name(0)]["links"]
    assert len({record["node"] for record in told["links"]}) == len(targets)
    result = root_cause.build_result(seen, ABOUT)
    assert result["verdict"] == "failed"
    assert {row["to"] for row in result["links"]} == {
        simulated_nodes.make_node_name(n) for n in targets
    }
    assert result["mesh"]["open"] == COUNT * (COUNT - 1) - len(targets)
    assert {f["code"] for f in result["findings"]} <= {"VC-201", "DG-113", "DG-116", "DG-117"}
    shown = page.render_report_page(result)
    assert "dropped (29)" in shown


def test_some_of_very_many_blocked_links_are_examined() -> None:
    def all_shut(plan: Any, held: Any) -> None:
        for number in range(COUNT):
            block_links(number, [one for one in range(COUNT) if one != number])(plan, held)

    result = root_cause.build_result(seen_of(COUNT, all_shut), ABOUT)
    every = COUNT * (COUNT - 1)
    assert every > mesh.LOOKED_AT
    assert (result["mesh"]["tried"], result["mesh"]["open"]) == (every, 0)
    assert len(result["links"]) == every
    told = {tuple(pair) for finding in result["findings"] for pair in finding["pairs"]}
    assert len(told) == every
    (rung,) = (one for one in result["rungs"] if one["id"] == "L2")
    assert f"of {every} links that are not open, at most {mesh.LOOKED_AT}" in str(rung["details"])


@pytest.mark.parametrize("name", ["wrong-zone", "rp-filter", "mtu", "zone-reject"])
def test_a_cause_is_found_by_a_part_of_its_links(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = diagnosed_world(load_diagnosis(name))
    monkeypatch.setattr(thin, "LOOKED_AT", 1)
    part = diagnosed_world(load_diagnosis(name))
    assert [(f["code"], f["node"]) for f in part["findings"]] == [
        (f["code"], f["node"]) for f in whole["findings"]
    ]


def test_findings_of_examined_links_apply_to_their_group() -> None:
    group = Finding("VC-201", "L2", "x", pairs=(("a", "z"), ("b", "z"), ("c", "z")))
    other = Finding("VC-201", "L2", "x", pairs=(("a", "y"), ("b", "y")))
    root = Finding("DG-113", "L2", "x", pairs=(("a", "z"),))
    kept = {("a", "z"), ("b", "y")}
    (found,) = thin.extend_to_groups([root], [group, other], kept)
    assert found.pairs == group.pairs


def test_deviations_are_followed_up_with_every_listener_both_ways() -> None:
    plan, held = simulated_nodes.make_hostvars(COUNT)
    block_links(3, [7])(plan, held)
    follow = verify_cluster.ladder_follow_up(plan, answers(held, "links"))
    three, seven = simulated_nodes.make_node_name(3), simulated_nodes.make_node_name(7)
    assert follow == {three: [seven], seven: [three]}
    opened = verify_cluster.ladder_opened(answers(held, "node"))
    closer = verify_cluster.ladder_closer(plan, opened, follow)
    assert closer["node"] == {three: three, seven: seven}
    targets = closer["targets"][seven]
    assert {t["node"] for t in targets} == {three}
    assert len(targets) == len(opened[three])
    about = verify_cluster.ladder_about(plan, follow, plan["nodes"])
    assert about[seven] == {three: simulated_nodes.make_cluster_address(3)}
    assert about[simulated_nodes.make_node_name(5)] == {}
    # the result of the second call counts: the port was only late
    own = plan["nodes"][three]["address"]
    again = closer["targets"][three]
    held[three]["__verify_cluster_closer"] = {
        "links": [simulated_nodes.make_connection_result(target, own) for target in again],
        "bandwidth": [],
        "neighbours": {"count": 1, "entries": {}},
        "seconds": 0.1,
    }
    scope = schedule.build_probe_scope(plan, "auto", [], False, simulated_nodes.RUN)
    seen = verify_cluster.collect_seen_state(
        plan, simulated_nodes.group_answers(held), {**OPTIONS, "scope": scope}
    )
    assert root_cause.build_result(seen, ABOUT)["verdict"] == "ok"


def test_a_sweep_that_timed_out_lists_the_rest() -> None:
    def cut(plan: Any, held: Any) -> None:
        swept = held[simulated_nodes.make_node_name(5)]["__verify_cluster_links"]["swept"]
        swept["tried"], swept["peers"] = 10, 9

    result = root_cause.build_result(seen_of(COUNT, cut), ABOUT)
    (rung,) = (one for one in result["rungs"] if one["id"] == "L2")
    pairs = COUNT * (COUNT - 1)
    assert rung["status"] == "not_run"
    assert rung["reason"] == f"only {pairs - 30} of {pairs} links were tried"


def test_blocks_contain_every_node_once() -> None:
    names = [simulated_nodes.make_node_name(number) for number in range(130)]
    parts = blocks.split_into_blocks(names, 50)
    assert [name for held in parts for name in held] == names
    assert {len(held) for held in parts} == {2, 3}
    for number, name in enumerate(names):
        assert name in parts[schedule.find_block(number, len(names))]


def diagnose_many(change: Any = None) -> Any:
    """Return the result of a diagnosis of many nodes."""
    plan, held = simulated_nodes.make_hostvars(COUNT)
    scope = diagnose.diagnose_scope(plan, 0, simulated_nodes.RUN)
    if change:
        change(plan, held)
    about = {"run": simulated_nodes.RUN, "started": ABOUT.started, "finished": ABOUT.finished}
    own = simulated_nodes.group_diagnosis_answers(plan, held)
    return diagnose.diagnose_result(own, list(held), {**about, "scope": scope})


def test_a_diagnosis_of_many_nodes_reports_its_sweep() -> None:
    found = diagnose_many()
    assert (found["verdict"], found["findings"], found["links"]) == ("ok", [], [])
    assert found["mesh"]["tried"] == COUNT * (COUNT - 1)
    (rung,) = (one for one in found["rungs"] if one["id"] == "L2")
    assert "one listener was tested" in rung["details"]["notes"][0]


def test_a_diagnosis_names_the_one_blocked_link_of_many() -> None:
    three, seven = simulated_nodes.make_node_name(3), simulated_nodes.make_node_name(7)

    def followed(plan: Any, held: Any) -> None:
        block_links(3, [7])(plan, held)
        opened = verify_cluster.ladder_opened(answers(held, "node"))
        closer = verify_cluster.ladder_closer(plan, opened, {three: [seven]})
        targets = closer["targets"][three]
        own = plan["nodes"][three]["address"]
        records = [
            simulated_nodes.make_connection_result(target, own)
            | {"verdict": "dropped", "ms": 0.0, "rtt_ms": 0.0}
            for target in targets
        ]
        neighbours = {"count": 1, "entries": {}}
        held[three]["__verify_cluster_closer"] = {
            "links": records,
            "bandwidth": [],
            "neighbours": neighbours,
            "seconds": 3.0,
        }

    found = diagnose_many(followed)
    assert found["verdict"] == "failed"
    (link,) = found["links"]
    assert (link["from"], link["to"], link["verdict"]) == (three, seven, "dropped")
    assert len(link["ports"]) > 10
    assert [[three, seven]] == found["findings"][0]["pairs"]


def test_a_request_for_rates_tests_every_link() -> None:
    plan = simulated_nodes.make_plan(COUNT)
    assert diagnose.diagnose_scope(plan, "0", "run")["sweep"]
    assert not diagnose.diagnose_scope(plan, "1", "run")["sweep"]


def test_a_run_that_excludes_nodes_notes_them() -> None:
    plan, held = simulated_nodes.make_hostvars(3)
    for name in list(held)[:2]:
        held[name] = {"ansible_host": "10.0.0.1"}
    seen = verify_cluster.collect_seen_state(plan, simulated_nodes.group_answers(held), OPTIONS)
    result = root_cause.build_result(seen, ABOUT)
    assert (result["verdict"], result["findings"]) == ("ok", [])
    rungs = {rung["id"]: (rung["status"], rung["reason"]) for rung in result["rungs"]}
    left_out = "gpu-0000, gpu-0001 left out of this run (--limit)"
    assert rungs["L0"] == rungs["L1"] == rungs["L4"] == ("not_run", left_out)
    assert rungs["L2"] == ("not_run", "only 2 of 6 links were tried")


@pytest.mark.parametrize("count", [33, 60])
def test_clocks_of_many_nodes_are_compared_with_the_masters(count: int) -> None:
    def late(plan: Any, held: Any) -> None:
        swept = held[simulated_nodes.make_node_name(9)]["__verify_cluster_links"]["swept"]
        swept["clock"] = [42.0, 0.001]

    result = root_cause.build_result(seen_of(count, late), ABOUT)
    assert [(f["code"], f["node"]) for f in result["findings"]] == [
        ("VC-103", simulated_nodes.make_node_name(9))
    ]


def test_only_wrong_names_of_many_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts: list[Any] = [
        {"address": f"10.0.0.{n}", "names": [f"n{n}"]} for n in range(1, lookup.NAMES_IN_FULL + 2)
    ]
    answers = {host["names"][0]: [host["address"]] for host in hosts}
    wrong = {"n3": ["10.9.9.9"], "n4": [], "n5": None}
    monkeypatch.setattr(lookup.socket, "gethostname", lambda: "n1")
    monkeypatch.setattr(lookup, "look_up_names", lambda *_: {**answers, **wrong})
    told = lookup.observe_names(hosts, "10.0.0.1")
    assert told == {"hostname": "n1", "own": ["10.0.0.1"], "plan": wrong}
    # with few nodes, all are named
    assert len(lookup.observe_names(hosts[:5], "10.0.0.1")["plan"]) == len(answers)


def test_requested_and_failed_handshakes_are_reported() -> None:
    seen: Any = {
        "proved": {"a": 1, "b": 1},
        "refused": 0,
        "strangers": [],
        "asked": {"10.0.0.1>10.0.0.2": [1], "10.0.0.3>10.0.0.2": [2], "10.0.0.1>10.0.0.12": [3]},
        "answered": {"10.0.0.2>10.0.0.1": [1], "10.0.0.2>10.0.0.3": [2]},
        "lost": {"a": [0, 9], "b": [0, 9], "c": [4, 9]},
    }
    told = listeners.filter_listener_report(seen, {"a": "10.0.0.3"})
    assert told["proved"] == {"a": 1}
    assert told["asked"] == {"10.0.0.3>10.0.0.2": [2]}
    assert told["answered"] == {"10.0.0.2>10.0.0.3": [2]}
    assert told["lost"] == {"a": [0, 9], "c": [4, 9]}


def test_the_benchmark_of_many_nodes_finds_its_faults(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("scale", ROOT / "benchmarks/scale.py")
    assert spec
    assert spec.loader
    scale = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scale)
    (tmp_path / "3").mkdir()
    cluster = scale.Cluster(3, tmp_path)
    said = {name: stage(cluster) for name, stage in scale.STAGES.items()}
    assert "report.html" in said["report"]
