"""Run ``verify --bisect``: each node's part in the next run, the results of groups, and the findings about nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypedDict

from fullmesh.contract import convert_rank_steps
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ranks import CollectedRanks, RankReport
from fullmesh.result.findings import Finding, join_names
from fullmesh.result.types import BisectGroup, BisectRun, CheckId
from fullmesh.verify import bisect, ranks
from fullmesh.verify.bisect import Group, GroupRun, Guess
from fullmesh.verify.model import ClusterObservations, NodeAnswers
from fullmesh.verify.rank_ends import STEPS, WORTH, RankEnd, find_rank_end

# The steps of a run: values with every pattern of traffic, then the rate.
RUN_STEPS: Final = ("import", "store", "init", "all_reduce", "broadcast", "all_gather", "bandwidth")
ORDER: Final = list(STEPS)
Kind = Literal["slow", "wrong", "failed"]
ONE: dict[Kind, str] = {"slow": "VC-880", "wrong": "VC-881", "failed": "VC-882"}
CHECK_OF_KIND: dict[Kind, CheckId] = {"slow": "L5", "wrong": "L4", "failed": "L4"}
WORDS: dict[Kind, str] = {"slow": "slow", "wrong": "wrong", "failed": "fail"}
SHOWN = 6  # explanations to name in a sentence


class NextBisectRun(TypedDict):
    """The next run: its groups (empty if there is none), a line that describes it, and the steps of its ranks."""

    groups: list[list[str]]
    said: str
    steps: list[str]


class BisectNodePart(TypedDict):
    """One node's part in a run: its ranks (empty for none), the size of its group in ranks, and the group's master."""

    ranks: list[int]
    world: int
    master: str


def number_group_ranks(plan: ClusterPlan, group: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the ranks of each node of a group, from 0 in every group."""
    found: dict[str, list[int]] = {}
    first = 0
    for name in group:
        count = len(plan["nodes"][name]["ranks"])
        found[name] = list(range(first, first + count))
        first += count
    return found


def get_node_part(plan: ClusterPlan, groups: Sequence[Sequence[str]], host: str) -> BisectNodePart:
    """Return the part of *host* in a run."""
    for group in groups:
        if host in group:
            own = number_group_ranks(plan, group)
            master = plan["nodes"][group[0]]["address"]
            return {"ranks": own[host], "world": sum(map(len, own.values())), "master": master}
    return {"ranks": [], "world": 0, "master": ""}


def convert_bisect_runs(runs: Sequence[BisectRun]) -> list[bisect.Run]:
    """Convert the runs for the search."""
    return [
        tuple(
            GroupRun(Group(one["nodes"]), one["state"], one["bus_gbit_s"]) for one in run["groups"]
        )
        for run in runs
    ]


def plan_next_run(seen: ClusterObservations, runs: Sequence[BisectRun]) -> NextBisectRun:
    """Plan the next run of the search."""
    names = list(seen.plan["nodes"])
    groups = bisect.choose_next_run(names, convert_bisect_runs(runs))
    if not groups:
        return {"groups": [], "said": "", "steps": []}
    shown = " | ".join(" ".join(group) for group in groups)
    return {
        "groups": groups,
        "said": f"bisect, run {len(runs) + 1} of at most {bisect.count_max_runs(len(names))}: {shown}",
        "steps": list(RUN_STEPS),
    }


def build_first_run(seen: ClusterObservations) -> list[BisectRun]:
    """Return check L3's own job as the first run. Three nodes skip it, because their pairs tell more."""
    names = list(seen.plan["nodes"])
    if len(names) == bisect.THREE:
        return []
    said = {name: seen.nodes.get(name, {}).get("gloo") for name in names}
    own = {name: seen.plan["nodes"][name]["ranks"] for name in names}
    return [{"groups": settle_group_states([judge_group_run(seen, own, said)])}]


def build_bisect_run(
    seen: ClusterObservations,
    groups: Sequence[Sequence[str]],
    said: Mapping[str, CollectedRanks | None],
) -> BisectRun:
    """Build the result of a run."""
    return {
        "groups": settle_group_states(
            [judge_group_run(seen, number_group_ranks(seen.plan, one), said) for one in groups]
        )
    }


def settle_group_states(groups: Sequence[tuple[BisectGroup, bool]]) -> list[BisectGroup]:
    """Settle the groups of a run. A group that timed out on a busy machine is only bad if another group completed."""
    measured = any(one["state"] == "measured" for one, _ in groups)
    return [{**one, "state": "unknown"} if busy and not measured else one for one, busy in groups]


def judge_group_run(
    seen: ClusterObservations,
    own: Mapping[str, Sequence[int]],
    said: Mapping[str, CollectedRanks | None],
) -> tuple[BisectGroup, bool]:
    """Judge one group. Also return whether it timed out while its CPUs were overloaded."""
    found = [
        end
        for name, numbers in own.items()
        for end in find_group_ends(name, numbers, said.get(name))
    ]
    worst = min(
        (end for end in found if end.step),
        key=lambda end: (end.state != "wrong", ORDER.index(end.step), WORTH.index(end.state)),
        default=None,
    )
    group: BisectGroup = {"nodes": list(own), "state": "measured", "bus_gbit_s": 0.0, "text": ""}
    if worst is None:
        group["bus_gbit_s"] = find_group_rate(own, said)
        return group, False
    group["state"] = "wrong" if worst.state == "wrong" else "failed"
    group["text"] = f"rank {worst.rank} on {worst.node}, {worst.step}: {worst.text}"
    held: dict[str, NodeAnswers] = {n: {"gloo": one} for n in own if (one := said.get(n))}
    busy = ranks.is_deadline_end(worst) and bool(ranks.describe_overload(replace(seen, nodes=held)))
    return group, busy


def select_rank_events(said: CollectedRanks | None, number: int) -> RankReport:
    """Select a rank's events up to the last step of a run, because check L3's own job continues after it."""
    report: RankReport = {"events": [], "log": ""}
    if said:
        report = said["ranks"].get(str(number), report)
    last = ORDER.index(RUN_STEPS[-1])
    kept = [e for e in report["events"] if e["step"] in STEPS and ORDER.index(e["step"]) <= last]
    return {**report, "events": kept}


def find_group_ends(
    name: str, numbers: Sequence[int], said: CollectedRanks | None
) -> Iterator[RankEnd]:
    """Yield the step in which each rank of a node stopped."""
    for number in numbers:
        yield find_rank_end(
            name, number, select_rank_events(said, number), said["ended"] if said else {}, RUN_STEPS
        )


def find_group_rate(
    own: Mapping[str, Sequence[int]], said: Mapping[str, CollectedRanks | None]
) -> float:
    """Return the bus bandwidth of a group, which is that of its slowest rank."""
    rates = [
        steps["bandwidth"]["bus_gbit_s"]
        for name, numbers in own.items()
        for number in numbers
        if "bandwidth" in (steps := convert_rank_steps(select_rank_events(said.get(name), number)))
    ]
    return min(rates, default=0.0)


def format_bisect_run(number: int, run: BisectRun) -> str:
    """Format a run as one line."""
    return f"run {number}: " + " | ".join(format_bisect_group(one) for one in run["groups"])


def format_bisect_group(one: BisectGroup) -> str:
    """Format a group and its result."""
    what = f"{one['bus_gbit_s']:g} Gbit/s" if one["state"] == "measured" else one["state"]
    return f"{' '.join(one['nodes'])}: {what}"


def check_bisect_runs(seen: ClusterObservations) -> list[Finding]:
    """Return the findings of the runs, if there were any."""
    known = bisect.judge_groups(convert_bisect_runs(seen.bisect))
    bad = [nodes for nodes, is_bad in known if is_bad]
    if not bad:
        return []
    guesses = bisect.list_explanations(list(seen.plan["nodes"]), known)
    if len(guesses) != 1:
        return [make_undecided_finding(seen, guesses, classify_bad_groups(seen, bad))]
    (guess,) = guesses
    return [
        make_bisect_finding(seen, part, classify_bad_groups(seen, [g for g in bad if part <= g]))
        for part in guess
    ]


def classify_bad_groups(seen: ClusterObservations, bad: Sequence[Group]) -> Kind:
    """Classify bad groups: wrong numbers come before failures, and failures before slow rates."""
    states = {
        one["state"] for run in seen.bisect for one in run["groups"] if Group(one["nodes"]) in bad
    }
    return "wrong" if "wrong" in states else "failed" if "failed" in states else "slow"


def describe_bisect_runs(seen: ClusterObservations) -> str:
    """Describe all runs, for the evidence."""
    return "; ".join(format_bisect_run(number, run) for number, run in enumerate(seen.bisect, 1))


def make_bisect_finding(seen: ClusterObservations, part: Group, kind: Kind) -> Finding:
    """Make the finding about a node, or about two nodes that are only bad together."""
    names = sorted(part, key=list(seen.plan["nodes"]).index)
    verb = "fail" if kind == "failed" else f"are {WORDS[kind]}"
    if len(names) == 1:
        said = f"collectives {verb} whenever {names[0]} takes part, and work without it"
    else:
        said = f"collectives {verb} if {' and '.join(names)} take part together, but not with only one of them"
    return Finding(
        ONE[kind] if len(names) == 1 else "VC-883",
        CHECK_OF_KIND[kind],
        f"{said} ({len(seen.bisect)} runs)",
        node=names[0],
        peer=join_names(names[1:]),
        seen=describe_bisect_runs(seen),
        expected="the same numbers and about the same rate in every group",
        check=suggest_bisect_check(seen, names, kind),
        fix=seen.apply("packages")
        if kind == "wrong"
        else f"leave {names[0]} out of jobs until it is repaired",
    )


def suggest_bisect_check(seen: ClusterObservations, names: Sequence[str], kind: Kind) -> str:
    """Suggest a command that finds the faulty part."""
    if kind == "slow":
        return (
            f"./fullmesh diagnose -i {seen.inventory} --bandwidth shows the NIC and the direction. "
            f"On {names[0]}: ethtool NIC && tc -s qdisc && nproc && uptime"
        )
    if kind == "wrong":
        return (
            f"on {names[0]}: compare torch and its libraries with the other nodes, test its memory, and look for "
            "machine checks: dmesg | grep -i -E 'mce|edac|ecc'"
        )
    return (
        f"./fullmesh diagnose -i {seen.inventory}. On {names[0]}: dmesg. See the runs in the result"
    )


def make_undecided_finding(
    seen: ClusterObservations, guesses: Sequence[Guess], kind: Kind
) -> Finding:
    """Make the finding if more than one explanation is left, or none fits."""
    verb = "fails" if kind == "failed" else f"is {WORDS[kind]}"
    runs = f"{len(seen.bisect)} run{'s' * (len(seen.bisect) > 1)}"
    if guesses:
        ways = [describe_guess(guess) for guess in guesses]
        more = f", or {len(ways) - SHOWN} more" if len(ways) > SHOWN else ""
        said = f"more than one explanation is left after {runs}: {', or '.join(ways[:SHOWN])}{more}"
    else:
        said = f"no node or pair of nodes explains all of {runs}: more than two faults, or an intermittent one"
    common = (
        set.intersection(*({n for part in g for n in part} for g in guesses)) if guesses else set()
    )
    return Finding(
        "VC-884" if guesses else "VC-885",
        CHECK_OF_KIND[kind],
        f"a collective {verb}: {said}",
        node=next(iter(sorted(common)), ""),
        seen=describe_bisect_runs(seen),
        expected="the same numbers and about the same rate in every group",
        check=f"./fullmesh diagnose -i {seen.inventory} --bandwidth",
        fix="add a node to the run, or leave the nodes that were in no good group out of jobs",
    )


def describe_guess(guess: Guess) -> str:
    """Describe an explanation."""
    return " and ".join(
        next(iter(part)) if len(part) == 1 else f"{' and '.join(sorted(part))} only together"
        for part in guess
    )
