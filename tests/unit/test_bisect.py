"""Which groups run a collective next, and what explains the runs: properties over up to 64 nodes."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh.verify.bisect import (
    Group,
    GroupRun,
    Guess,
    Run,
    State,
    choose_next_run,
    count_max_runs,
    is_bad_group,
    judge_groups,
    list_explanations,
)

FAST, SLOW = 9.0, 0.1
COUNTS = st.integers(2, 64)
STATES: tuple[State, ...] = ("measured", "wrong", "failed")


def names(count: int) -> list[str]:
    return [f"n{number:02}" for number in range(count)]


def simulate_group(guess: Guess, state: State = "measured") -> Callable[[Group], GroupRun]:
    """What groups come to where *guess* is the fault: slow, or wrong numbers."""

    def run(group: Group) -> GroupRun:
        if not is_bad_group(group, guess):
            return GroupRun(group, "measured", FAST)
        return GroupRun(group, state, SLOW if state == "measured" else 0.0)

    return run


def search(count: int, come_to: Callable[[Group], GroupRun]) -> tuple[list[Run], list[Guess]]:
    """All runs of a search, each looked at, and what it comes to."""
    held = names(count)
    runs: list[Run] = []
    while groups := choose_next_run(held, runs):
        ends = [name for group in groups for name in group]
        assert len(ends) == len(set(ends)), "a node is in two groups at once"
        assert all(len(group) > 1 for group in groups), "a group of one says nothing"
        assert set(ends) <= set(held)
        runs.append(tuple(come_to(Group(group)) for group in groups))
        assert len(runs) <= count_max_runs(count)
    return runs, list_explanations(held, judge_groups(runs))


def test_the_bound_is_log2_of_the_nodes_and_one() -> None:
    assert [count_max_runs(count) for count in (0, 1)] == [0, 0]
    assert all(count_max_runs(count) == ceil(log2(count)) + 1 for count in range(2, 65))


@given(st.data())
def test_every_bad_node_is_named_alone_in_three_runs(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 64))
    node = data.draw(st.sampled_from(names(count)))
    state = data.draw(st.sampled_from(STATES))
    runs, found = search(count, simulate_group((Group({node}),), state))
    assert found == [(Group({node}),)]
    assert len(runs) <= min(count_max_runs(count), 3 + (count == 5))


@pytest.mark.parametrize("count", [3, 4, 5, 8, 9, 16])
def test_no_place_among_the_nodes_is_a_blind_spot(count: int) -> None:
    for node in names(count):
        assert search(count, simulate_group((Group({node}),)))[1] == [(Group({node}),)]


@pytest.mark.parametrize("state", ["wrong", "failed"])
def test_two_nodes_cannot_be_distinguished(state: State) -> None:
    runs, found = search(2, simulate_group((Group({"n01"}),), state))
    assert len(runs) == 1
    assert found == [(Group({"n00"}),), (Group({"n01"}),), (Group({"n00", "n01"}),)]


@given(COUNTS)
def test_healthy_nodes_are_cleared_in_two_runs(count: int) -> None:
    runs, found = search(count, simulate_group(()))
    assert found == []
    assert len(runs) == {2: 1, 3: 3}.get(count, 2)


@given(st.data())
def test_nodes_that_fail_only_together_are_reported(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 64))
    one, other = data.draw(
        st.lists(st.sampled_from(names(count)), min_size=2, max_size=2, unique=True)
    )
    runs, found = search(count, simulate_group((Group({one, other}),)))
    assert (Group({one, other}),) in found
    assert len(runs) <= count_max_runs(count)
    # a node that works well in every other group is not named
    assert all(len(part) == 2 for guess in found for part in guess)


@given(st.data())
def test_two_bad_nodes_are_both_reported(data: st.DataObject) -> None:
    count = data.draw(st.integers(6, 64))
    bad = data.draw(st.lists(st.sampled_from(names(count)), min_size=2, max_size=2, unique=True))
    _, found = search(count, simulate_group(tuple(Group({name}) for name in bad), "wrong"))
    said = {frozenset().union(*guess) for guess in found}
    assert frozenset(bad) in said


@given(st.data())
def test_unsteady_rates_blame_no_node(data: st.DataObject) -> None:
    count = data.draw(COUNTS)
    rates = st.floats(0.51 * FAST, FAST)
    runs, found = search(count, lambda group: GroupRun(group, "measured", data.draw(rates)))
    assert found == []
    assert len(runs) <= {3: 3}.get(count, 2)


@given(st.data())
def test_a_machine_that_is_busier_in_some_runs_blames_no_node(data: st.DataObject) -> None:
    count = data.draw(st.integers(4, 64))
    held = names(count)
    runs: list[Run] = []
    while groups := choose_next_run(held, runs):
        share = data.draw(st.floats(0.4, 1.0))
        runs.append(tuple(GroupRun(Group(group), "measured", share * FAST) for group in groups))
    assert list_explanations(held, judge_groups(runs)) == []


def test_wrong_numbers_are_not_mixed_with_rates() -> None:
    """Four lab nodes with a torch that adds one on ubuntu1: el1 and el2 were slow that time, as busy machines are."""
    runs = [
        (GroupRun(Group({"el1", "ubuntu1", "el2", "ubuntu2"}), "wrong"),),
        (
            GroupRun(Group({"el1", "ubuntu1"}), "wrong"),
            GroupRun(Group({"el2", "ubuntu2"}), "measured", 2.684),
        ),
        (
            GroupRun(Group({"el1", "el2"}), "measured", 1.148),
            GroupRun(Group({"ubuntu1", "ubuntu2"}), "wrong"),
        ),
    ]
    found = list_explanations(["el1", "ubuntu1", "el2", "ubuntu2"], judge_groups(runs))
    assert found == [(Group({"ubuntu1"}),)]


@given(st.data())
def test_the_search_ends_in_time_for_any_groups(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 20))
    states = st.sampled_from(["measured", "wrong", "failed", "unknown"])
    rate = st.floats(0.0, FAST)
    runs, found = search(count, lambda group: GroupRun(group, data.draw(states), data.draw(rate)))
    assert all(
        is_bad_group(nodes, guess) == bad for guess in found for nodes, bad in judge_groups(runs)
    )


def test_a_group_without_data_blames_no_node() -> None:
    runs = [(GroupRun(Group(names(4)), "unknown"),)]
    assert judge_groups(runs) == []
    assert list_explanations(names(4), judge_groups(runs)) == []
