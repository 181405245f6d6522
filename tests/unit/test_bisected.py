"""What groups of nodes came to, read from what ranks say, and the one finding that it makes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import ladder_samples
import pytest

from fullmesh import cli
from fullmesh.diagnose import root_cause, verification
from fullmesh.filters.observe import verify_cluster
from fullmesh.model.plan import derive_plan
from fullmesh.report import terminal
from fullmesh.result.findings import Finding
from fullmesh.result.types import BisectGroup, BisectRun
from fullmesh.verbs import cluster
from fullmesh.verify import bisect, bisected, build
from fullmesh.verify.model import ClusterObservations

NAMES = ("a", "b", "c", "d")
FAST, SLOW = 5.5, 0.2
OF_ANSIBLE = {"failed": False, "changed": False, "failed_when_result": False}


def of_four() -> ClusterObservations:
    hosts = {
        name: {"fullmesh_address": f"10.78.0.{11 + i}/24", "fullmesh_interface": "eth1"}
        for i, name in enumerate(NAMES)
    }
    made: Any = derive_plan(hosts)
    nodes: Any = {name: ladder_samples.node(made, name) for name in NAMES}
    return ClusterObservations(plan=made, nodes=nodes, inventory="inv")


def make_group(
    names: str, rate: float = FAST, state: Any = "measured", text: str = ""
) -> BisectGroup:
    rate = rate if state == "measured" else 0.0
    return {"nodes": names.split(), "state": state, "bus_gbit_s": rate, "text": text}


def check_runs(*runs: list[BisectGroup]) -> list[Finding]:
    held: list[BisectRun] = [{"groups": groups} for groups in runs]
    return bisected.check_bisect_runs(replace(of_four(), bisect=held))


def get_only_finding(found: list[Finding]) -> Finding:
    (one,) = found
    return one


def test_the_ladders_own_job_is_the_first_run() -> None:
    seen = of_four()
    (run,) = bisected.build_first_run(seen)
    (one,) = run["groups"]
    assert one == make_group("a b c d", FAST)
    following = bisected.plan_next_run(seen, [run])
    assert following["groups"] == [["a", "b"], ["c", "d"]]
    assert following["said"] == "bisect, run 2 of at most 3: a b | c d"
    assert set(following["steps"]) <= set(bisected.STEPS)


def test_ranks_start_at_zero_in_every_group() -> None:
    made = of_four().plan
    for name in NAMES:
        made["nodes"][name]["ranks"] = [0, 0]  # two on each
    groups = [["a", "b"], ["c", "d"]]
    assert bisected.get_node_part(made, groups, "d") == {
        "ranks": [2, 3],
        "world": 4,
        "master": made["nodes"]["c"]["address"],
    }
    assert bisected.get_node_part(made, [["a", "b"]], "c")["ranks"] == []


def make_broken_answer(
    whole: ClusterObservations, name: str, step: str, state: str, **more: Any
) -> Any:
    """Return the answer of a node whose rank cannot connect."""
    said: Any = copy.deepcopy(whole.nodes[name]["gloo"])
    (told,) = said["ranks"].values()
    place = [event["step"] for event in told["events"]].index(step)
    del told["events"][place + 1 :]
    if state != "begin":
        told["events"].append({"step": step, "state": state, "seconds": 1.0, "data": {}, **more})
    return said


def test_wrong_numbers_and_failures_differ_from_slow_rates() -> None:
    seen = of_four()
    said: Any = {name: seen.nodes[name]["gloo"] for name in NAMES}
    for number, name in enumerate(NAMES):  # as they are numbered in groups of two
        (rank,) = said[name]["ranks"].values()
        said[name]["ranks"] = {str(number % 2): rank}
    wrong = "all_reduce(sum), element 0: got 7.0, expected 6.0"
    said["b"] = make_broken_answer(
        seen, "b", "all_reduce", "wrong", text=wrong, seen="7.0", expected="6.0"
    )
    run = bisected.build_bisect_run(seen, [["a", "b"], ["c", "d"]], said)
    assert run["groups"][0] == make_group(
        "a b", state="wrong", text=f"rank 1 on b, all_reduce: {wrong}"
    )
    assert run["groups"][1]["state"] == "measured"
    silent = bisected.build_bisect_run(seen, [["a", "b"], ["c", "d"]], {**said, "d": None})
    assert silent["groups"][1]["state"] == "failed"
    assert "never wrote a line" in silent["groups"][1]["text"]


@pytest.mark.parametrize(("alone", "state"), [(True, "unknown"), (False, "failed")])
def test_a_timeout_under_load_is_no_verdict_unless_others_finished(alone: bool, state: str) -> None:
    seen = of_four()
    said: Any = {name: copy.deepcopy(seen.nodes[name]["gloo"]) for name in NAMES}
    for number, name in enumerate(NAMES):
        (rank,) = said[name]["ranks"].values()
        said[name]["ranks"] = {str(number % 2): rank}
    said["b"] = make_broken_answer(seen, "b", "bandwidth", "begin")
    said["b"]["ended"] = {"codes": {}, "killed": [1], "seconds": 120.0, "load": 40.0, "cpus": 2}
    groups = [["a", "b"]] if alone else [["a", "b"], ["c", "d"]]
    assert bisected.build_bisect_run(seen, groups, said)["groups"][0]["state"] == state


WHOLE = [make_group("a b c d", SLOW)]
ROWS = [make_group("a b", SLOW), make_group("c d")]


def test_the_slow_node_is_named() -> None:
    found = get_only_finding(check_runs(WHOLE, ROWS, [make_group("a c"), make_group("b d", SLOW)]))
    assert (found.code, found.rung, found.node, found.peer) == ("VC-880", "L5", "b", "")
    assert "run 2: a b: 0.2 Gbit/s | c d: 5.5 Gbit/s" in found.seen
    assert "--bandwidth" in found.check
    assert found.fix == "leave b out of jobs until it is repaired"


@pytest.mark.parametrize(("state", "code"), [("wrong", "VC-881"), ("failed", "VC-882")])
def test_the_node_with_wrong_numbers_and_the_failing_one_are_named(state: str, code: str) -> None:
    bad = [make_group("a b", state=state), make_group("c d")]
    found = get_only_finding(
        check_runs(
            [make_group("a b c d", state=state)],
            bad,
            [make_group("a c", state=state), make_group("b d")],
        )
    )
    assert (found.code, found.rung, found.node) == (code, "L4", "a")


def test_two_that_are_bad_only_together_are_named_together() -> None:
    found = get_only_finding(check_runs(WHOLE, ROWS, [make_group("a c"), make_group("b d")]))
    assert (found.code, found.node, found.peer) == ("VC-883", "a", "b")
    assert "not with only one of them" in found.cause


def test_indistinguishable_nodes_are_reported() -> None:
    seen = of_four()
    names = ["a", "b"]
    plan: Any = {**seen.plan, "nodes": {n: seen.plan["nodes"][n] for n in names}}
    runs: list[BisectRun] = [{"groups": [make_group("a b", state="wrong")]}]
    found = get_only_finding(bisected.check_bisect_runs(replace(seen, plan=plan, bisect=runs)))
    assert found.code == "VC-884"
    assert "a, or b, or a and b only together" in found.cause


def test_unexplained_runs_are_reported() -> None:
    """All of four nodes are well in pairs and bad in other pairs: a fault an intermittent one."""
    wrong = [make_group("a b", state="wrong"), make_group("c d", state="wrong")]
    found = get_only_finding(
        check_runs([make_group("a b c d")], wrong, [make_group("a c"), make_group("b d")])
    )
    assert found.code == "VC-885"


def test_healthy_groups_give_no_finding() -> None:
    assert (
        check_runs([make_group("a b c d", 4.0)], [make_group("a b"), make_group("c d", 3.0)]) == []
    )
    assert bisected.check_bisect_runs(of_four()) == []


def test_the_finding_fails_its_check_and_is_in_the_result() -> None:
    seen = of_four()
    nodes: Any = copy.deepcopy(dict(seen.nodes))
    for name in NAMES:
        rank = seen.plan["nodes"][name]["ranks"][0]
        nodes[name]["gloo"] = make_broken_answer(
            seen, name, "all_reduce", "wrong", text="got 7.0", seen="7.0"
        )
        assert nodes[name]["gloo"]["ranks"][str(rank)]["events"]
    runs: list[BisectRun] = [
        {"groups": [make_group("a b c d", state="wrong", text="rank 0 on a")]},
        {"groups": [make_group("a b", state="wrong"), make_group("c d")]},
        {"groups": [make_group("a c", state="wrong"), make_group("b d")]},
    ]
    seen = replace(seen, nodes=nodes, bisect=runs)
    rungs, _ = verification.judge_all_checks(seen)
    assert {rung.id for rung in rungs if rung.status == "failed"} == {"L4"}
    made = root_cause.build_result(
        seen, build.VerificationRun("r", "2026-01-01T00:00:00+00:00", "2026-01-01T00:01:00+00:00")
    )
    assert made["bisect"] == runs
    (finding,) = [one for one in made["findings"] if one["severity"] == "error"]
    assert (finding["code"], finding["node"]) == ("VC-881", "a")
    assert [one["code"] for one in finding["follows"]] == ["VC-402"]
    lines = terminal.describe_figures(made)
    assert "bisect: run 2: a b: wrong | c d: 5.5 Gbit/s" in lines


def register_answers(seen: ClusterObservations) -> dict[str, Any]:
    """Return what the role registered: all answers to a query in one place."""
    parts: dict[str, Any] = {}
    for name, said in seen.nodes.items():
        for part, value in said.items():
            key = f"__verify_cluster_{part}"
            parts.setdefault(key, {"answers": {}})["answers"][name] = value
    return parts


def test_filters_hand_the_search_to_ansible() -> None:
    seen = of_four()
    options: dict[str, Any] = {
        "checks": list(seen.checks),
        "mode": "off",
        "check_mode": False,
        "clock_limit": 5,
        "deadline": 60,
        "init_timeout": 10,
        "inventory": "inv",
    }
    told = register_answers(seen)
    runs = verify_cluster.ladder_bisect_first(seen.plan, told, options, True)
    assert verify_cluster.ladder_bisect_first(seen.plan, told, options, False) == []
    following = verify_cluster.ladder_bisect_next(seen.plan, told, {**options, "bisect": runs})
    assert len(verify_cluster.ladder_bisect_most(seen.plan)) == bisect.count_max_runs(4)
    same = {"python": dict.fromkeys(NAMES, "py"), "environment": {n: {"X": n} for n in NAMES}}
    jobs = verify_cluster.ladder_bisect_jobs(seen.plan, following["groups"], same)
    assert jobs["ranks"]["c"] == [0]
    assert jobs["environment"]["c"]["X"] == "c"
    assert jobs["environment"]["c"]["WORLD_SIZE"] == 2
    # no node has answered yet, which looks like nodes that cannot start their ranks
    kept = verify_cluster.ladder_bisect_after(
        seen.plan, told, {**options, "bisect": runs}, following["groups"]
    )
    assert [one["state"] for one in kept[1]["groups"]] == ["failed", "failed"]
    answers = {}
    for number, name in enumerate(NAMES):  # as Ansible registers it, of a task that never fails
        (rank,) = seen.nodes[name]["gloo"]["ranks"].values()
        said = {**seen.nodes[name]["gloo"], "ranks": {str(number % 2): rank}}
        answers[name] = {**said, **OF_ANSIBLE}
    told["__verify_cluster_bisected"] = {"answers": answers}
    kept = verify_cluster.ladder_bisect_after(
        seen.plan, told, {**options, "bisect": runs}, following["groups"]
    )
    assert [one["state"] for one in kept[1]["groups"]] == ["measured", "measured"]


def test_the_command_line_enables_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(cluster, "run_checkout_playbook", lambda *args: asked.append(args) or 0)
    cli.main(["verify", "--bisect", "-i", "inv", "--", "--check"])
    ((book, args),) = asked
    assert book == "playbooks/verify.yml"
    assert args.more == ["--check", "-e", '{"verify_cluster_bisect": true}']
