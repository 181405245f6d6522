"""All ranks are in a collective, and not in the same: other kinds, sizes or types, or groups in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from fullmesh.hang.rules.common import find_call_location
from fullmesh.hang.types import (
    CollectiveWait,
    HangFinding,
    ObservedJob,
    format_collective,
    format_ranks,
    strip_backend,
)
from fullmesh.observed.hang import RecorderEntry

# Every rank gives as much as the others. Where pieces may differ (gather, scatter, all_to_all) nothing can be said.
EVEN = frozenset(
    (
        "all_reduce",
        "allreduce",
        "allreduce_coalesced",
        "broadcast",
        "reduce",
        "all_gather",
        "allgather",
        "_all_gather_base",
        "all_gather_into_tensor",
        "_reduce_scatter_base",
        "reduce_scatter_tensor",
    )
)
SAID = 3  # groups of ranks in a sentence


def get_entry_kind(entry: RecorderEntry) -> str:
    """What is called."""
    return strip_backend(entry["kind"])


def get_entry_size(entry: RecorderEntry) -> str:
    """How many numbers go in; shapes may differ where their numbers do not."""
    if get_entry_kind(entry) not in EVEN:
        return ""
    return str(sum(prod(shape) for shape in entry["in_sizes"]))


def get_entry_types(entry: RecorderEntry) -> str:
    """Of what type they are."""
    return ", ".join(entry["in_dtypes"])


Compared = Callable[[RecorderEntry], str]
# what is compared -> (code, what differs, what to do)
COMPARED: Sequence[tuple[Compared, str, str, str]] = (
    (
        get_entry_kind,
        "HG-121",
        "call different collectives",
        "the same calls in the same order on every rank: look for a collective below `if rank == ...`, or for data "
        "that decides how often one is called",
    ),
    (
        get_entry_size,
        "HG-122",
        "give tensors of different sizes to",
        "the same size on every rank: pad, drop the last batch (drop_last=True), or send the sizes first",
    ),
    (
        get_entry_types,
        "HG-123",
        "give tensors of different types to",
        "the same dtype on every rank: look for autocast, .half() or a checkpoint of another type on one of them",
    ),
)


def group_differing_ranks(
    entries: Mapping[int, RecorderEntry], by: Compared
) -> dict[str, list[int]]:
    """Value -> ranks, where ranks have different ones; {} where they agree or it is not known."""
    found: dict[str, list[int]] = {}
    for rank, entry in sorted(entries.items()):
        if value := by(entry):
            found.setdefault(value, []).append(rank)
    return found if len(found) > 1 else {}


def find_first_difference(
    entries: Mapping[int, RecorderEntry],
) -> tuple[int, dict[str, list[int]]] | None:
    """Which comparison shows a difference in a collective first, and what is different."""
    for number, (by, *_) in enumerate(COMPARED):
        if found := group_differing_ranks(entries, by):
            return number, found
    return None


def rule_same_collective(job: ObservedJob) -> Iterator[HangFinding]:
    """What has one number in a group is one collective, on all ranks. The first difference makes all others."""
    stuck = {wait.entry["group"] for wait in job.waits} | find_broken_groups(job)
    for group in sorted(stuck):
        by_rank = job.now.by_number.get(group, {})
        numbers = sorted({number for entered in by_rank.values() for number in entered})
        for number in numbers:
            entries = {r: entered[number] for r, entered in by_rank.items() if number in entered}
            found = find_first_difference(entries) if len(entries) > 1 else None
            # What came to its end everywhere did no harm, unless somebody got an error out of it.
            if found and (is_collective_open(job, entries) or group in find_broken_groups(job)):
                yield _make_difference_finding(job, entries, *found)
                break


def is_collective_open(job: ObservedJob, entries: Mapping[int, RecorderEntry]) -> bool:
    """Whether one of the ranks is still in it."""
    waiting = {(wait.rank, wait.entry["group"], wait.entry["number"]) for wait in job.waits}
    return any((rank, one["group"], one["number"]) in waiting for rank, one in entries.items())


def find_broken_groups(job: ObservedJob) -> set[str]:
    """The groups in whose last collective a rank raised something."""
    return {
        one["entries"][-1]["group"]
        for one in job.now.ranks.values()
        if one["raised"] and one["entries"]
    }


def _make_difference_finding(
    job: ObservedJob,
    entries: Mapping[int, RecorderEntry],
    which: int,
    found: Mapping[str, list[int]],
) -> HangFinding:
    by, code, verb, fix = COMPARED[which]
    # The few are more likely to be wrong than the many; of two sides neither is.
    order = sorted(found.items(), key=lambda one: (len(one[1]), one[1]))
    odd = order[0][1] if len(order[0][1]) < len(order[-1][1]) else []
    first = entries[order[0][1][0]]
    said = [_describe_value_ranks(job, entries, value, members) for value, members in order[:SAID]]
    what = f"number {first['number']} of {first['desc'] or 'group ' + first['group']}"
    if by is not get_entry_kind:
        what = format_collective(first)
    acting = odd or sorted(entries)
    rest = f", and {len(order) - SAID} more" if len(order) > SAID else ""
    return HangFinding(
        code,
        f"{format_ranks(sorted(entries))} {verb}{' as' if by is get_entry_kind else ''} {what}: "
        f"{'; '.join(said)}{rest}",
        ranks=tuple(acting),
        hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in acting)),
        group=first["group"],
        number=first["number"],
        kind=first["kind"] if by is not get_entry_kind else "",
        place=find_call_location(job, order[0][1][0], first),
        waiting=tuple(rank for rank, entry in sorted(entries.items()) if not entry["retired"]),
        seen="; ".join(f"{value} on {format_ranks(members)}" for value, members in order[:SAID]),
        expected="one on all ranks",
        fix=fix,
    )


def _describe_value_ranks(
    job: ObservedJob, entries: Mapping[int, RecorderEntry], value: str, members: list[int]
) -> str:
    place = find_call_location(job, members[0], entries[members[0]])
    name = job.now.named(members[0]) if len(members) == 1 else format_ranks(members)
    return f"{value} on {name}{' at ' + place if place else ''}"


def _find_wait_cycle(job: ObservedJob) -> list[CollectiveWait]:
    """Ranks that wait for each other in a circle, each in a group of its own choice; [] where there are none."""
    after: dict[int, CollectiveWait] = {}
    for rank, waits in sorted(job.waiting.items()):
        for wait in waits:
            if any(other in job.waiting for other in wait.lacks):
                after.setdefault(rank, wait)
    done: set[int] = set()
    for start in after:
        path: list[int] = []
        rank = start
        while rank in after and rank not in done:
            done.add(rank)
            path.append(rank)
            rank = next(other for other in after[rank].lacks if other in job.waiting)
        if rank in path:
            circle = [after[one] for one in path[path.index(rank) :]]
            if len({wait.entry["group"] for wait in circle}) > 1:
                return circle
    return []


def rule_group_order(job: ObservedJob) -> Iterator[HangFinding]:
    """Groups that share ranks are entered in one order by all of them."""
    circle = _find_wait_cycle(job)
    if not circle:
        return
    places = {wait.rank: find_call_location(job, wait.rank, wait.entry) for wait in circle}
    parts = [
        f"{job.now.named(wait.rank)} is in {format_collective(wait.entry)}"
        + (f" at {places[wait.rank]}" if places[wait.rank] else "")
        for wait in circle
    ]
    first = circle[0]
    involved = tuple(sorted(wait.rank for wait in circle))
    yield HangFinding(
        "HG-124",
        f"{format_ranks(involved)} entered two groups in opposite order and wait for each other: {', '.join(parts)}",
        ranks=involved,
        hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in involved)),
        group=first.entry["group"],
        number=first.entry["number"],
        kind=first.entry["kind"],
        place=places[first.rank],
        waiting=involved,
        seen="; ".join(
            f"rank {wait.rank} waits in group {wait.entry['desc'] or wait.entry['group']}"
            for wait in circle
        ),
        expected="one order of the groups' collectives on all ranks",
        fix="call the groups' collectives in one order on every rank, also those of backward hooks and of other "
        "threads; with async_op wait for the first before the second is called",
    )


RULES = (rule_same_collective, rule_group_order)
