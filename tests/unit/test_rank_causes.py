"""If all ranks fail, one finding names the rank that ended first and its reason. Based on a recorded rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from ansible.module_utils.fullmesh.probe import processors
from records import EL1, make_finished_ranks

from fullmesh import contract
from fullmesh.filters.observe.verify_cluster import PARTS
from fullmesh.model.plan import derive_plan
from fullmesh.result.findings import Finding
from fullmesh.verify import rank_ends, ranks
from fullmesh.verify.model import ClusterObservations

NODES = tuple(f"node{number}" for number in range(8))
STEP = "fsdp"
# Messages of ranks of ./fullmesh demo --nodes 8, each with another peer and port.
WAITED = "RuntimeError: [x/unbound_buffer.cc:78] Timed out waiting 10000ms for recv operation to complete"
GONE = "RuntimeError: [x/pair.cc:547] Connection closed by peer [10.78.0.1{}]:5061{}"
OWN = "RuntimeError: unable to mmap 1048576 bytes from file </torch_9>: Cannot allocate memory (12)"


@pytest.fixture
def eight() -> ClusterObservations:
    """Make eight nodes with a finished rank each. All ranks started at different times."""
    hosts: dict[str, Any] = {
        name: {"fullmesh_address": f"10.78.0.{11 + number}/24", "fullmesh_interface": "eth1"}
        for number, name in enumerate(NODES)
    }
    plan = derive_plan(hosts)
    nodes: dict[str, Any] = {
        name: {"gloo": make_finished_ranks(EL1, [n])} for n, name in enumerate(NODES)
    }
    seen = ClusterObservations(plan=plan, nodes=nodes, inventory="inv")
    for number, name in enumerate(NODES):
        for event in seen.nodes[name]["gloo"]["ranks"][str(number)]["events"]:
            if "at" in event:
                event["at"] += 0.7 * number
    return seen


def stop(
    seen: ClusterObservations, rank: int, seconds: float, text: str = "", step: str = STEP
) -> None:
    """Let a rank raise an error this many seconds after the start of a step, or be killed if there is no text."""
    gloo = seen.nodes[NODES[rank]]["gloo"]
    said = gloo["ranks"][str(rank)]
    last = next(number for number, e in enumerate(said["events"]) if e["step"] == step)
    said["events"] = said["events"][: last + 1]
    begun = said["events"][-1]["at"]
    gloo["ended"]["codes"] = {str(rank): 1 if text else -9}
    gloo["ended"]["at"] = {str(rank): begun + seconds}
    if text:
        said["events"].append(
            {"step": step, "state": "failed", "seconds": seconds, "text": text, "data": {}}
        )


def hang(seen: ClusterObservations, rank: int, seconds: float, died: bool = False) -> None:
    """Kill a rank this many seconds after the start of a step: at the deadline, or after a neighbor's death."""
    stop(seen, rank, 0.0)
    gloo = seen.nodes[NODES[rank]]["gloo"]
    begun = gloo["ranks"][str(rank)]["events"][-1]["at"]
    gloo["ended"].update(codes={"8": 1} if died else {}, killed=[rank], seconds=begun + seconds)


def end_with_others(seen: ClusterObservations, rank: int, seconds: float, step: str = STEP) -> None:
    """End a rank this many seconds after the start of a step, because another one failed."""
    stop(seen, rank, 0.0, step=step)
    gloo = seen.nodes[NODES[rank]]["gloo"]
    begun = gloo["ranks"][str(rank)]["events"][-1]["at"]
    gloo["ended"].update(codes={}, stopped=[rank], seconds=begun + seconds)


def find_findings(seen: ClusterObservations) -> list[Finding]:
    """Return the findings for the answers, read by their types. All nodes have one recorded rank's listeners."""
    for node in seen.nodes.values():
        node["gloo"] = cast("Any", contract.convert_value(PARTS["gloo"], node["gloo"]))
    return list(ranks.rule_ranks_finish(seen))


def others(seen: ClusterObservations, first: int, after: float) -> None:
    """Let all other ranks lose this rank, or wait for it."""
    for rank in set(range(8)) - {first}:
        text = WAITED if rank % 2 else GONE.format(first, rank)
        stop(seen, rank, after + 0.01 * rank, text)


def test_recorded_ranks_have_no_finding(eight: ClusterObservations) -> None:
    assert find_findings(eight) == []


def test_failures_after_one_killed_rank_are_one_finding(
    eight: ClusterObservations,
) -> None:
    stop(eight, 3, 0.5)
    others(eight, 3, 1.0)
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node) == ("VC-303", "node3")
    assert "rank 3 on node3 ended in the middle of fsdp: exit code -9 (SIGKILL)" in finding.cause
    assert ". 7 other ranks ended after that, the first of them 0.50 s later" in finding.cause


def test_an_error_of_a_rank_explains_lost_and_waiting_peers(
    eight: ClusterObservations,
) -> None:
    stop(eight, 5, 0.5, OWN)
    others(eight, 5, 0.8)
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node, finding.seen) == ("VC-808", "node5", "failed")
    assert finding.cause.startswith(f"rank 5 on node5 failed in fsdp: {OWN}. 7 other ranks")


def test_the_first_dead_rank_is_named_despite_later_messages(
    eight: ClusterObservations,
) -> None:
    for rank in range(8):
        stop(eight, rank, 4.0 - 0.4 * rank if rank < 7 else 2.5)
        eight.nodes[NODES[rank]]["gloo"]["ranks"][str(rank)]["log"] = f"terminate called {rank}"
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node) == ("VC-303", "node6")
    assert "rank 6 on node6 ended in the middle of fsdp" in finding.cause
    assert "7 other ranks ended after that, the first of them 0.40 s later" in finding.cause


def test_two_own_errors_are_one_finding_that_names_both(
    eight: ClusterObservations,
) -> None:
    stop(eight, 1, 2.0, "RuntimeError: a second error")
    stop(eight, 4, 0.5, OWN)
    for rank in (0, 2, 3, 5, 6, 7):
        stop(eight, rank, 0.7, GONE.format(4, rank))
    (finding,) = find_findings(eight)
    assert finding.node == "node4"
    assert "rank 1 on node1 with RuntimeError: a second error" in finding.cause


def test_a_rank_lost_one_step_later_is_the_cause(eight: ClusterObservations) -> None:
    """One rank may finish an all_reduce while the last data is still on its way to the others."""
    stop(eight, 2, 0.1, step="broadcast")
    for rank in (0, 1, 3, 4, 5, 6, 7):
        stop(eight, rank, 0.3, GONE.format(2, rank), step="all_reduce")
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node) == ("VC-303", "node2")
    assert "7 other ranks ended after that" in finding.cause


def test_the_first_of_ranks_that_lost_each_other_is_named(eight: ClusterObservations) -> None:
    for rank in range(8):
        stop(eight, rank, 0.2 if rank == 6 else 1.0, GONE.format(rank, rank))
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node) == ("VC-808", "node6")
    assert "Rank 6 on node6 was the first of them, 0.80 s before the next" in finding.cause


def test_the_rank_that_hangs_until_the_deadline_is_named(
    eight: ClusterObservations,
) -> None:
    others(eight, 3, 10.0)
    hang(eight, 3, 90.0)
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node, finding.seen) == ("VC-808", "node3", "hung")
    assert finding.cause.startswith(
        "rank 3 on node3 hung in fsdp until the deadline. 7 other ranks"
    )
    hang(eight, 3, 9.0)  # the deadline ended it while it waited like the others
    (finding,) = find_findings(eight)
    assert finding.node != "node3"


def test_a_rank_stopped_with_its_neighbour_is_not_blamed(eight: ClusterObservations) -> None:
    others(eight, 3, 10.0)
    hang(eight, 3, 13.0, died=True)
    (finding,) = find_findings(eight)
    assert finding.node != "node3"


def test_ranks_that_were_stopped_with_another_are_no_cause(eight: ClusterObservations) -> None:
    """The first rank to fail is named, although others were stopped at an earlier step."""
    stop(eight, 3, 0.5, OWN, step="all_reduce")
    for rank in (0, 1, 2, 4, 5, 6, 7):
        end_with_others(eight, rank, 1.0, step="import" if rank == 7 else "init")
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node) == ("VC-403", "node3")
    assert finding.cause.startswith(f"rank 3 on node3 failed in all_reduce: {OWN}. 7 other ranks")


def test_the_rank_that_was_stopped_last_is_named(
    eight: ClusterObservations,
) -> None:
    others(eight, 3, 10.0)
    end_with_others(eight, 3, 12.0)
    (finding,) = find_findings(eight)
    assert (finding.node, finding.seen) == ("node3", "hung")
    assert "rank 3 on node3 hung in fsdp for 12 s, longer than the others waited" in finding.cause


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"unreachable": True, "msg": "[AK-102] The connection was lost"}, "VC-309"),
        ({"failed": True, "msg": "[VC-309] It heard nothing from the controller."}, "VC-309"),
        ({"failed": True, "msg": "[VC-304] The test job could not be followed: x."}, "VC-304"),
    ],
)
def test_a_node_without_an_answer_is_the_cause(
    eight: ClusterObservations, answer: dict[str, Any], code: str
) -> None:
    eight.nodes["node5"]["gloo"] = cast("Any", rank_ends.read_missing_answer(answer, [5]))
    for rank in (0, 1, 2, 3, 4, 6, 7):
        end_with_others(eight, rank, 1.0)
    (finding,) = find_findings(eight)
    assert (finding.code, finding.node) == (code, "node5")


def test_a_node_without_an_answer_after_the_stop_is_no_cause(eight: ClusterObservations) -> None:
    stop(eight, 3, 0.5, OWN)
    answer = {"unreachable": True, "msg": "[AK-101] No answer", "after_stop": True}
    eight.nodes["node5"]["gloo"] = cast("Any", rank_ends.read_missing_answer(answer, [5]))
    (finding,) = find_findings(eight)
    assert finding.node == "node3"


def test_events_before_a_common_clock_are_not_ordered(
    eight: ClusterObservations,
) -> None:
    """An error during the import of torch on one node has no relation to that of another node."""
    for rank in range(2):
        stop(eight, rank, 1.0, f"ImportError: libgomp on {NODES[rank]}", step="import")
    assert [(one.code, one.node) for one in find_findings(eight)] == [
        ("VC-302", "node0"),
        ("VC-302", "node1"),
    ]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"load": 30.0}, "node2: load 30.0 on 2 CPUs"),
        ({"steal": 0.41}, "node2: load 0.5 on 2 CPUs, 41 % of their time stolen"),
        ({"throttled": 0.9}, "90 % of the periods cut short by a cgroup's limit (throttled)"),
    ],
)
def test_our_deadline_on_a_busy_machine_is_no_verdict(
    eight: ClusterObservations, kept: dict[str, float], said: str
) -> None:
    for rank in range(8):
        stop(eight, rank, 1.0, WAITED)
    eight.nodes["node2"]["gloo"]["ended"].update(kept)  # type: ignore[typeddict-item]
    (finding,) = find_findings(eight)
    assert finding.code == "VC-306"
    assert finding.cause.startswith("not finished, the machine is busy: ranks 0, 1,")
    assert said in finding.seen


def test_a_little_steal_is_no_excuse(eight: ClusterObservations) -> None:
    for rank in range(8):
        stop(eight, rank, 1.0, WAITED)
    eight.nodes["node2"]["gloo"]["ended"].update(steal=0.05)
    assert [one.code for one in find_findings(eight)] == ["VC-808"]


def test_causes_of_lost_cpu_time_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "groups/user.slice/run.scope"
    inner.mkdir(parents=True)
    for name, text in (("STAT", "stat"), ("OWN", "own"), ("GROUPS", "groups")):
        monkeypatch.setattr(processors, name, str(tmp_path / text))
    (tmp_path / "own").write_text("1:cpu:/\n0::/user.slice/run.scope\n")
    (tmp_path / "stat").write_text("cpu  10 0 10 60 10 5 5 100 7 0\ncpu0 1\n")
    (inner.parent / "cpu.stat").write_text("usage_usec 9\nnr_periods 100\nnr_throttled 10\n")
    before = processors.read_cpu_counters()
    assert (before.ticks, before.stolen) == (200, 100)
    assert processors.measure_cpu_loss(before) == (0.0, 0.0)
    (tmp_path / "stat").write_text("cpu  20 0 20 100 10 5 5 140 7 0\n")
    (inner.parent / "cpu.stat").write_text("usage_usec 9\nnr_periods 200\nnr_throttled 85\n")
    assert processors.measure_cpu_loss(before) == (0.4, 0.75)


def test_a_node_without_counters_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STAT", "OWN", "GROUPS"):
        monkeypatch.setattr(processors, name, str(tmp_path / "none"))
    assert processors.measure_cpu_loss(processors.read_cpu_counters()) == (0.0, 0.0)
