"""watch: missing ranks, and ranks that cannot connect."""

from __future__ import annotations

import fullmesh_watch_judge as watch_judge
import fullmesh_watch_look as watch_look
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch_job import PLAN, SimulatedWatch, make_process

from fullmesh.observed.watch import (
    JobProblem,
    JobSnapshot,
    PartialParticipants,
    WatchedProcess,
    WatchedSocket,
)
from fullmesh.printed import CONTROL

ESTABLISHED, SYN_SENT, LISTEN = 1, 2, 10


def make_rank(
    pid: int, number: int, master: str = "10.78.0.11", port: int = 29500
) -> WatchedProcess:
    return make_process(pid, rank=number, world=4, master=master, port=port)


def make_agent(pid: int, host: str, port: int, static: bool = False) -> WatchedProcess:
    return make_process(pid, agent=(host, port), static=static)


def make_socket(
    pid: int, state: int, here: tuple[str, int], there: tuple[str, int] = ("", 0)
) -> WatchedSocket:
    return {
        "pid": pid,
        "state": state,
        "address": here[0],
        "port": here[1],
        "peer": there[0],
        "peer_port": there[1],
        "inode": "1",
    }


STORE = ("10.78.0.11", 29500)


EL1 = [make_rank(1, 0), make_rank(2, 1)]


OWN = [
    make_socket(1, LISTEN, ("::", 29500)),
    make_socket(1, ESTABLISHED, ("10.78.0.11", 50001), STORE),
    make_socket(1, ESTABLISHED, STORE, ("10.78.0.11", 50001)),
    make_socket(2, ESTABLISHED, ("10.78.0.11", 50002), STORE),
    make_socket(1, ESTABLISHED, STORE, ("10.78.0.11", 50002)),
]


FROM_UB1 = [make_socket(1, ESTABLISHED, STORE, ("10.78.0.12", port)) for port in (50001, 50002)]


def make_snapshot(processes: list[WatchedProcess], sockets: list[WatchedSocket]) -> JobSnapshot:
    return {"processes": processes, "sockets": sockets, "others": []}


def test_healthy_job_has_no_report() -> None:
    job = SimulatedWatch()
    for clock in (1, 30, 100, 1000, 10000):
        assert job.judge_at(clock, make_snapshot(EL1, OWN + FROM_UB1)) == []


def test_missing_rank_is_reported_once_with_the_zone() -> None:
    job = SimulatedWatch()
    assert job.judge_at(1, make_snapshot(EL1, OWN)) == []
    assert job.judge_at(60, make_snapshot(EL1, OWN)) == []
    [line] = job.judge_at(61, make_snapshot(EL1, OWN))
    assert line.startswith(
        "[WA-101] ranks 2-3 (ub1) has not reached 10.78.0.11:29500 here: zone public on el1 does not open 29500/tcp."
    )
    assert job.judge_at(120, make_snapshot(EL1, OWN)) == []
    assert job.judge_at(130, make_snapshot(EL1, OWN + FROM_UB1)) == ["together"]


def test_one_of_two_missing_ranks_is_counted() -> None:
    job = SimulatedWatch()
    job.judge_at(0, make_snapshot(EL1, OWN + FROM_UB1[:1]))
    [line] = job.judge_at(60, make_snapshot(EL1, OWN + FROM_UB1[:1]))
    assert "1 of ub1's 2 ranks has not reached" in line


def test_rank_that_cannot_connect_shows_peer_and_reason() -> None:
    job = SimulatedWatch("ub1")
    snapshot = make_snapshot(
        [make_rank(7, 2)], [make_socket(7, SYN_SENT, ("10.78.0.12", 50003), STORE)]
    )
    job.judge_at(0, snapshot)
    [line] = job.judge_at(60, snapshot)
    assert line.startswith(
        "[WA-102] rank 2 (ub1, this node) has not reached 10.78.0.11:29500 (el1): dropped"
    )
    assert "On el1: firewall-cmd" in line


def test_child_processes_belong_to_their_rank() -> None:
    job = SimulatedWatch("ub1")
    store = make_socket(8, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    snapshot = make_snapshot(
        [make_rank(7, 2), make_rank(8, 2), make_rank(9, 2), make_rank(6, 3)], [store]
    )
    assert job.judge_at(0, snapshot) == []
    [line] = job.judge_at(60, snapshot)
    assert line.startswith("[WA-102] rank 3 (ub1, this node)")
    assert job.judge_at(600, snapshot) == []


def test_job_on_one_node_has_no_report() -> None:
    one_node_ranks = [one | {"world": 2} for one in EL1]
    rendezvous = make_agent(3, *STORE, static=True) | {"nnodes": 1}
    for processes in (one_node_ranks, [rendezvous, *one_node_ranks], [rendezvous]):
        job = SimulatedWatch()
        snapshot = make_snapshot(
            processes,
            [
                *OWN,
                make_socket(3, LISTEN, ("::", 29500)),
                make_socket(3, ESTABLISHED, STORE, STORE),
            ],
        )
        assert [job.judge_at(clock, snapshot) for clock in (0, 60, 600)] == [[], [], []]


def test_all_planned_ranks_may_be_on_one_node() -> None:
    job = SimulatedWatch()
    one_node_ranks = [make_rank(pid, pid) | {"groups": 1} for pid in (1, 2)]
    snapshot = make_snapshot(one_node_ranks, [*OWN, *OWN[2:]])
    assert [job.judge_at(clock, snapshot) for clock in (0, 60, 600)] == [[], [], []]


def test_rank_with_an_open_port_has_more_time() -> None:
    class OpenWatch(SimulatedWatch):
        def explain(self, make_problem: JobProblem) -> None:
            watch_judge.explain_unreached(make_problem, self.plan, "open", own=False)

    job = OpenWatch("ub1")
    snapshot = make_snapshot([make_rank(7, 2)], [])
    assert [job.judge_at(clock, snapshot) for clock in (0, 60, 61, 121, 299)] == [
        [],
        [],
        [],
        [],
        [],
    ]
    assert job.reported == {}
    [line] = job.judge_at(300, snapshot) or job.judge_at(360, snapshot)
    assert "it is still starting, or waits for something else" in line


def test_a_job_smaller_than_the_plan_is_counted() -> None:
    job = SimulatedWatch()
    three = [one | {"world": 3} for one in EL1]
    job.judge_at(0, make_snapshot(three, OWN))
    [line] = job.judge_at(60, make_snapshot(three, OWN))
    assert "at least 1 of 3 ranks (connected: el1) has not reached" in line
    job = SimulatedWatch()
    rendezvous = make_agent(3, "10.78.0.11", 29400) | {"nnodes": 3}
    snapshot = make_snapshot([rendezvous], [make_socket(3, LISTEN, ("::", 29400))])
    job.judge_at(0, snapshot)
    [line] = job.judge_at(60, snapshot)
    assert "at least 3 of 3 nodes (connected: nobody)" in line


def test_wrapper_of_torchrun_is_not_a_second_agent() -> None:
    job = SimulatedWatch("ub1")
    rendezvous = ("10.78.0.11", 29400)
    snapshot = make_snapshot(
        [make_agent(1, *rendezvous), make_agent(2, *rendezvous)],
        [make_socket(2, ESTABLISHED, ("10.78.0.12", 50009), rendezvous)],
    )
    assert [job.judge_at(clock, snapshot) for clock in (0, 60, 600)] == [[], [], []]


@pytest.mark.parametrize(("names", "number"), [(watch_look.RANKS[0], 3), (watch_look.RANKS[2], 4)])
def test_ranks_of_mpirun_and_srun_are_read(names: tuple[str, str], number: int) -> None:
    bare_rank = make_rank(1, 0) | {"rank": None, "told": {names[0]: str(number), names[1]: "8"}}
    [found] = watch_look.assign_ranks([dict(bare_rank)])
    assert (found["rank"], found["world"]) == (number, 8)
    with_child = [dict(bare_rank), make_rank(2, 12)]
    assert watch_look.assign_ranks(with_child)[0]["rank"] is None
    assert (
        watch_look.assign_ranks([dict(bare_rank), make_agent(2, "10.78.0.11", 29400)])[0]["rank"]
        is None
    )


def test_wrong_master_is_reported() -> None:
    job = SimulatedWatch("ub1")
    snapshot = make_snapshot([make_rank(7, 2, "10.78.0.99")], [])
    job.judge_at(0, snapshot)
    [line] = job.judge_at(60, snapshot)
    assert "has not reached 10.78.0.99:29500:" in line
    assert "the plan's master is 10.78.0.11 (el1)" in line
    assert "Set MASTER_ADDR=10.78.0.11 here" in line


def test_an_unanswered_data_connection_names_the_range() -> None:
    job = SimulatedWatch("ub1")
    store = make_socket(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    for port, word in ((50123, "in"), (40123, "OUTSIDE")):
        job = SimulatedWatch("ub1")
        snapshot = make_snapshot(
            [make_rank(7, 2)],
            [store, make_socket(7, SYN_SENT, ("10.78.0.12", 50003), ("10.78.0.11", port))],
        )
        job.judge_at(0, snapshot)
        [line] = job.judge_at(60, snapshot)
        assert line.startswith(
            f"[WA-103] rank 2 (ub1, this node) gets no answer from 10.78.0.11:{port} (el1): dropped"
        )
        assert f"is {word} the data range" in line


def test_a_connection_to_another_program_is_ignored() -> None:
    job = SimulatedWatch("ub1")
    store = make_socket(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    snapshot = make_snapshot(
        [make_rank(7, 2)],
        [store, make_socket(7, SYN_SENT, ("10.78.0.12", 50003), ("192.0.2.7", 443))],
    )
    assert [job.judge_at(clock, snapshot) for clock in (0, 60, 600)] == [[], [], []]


def test_ranks_that_left_before_any_data_are_reported() -> None:
    job = SimulatedWatch()
    job.judge_at(0, make_snapshot(EL1, OWN + FROM_UB1))
    job.judge_at(100, make_snapshot(EL1, OWN))
    [line] = job.judge_at(160, make_snapshot(EL1, OWN))
    assert line.startswith("[WA-104] ranks 2-3 (ub1) has left 10.78.0.11:29500")
    assert "explain-log" in line


def test_ranks_that_leave_after_data_are_not_reported() -> None:
    job = SimulatedWatch()
    data = make_socket(1, ESTABLISHED, ("10.78.0.11", 50100), ("10.78.0.12", 50200))
    job.judge_at(0, make_snapshot(EL1, [*OWN, *FROM_UB1, data]))
    assert [job.judge_at(clock, make_snapshot(EL1, OWN)) for clock in (100, 200, 900)] == [
        [],
        [],
        [],
    ]


def test_rank_that_left_its_store_is_not_unreached() -> None:
    job = SimulatedWatch("ub1")
    job.judge_at(
        0,
        make_snapshot(
            [make_rank(7, 2)], [make_socket(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)]
        ),
    )
    assert [job.judge_at(clock, make_snapshot([make_rank(7, 2)], [])) for clock in (100, 200)] == [
        [],
        [],
    ]


@pytest.mark.parametrize(
    ("static", "who"), [(True, "ranks 2-3 (ub1)"), (False, "ub1 (10.78.0.12)")]
)
def test_an_elastic_rendezvous_names_no_fixed_ranks(static: bool, who: str) -> None:
    job = SimulatedWatch()
    snapshot = make_snapshot(
        [make_agent(3, *STORE, static)], [make_socket(3, LISTEN, ("::", 29500))]
    )
    if static:
        job.judge_at(0, snapshot)
        [line] = job.judge_at(60, snapshot)
        assert "2 of ub1" in line or who in line
    else:
        job.judge_at(0, snapshot)
        [line] = job.judge_at(60, snapshot)
        assert who in line


def test_without_a_plan_ranks_are_counted() -> None:
    job = SimulatedWatch("me", {})
    job.judge_at(0, make_snapshot(EL1, OWN + FROM_UB1[:1]))
    [line] = job.judge_at(60, make_snapshot(EL1, OWN + FROM_UB1[:1]))
    assert "at least 1 of 4 ranks (connected: 10.78.0.12, here)" in line


def test_each_verdict_has_an_explanation() -> None:
    for verdict in (
        *watch_look.OUTCOMES.values(),
        *watch_look.ARP_WORDS.values(),
        "dropped",
        "unresolved",
        "waiting",
        "loopback",
    ):
        make_problem = watch_judge.build_problem(
            watch_judge.UNREACHED, "10.78.0.11", 29500, "store", "ub1"
        )
        make_problem.update({"who": "rank 2", "node": "ub1", "rank": 2})
        watch_judge.explain_unreached(make_problem, PLAN, verdict, own=False)
        assert make_problem["why"] == watch_judge.WHY[verdict]
        assert watch_judge.describe_problem(make_problem).startswith(
            "[WA-102] rank 2 has not reached 10.78.0.11:29500 (el1): "
        )


SNAPSHOTS = st.fixed_dictionaries(
    {
        "processes": st.lists(
            st.sampled_from(
                [
                    *EL1,
                    make_agent(3, *STORE),
                    make_agent(4, "el1", 0, True),
                    make_rank(9, 3, "fd78::11"),
                ]
            ),
            max_size=4,
        ),
        "sockets": st.lists(
            st.builds(
                make_socket,
                st.integers(1, 9),
                st.integers(1, 11),
                st.tuples(
                    st.sampled_from(["10.78.0.11", "::", "fd78::12"]),
                    st.sampled_from([29500, 50001]),
                ),
                st.tuples(
                    st.sampled_from(["10.78.0.12", "fd78::11", "192.0.2.1"]),
                    st.sampled_from([29500, 443]),
                ),
            ),
            max_size=8,
        ),
        "others": st.just([]),
    }
)


@given(st.lists(SNAPSHOTS, max_size=6), st.sampled_from([PLAN, {}, {"nodes": []}]))
def test_any_snapshot_is_judged_without_an_error(
    snapshots: list[JobSnapshot], plan: PartialParticipants
) -> None:
    job = SimulatedWatch("el1", plan)
    for number, snapshot in enumerate(snapshots):
        for line in job.judge_at(61.0 * number, snapshot):
            assert not CONTROL.search(line)
