"""Find the nodes that make a collective slow or wrong: choose the next groups to run, and explain the runs. Pure.

Groups without a common node run at the same time, so one run tests several groups. The machines have the same load in
every run, so their rates can be compared. The first run has all nodes, the second one splits them into rows of about
the square root of their number. Then each node of a bad row runs with nodes of good rows, which gives its own
verdict. A single bad node therefore takes 3 runs for any number of nodes (4 for 5 nodes). The remaining runs look for
nodes that are only bad together.

Three nodes have three pairs, which run one after the other and tell everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isqrt
from typing import Literal

State = Literal["measured", "wrong", "failed", "unknown"]
Group = frozenset[str]
# A guess about the bad nodes: a group is bad if it has all nodes of a part. A part with 2 nodes means that they are
# only bad together.
Guess = tuple[Group, ...]

SLOW = 0.5  # of the best group in the same run
# Of the best group of any run. The load of machines varies: healthy groups of lab nodes on 2 CPUs reached 43 % of the
# rate of another group 30 s earlier.
SLOW_AT_ALL = 0.25
PAIR, THREE = 2, 3
FEW = 8  # with up to this many nodes, every pair is considered


@dataclass(frozen=True)
class GroupRun:
    """The result of one group.

    Attributes:
        nodes: its nodes.
        state: wrong numbers, a failure, unknown (the machine was busy), or measured.
        gbit_s: bus bandwidth of all_reduce as nccl-tests defines it, 0 if it was not measured.
    """

    nodes: Group
    state: State
    gbit_s: float = 0.0


Run = tuple[GroupRun, ...]
Verdicts = list[tuple[Group, bool]]


def count_max_runs(count: int) -> int:
    """Return the maximum number of runs: log2 N, rounded up, plus 1."""
    return (count - 1).bit_length() + 1 if count >= PAIR else 0


def judge_groups(runs: Sequence[Run]) -> Verdicts:
    """Return each group with a known result, and whether it is bad.

    Only the worst kind counts: wrong numbers, else failures, else slowness.
    """
    states = {one.state for run in runs for one in run}
    for bad in ("wrong", "failed"):
        if bad in states:
            return [
                (one.nodes, one.state == bad)
                for run in runs
                for one in run
                if one.state in (bad, "measured")
            ]
    best = max((one.gbit_s for run in runs for one in run), default=0.0)
    return [found for run in runs for found in judge_group_speeds(run, best)]


def judge_group_speeds(run: Run, best: float) -> Iterator[tuple[Group, bool]]:
    """Yield the groups of a run and whether they are slow. A group that ran alone may be undecided."""
    rates = [one.gbit_s for one in run if one.state == "measured"]
    best_rate = max(rates, default=0.0)
    for one in run:
        if one.state != "measured":
            continue
        bad = one.gbit_s < SLOW * best_rate or one.gbit_s < SLOW_AT_ALL * best
        if bad or len(rates) > 1 or one.gbit_s >= SLOW * best:
            yield one.nodes, bad


def is_bad_group(nodes: Group, guess: Guess) -> bool:
    """Return whether a group would be bad if the guess were true."""
    return any(part <= nodes for part in guess)


def is_consistent_guess(guess: Guess, known: Verdicts) -> bool:
    """Return whether a guess predicts the result of every group."""
    return all(is_bad_group(nodes, guess) == bad for nodes, bad in known)


def list_explanations(names: Sequence[str], known: Verdicts) -> list[Guess]:
    """List the explanations of all verdicts, of the simplest kind: one node or one pair, else two nodes, else more.

    The list is empty if no group is bad, or if no set of nodes explains the verdicts.
    """
    if not any(bad for _, bad in known):
        return []
    alone: list[Guess] = [(Group({name}),) for name in names]
    together: list[Guess] = [(Group(pair),) for pair in combinations(names, PAIR)]
    found = [guess for guess in [*alone, *together] if is_consistent_guess(guess, known)]
    if found:
        return found
    two: list[Guess] = [tuple(Group({one}) for one in pair) for pair in combinations(names, PAIR)]
    found = [guess for guess in two if is_consistent_guess(guess, known)]
    if found:
        return found
    many: Guess = tuple(Group({name}) for name in sorted(list_suspects(names, known)))
    return [many] if many and is_consistent_guess(many, known) else []


def list_suspects(names: Sequence[str], known: Verdicts) -> set[str]:
    """Return the nodes that were in no good group."""
    return set(names) - {name for nodes, bad in known if not bad for name in nodes}


def choose_next_run(names: Sequence[str], runs: Sequence[Run]) -> list[list[str]]:
    """Choose the groups that run next. None if there is nothing left to learn, or no run left."""
    if len(runs) >= count_max_runs(len(names)):
        return []
    if len(names) == THREE:
        return [list(list(combinations(names, PAIR))[len(runs)])]
    if len(runs) <= 1:
        return split_into_rows(names) if runs else [list(names)]
    known = judge_groups(runs)
    guesses = list_explanations(names, known)
    if len(guesses) == 1 or not any(bad for _, bad in known):
        return []
    return choose_best_run(names, known, guesses)


def split_into_rows(names: Sequence[str]) -> list[list[str]]:
    """Split the nodes into groups of about the square root of their number. Two nodes have none."""
    if len(names) == PAIR:
        return []
    size = max(PAIR, isqrt(len(names)))
    count = len(names) // size
    made = [list(names[place * size : (place + 1) * size]) for place in range(count)]
    for place, name in enumerate(names[count * size :]):
        made[place % count].append(name)
    return made


def choose_best_run(
    names: Sequence[str], known: Verdicts, guesses: Sequence[Guess]
) -> list[list[str]]:
    """Choose the groups that leave the fewest guesses in the worst case, single nodes first. None if no run helps."""
    found: tuple[tuple[int, int], list[list[str]]] | None = None
    for groups in list_candidate_runs(names, known, guesses):
        worst = count_left_guesses(guesses, [Group(group) for group in groups])
        if found is None or worst < found[0]:
            found = (worst, groups)
    if found is None or (guesses and found[0][1] == len(guesses)):
        return []
    return found[1]


def count_left_guesses(guesses: Sequence[Guess], groups: Sequence[Group]) -> tuple[int, int]:
    """Count the guesses that stay indistinguishable in the worst case: among single nodes, and in total."""
    seen: dict[tuple[bool, ...], list[bool]] = {}
    for guess in guesses:
        said = tuple(is_bad_group(group, guess) for group in groups)
        seen.setdefault(said, []).append(all(len(part) == 1 for part in guess))
    alone = max((len(held) for held in seen.values() if any(held)), default=0)
    return alone, max(map(len, seen.values()), default=0)


def list_candidate_runs(
    names: Sequence[str], known: Verdicts, guesses: Sequence[Guess]
) -> Iterator[list[list[str]]]:
    """Yield runs that may distinguish the guesses. Nodes that no guess blames are spread over the groups."""
    blamed = {name for guess in guesses for part in guess for name in part}
    alone = {name for guess in guesses for part in guess if len(part) == 1 for name in part}
    doubted = [name for name in names if name in (alone or list_suspects(names, known))]
    yield from make_group_run(
        mix_suspects(doubted, [name for name in names if name not in doubted])
    )
    asked = [name for name in names if name in blamed]
    others = [name for name in names if name not in blamed]
    for bit in range((len(asked) - 1).bit_length() if asked else 0):
        ones = [name for place, name in enumerate(asked) if place >> bit & 1]
        zeros = [name for name in asked if name not in ones]
        yield from make_group_run([zeros + others[::2], ones + others[1::2]])
    used: set[str] = set()
    pairs = []
    for guess in guesses:
        if len(guess) == 1 and len(guess[0]) == PAIR and not guess[0] & used:
            used |= guess[0]
            pairs.append(sorted(guess[0]))
    yield from make_group_run(pairs)
    if len(names) <= FEW:
        yield from ([list(pair)] for pair in combinations(names, PAIR))


def mix_suspects(doubted: Sequence[str], others: Sequence[str]) -> list[list[str]]:
    """Group each suspect with some of the other nodes, so that every node takes part if it can."""
    count = min(len(doubted), len(others))
    return [[doubted[place], *others[place::count]] for place in range(count)]


def make_group_run(groups: Sequence[list[str]]) -> Iterator[list[list[str]]]:
    """Yield the groups with at least two nodes as one run, or nothing."""
    some = [group for group in groups if len(group) >= PAIR]
    if some:
        yield some
