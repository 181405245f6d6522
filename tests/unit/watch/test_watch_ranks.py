"""watch: missing ranks, and ranks that cannot connect."""

from __future__ import annotations

import fullmesh_watch_judge as watch_judge
import fullmesh_watch_look as watch_look
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch_job import PLAN, Watched, process

from fullmesh.observed.watch import (
    JobProblem,
    JobSnapshot,
    PartialParticipants,
    WatchedProcess,
    WatchedSocket,
)
from fullmesh.printed import CONTROL

ESTABLISHED, SYN_SENT, LISTEN = 1, 2, 10


def rank(pid: int, number: int, master: str = "10.78.0.11", port: int = 29500) -> WatchedProcess:
    return process(pid, rank=number, world=4, master=master, port=port)


def agent(pid: int, host: str, port: int, static: bool = False) -> WatchedProcess:
    return process(pid, agent=(host, port), static=static)


def row(
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


EL1 = [rank(1, 0), rank(2, 1)]


OWN = [
    row(1, LISTEN, ("::", 29500)),
    row(1, ESTABLISHED, ("10.78.0.11", 50001), STORE),
    row(1, ESTABLISHED, STORE, ("10.78.0.11", 50001)),
    row(2, ESTABLISHED, ("10.78.0.11", 50002), STORE),
    row(1, ESTABLISHED, STORE, ("10.78.0.11", 50002)),
]


FROM_UB1 = [row(1, ESTABLISHED, STORE, ("10.78.0.12", port)) for port in (50001, 50002)]


def seen(processes: list[WatchedProcess], sockets: list[WatchedSocket]) -> JobSnapshot:
    return {"processes": processes, "sockets": sockets, "others": []}


def test_a_healthy_job_is_watched_without_a_word() -> None:
    job = Watched()
    for clock in (1, 30, 100, 1000, 10000):
        assert job.at(clock, seen(EL1, OWN + FROM_UB1)) == []


def test_a_missing_rank_is_named_once_with_the_zone() -> None:
    job = Watched()
    assert job.at(1, seen(EL1, OWN)) == []
    assert job.at(60, seen(EL1, OWN)) == []
    [said] = job.at(61, seen(EL1, OWN))
    assert said.startswith(
        "[WA-101] ranks 2-3 (ub1) has not reached 10.78.0.11:29500 here: zone public on el1 does not open 29500/tcp."
    )
    assert job.at(120, seen(EL1, OWN)) == []
    assert job.at(130, seen(EL1, OWN + FROM_UB1)) == ["together"]


def test_one_of_two_ranks_is_missing() -> None:
    job = Watched()
    job.at(0, seen(EL1, OWN + FROM_UB1[:1]))
    [said] = job.at(60, seen(EL1, OWN + FROM_UB1[:1]))
    assert "1 of ub1's 2 ranks has not reached" in said


def test_a_rank_that_cannot_connect_names_peer_and_reason() -> None:
    job = Watched("ub1")
    picture = seen([rank(7, 2)], [row(7, SYN_SENT, ("10.78.0.12", 50003), STORE)])
    job.at(0, picture)
    [said] = job.at(60, picture)
    assert said.startswith(
        "[WA-102] rank 2 (ub1, this node) has not reached 10.78.0.11:29500 (el1): dropped"
    )
    assert "On el1: firewall-cmd" in said


def test_shells_and_data_loaders_of_a_rank_are_that_rank() -> None:
    job = Watched("ub1")
    store = row(8, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    picture = seen([rank(7, 2), rank(8, 2), rank(9, 2), rank(6, 3)], [store])
    assert job.at(0, picture) == []
    [said] = job.at(60, picture)
    assert said.startswith("[WA-102] rank 3 (ub1, this node)")
    assert job.at(600, picture) == []


def test_a_job_on_one_node_waits_for_no_other() -> None:
    alone = [one | {"world": 2} for one in EL1]
    meet = agent(3, *STORE, static=True) | {"nnodes": 1}
    for processes in (alone, [meet, *alone], [meet]):
        job = Watched()
        picture = seen(
            processes, [*OWN, row(3, LISTEN, ("::", 29500)), row(3, ESTABLISHED, STORE, STORE)]
        )
        assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


def test_all_planned_ranks_may_be_on_one_node() -> None:
    job = Watched()
    alone = [rank(pid, pid) | {"groups": 1} for pid in (1, 2)]
    picture = seen(alone, [*OWN, *OWN[2:]])
    assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


def test_an_unhindered_rank_gets_more_time() -> None:
    class Open(Watched):
        def explain(self, problem: JobProblem) -> None:
            watch_judge.explain_unreached(problem, self.plan, "open", own=False)

    job = Open("ub1")
    picture = seen([rank(7, 2)], [])
    assert [job.at(clock, picture) for clock in (0, 60, 61, 121, 299)] == [[], [], [], [], []]
    assert job.reported == {}
    [said] = job.at(300, picture) or job.at(360, picture)
    assert "it is still starting, or waits for something else" in said


def test_a_job_smaller_than_the_plan_is_counted() -> None:
    job = Watched()
    three = [one | {"world": 3} for one in EL1]
    job.at(0, seen(three, OWN))
    [said] = job.at(60, seen(three, OWN))
    assert "at least 1 of 3 ranks (connected: el1) has not reached" in said
    job = Watched()
    meet = agent(3, "10.78.0.11", 29400) | {"nnodes": 3}
    picture = seen([meet], [row(3, LISTEN, ("::", 29400))])
    job.at(0, picture)
    [said] = job.at(60, picture)
    assert "at least 3 of 3 nodes (connected: nobody)" in said


def test_a_program_around_torchrun_is_no_second_agent() -> None:
    job = Watched("ub1")
    meet = ("10.78.0.11", 29400)
    picture = seen(
        [agent(1, *meet), agent(2, *meet)], [row(2, ESTABLISHED, ("10.78.0.12", 50009), meet)]
    )
    assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


@pytest.mark.parametrize(("names", "number"), [(watch_look.RANKS[0], 3), (watch_look.RANKS[2], 4)])
def test_ranks_of_mpirun_and_srun(names: tuple[str, str], number: int) -> None:
    plain = rank(1, 0) | {"rank": None, "told": {names[0]: str(number), names[1]: "8"}}
    [found] = watch_look.assign_ranks([dict(plain)])
    assert (found["rank"], found["world"]) == (number, 8)
    below = [dict(plain), rank(2, 12)]
    assert watch_look.assign_ranks(below)[0]["rank"] is None
    assert watch_look.assign_ranks([dict(plain), agent(2, "10.78.0.11", 29400)])[0]["rank"] is None


def test_a_wrong_master_is_called_wrong() -> None:
    job = Watched("ub1")
    picture = seen([rank(7, 2, "10.78.0.99")], [])
    job.at(0, picture)
    [said] = job.at(60, picture)
    assert "has not reached 10.78.0.99:29500:" in said
    assert "the plan's master is 10.78.0.11 (el1)" in said
    assert "Set MASTER_ADDR=10.78.0.11 here" in said


def test_an_unanswered_data_connection_names_the_range() -> None:
    job = Watched("ub1")
    store = row(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    for port, word in ((50123, "in"), (40123, "OUTSIDE")):
        job = Watched("ub1")
        picture = seen(
            [rank(7, 2)], [store, row(7, SYN_SENT, ("10.78.0.12", 50003), ("10.78.0.11", port))]
        )
        job.at(0, picture)
        [said] = job.at(60, picture)
        assert said.startswith(
            f"[WA-103] rank 2 (ub1, this node) gets no answer from 10.78.0.11:{port} (el1): dropped"
        )
        assert f"is {word} the data range" in said


def test_a_connection_to_another_program_is_ignored() -> None:
    job = Watched("ub1")
    store = row(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)
    picture = seen(
        [rank(7, 2)], [store, row(7, SYN_SENT, ("10.78.0.12", 50003), ("192.0.2.7", 443))]
    )
    assert [job.at(clock, picture) for clock in (0, 60, 600)] == [[], [], []]


def test_ranks_that_left_before_any_data_are_named() -> None:
    job = Watched()
    job.at(0, seen(EL1, OWN + FROM_UB1))
    job.at(100, seen(EL1, OWN))
    [said] = job.at(160, seen(EL1, OWN))
    assert said.startswith("[WA-104] ranks 2-3 (ub1) has left 10.78.0.11:29500")
    assert "explain-log" in said


def test_ranks_that_leave_a_job_that_worked_are_not() -> None:
    job = Watched()
    data = row(1, ESTABLISHED, ("10.78.0.11", 50100), ("10.78.0.12", 50200))
    job.at(0, seen(EL1, [*OWN, *FROM_UB1, data]))
    assert [job.at(clock, seen(EL1, OWN)) for clock in (100, 200, 900)] == [[], [], []]


def test_a_rank_that_left_its_store_had_reached_it() -> None:
    job = Watched("ub1")
    job.at(0, seen([rank(7, 2)], [row(7, ESTABLISHED, ("10.78.0.12", 50009), STORE)]))
    assert [job.at(clock, seen([rank(7, 2)], [])) for clock in (100, 200)] == [[], []]


@pytest.mark.parametrize(
    ("static", "who"), [(True, "ranks 2-3 (ub1)"), (False, "ub1 (10.78.0.12)")]
)
def test_an_elastic_rendezvous_names_no_fixed_ranks(static: bool, who: str) -> None:
    job = Watched()
    picture = seen([agent(3, *STORE, static)], [row(3, LISTEN, ("::", 29500))])
    if static:
        job.at(0, picture)
        [said] = job.at(60, picture)
        assert "2 of ub1" in said or who in said
    else:
        job.at(0, picture)
        [said] = job.at(60, picture)
        assert who in said


def test_without_a_plan_ranks_are_counted() -> None:
    job = Watched("me", {})
    job.at(0, seen(EL1, OWN + FROM_UB1[:1]))
    [said] = job.at(60, seen(EL1, OWN + FROM_UB1[:1]))
    assert "at least 1 of 4 ranks (connected: 10.78.0.12, here)" in said


def test_every_why_is_a_sentence_and_every_verdict_has_one() -> None:
    for verdict in (
        *watch_look.OUTCOMES.values(),
        *watch_look.ARP_WORDS.values(),
        "dropped",
        "unresolved",
        "waiting",
        "loopback",
    ):
        problem = watch_judge.build_problem(
            watch_judge.UNREACHED, "10.78.0.11", 29500, "store", "ub1"
        )
        problem.update({"who": "rank 2", "node": "ub1", "rank": 2})
        watch_judge.explain_unreached(problem, PLAN, verdict, own=False)
        assert problem["why"] == watch_judge.WHY[verdict]
        assert watch_judge.describe_problem(problem).startswith(
            "[WA-102] rank 2 has not reached 10.78.0.11:29500 (el1): "
        )


PICTURES = st.fixed_dictionaries(
    {
        "processes": st.lists(
            st.sampled_from(
                [*EL1, agent(3, *STORE), agent(4, "el1", 0, True), rank(9, 3, "fd78::11")]
            ),
            max_size=4,
        ),
        "sockets": st.lists(
            st.builds(
                row,
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


@given(st.lists(PICTURES, max_size=6), st.sampled_from([PLAN, {}, {"nodes": []}]))
def test_no_picture_breaks_the_watch(
    pictures: list[JobSnapshot], plan: PartialParticipants
) -> None:
    job = Watched("el1", plan)
    for number, picture in enumerate(pictures):
        for said in job.at(61.0 * number, picture):
            assert not CONTROL.search(said)
