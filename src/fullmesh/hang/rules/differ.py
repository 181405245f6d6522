"""All ranks are in a collective, and not in the same: other kinds, sizes or types, or groups in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from fullmesh.hang.rules.common import called
from fullmesh.hang.types import Finding, Job, Wait, collective, plain, ranks
from fullmesh.observed.hang import Entry

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


def kind_of(entry: Entry) -> str:
    """What is called."""
    return plain(entry["kind"])


def size_of(entry: Entry) -> str:
    """How many numbers go in; shapes may differ where their numbers do not."""
    if kind_of(entry) not in EVEN:
        return ""
    return str(sum(prod(shape) for shape in entry["in_sizes"]))


def types_of(entry: Entry) -> str:
    """Of what type they are."""
    return ", ".join(entry["in_dtypes"])


Compared = Callable[[Entry], str]
# what is compared -> (code, what differs, what to do)
COMPARED: Sequence[tuple[Compared, str, str, str]] = (
    (
        kind_of,
        "HG-121",
        "call different collectives",
        "the same calls in the same order on every rank: look for a collective below `if rank == ...`, or for data "
        "that decides how often one is called",
    ),
    (
        size_of,
        "HG-122",
        "give tensors of different sizes to",
        "the same size on every rank: pad, drop the last batch (drop_last=True), or send the sizes first",
    ),
    (
        types_of,
        "HG-123",
        "give tensors of different types to",
        "the same dtype on every rank: look for autocast, .half() or a checkpoint of another type on one of them",
    ),
)


def differing(entries: Mapping[int, Entry], by: Compared) -> dict[str, list[int]]:
    """Value -> ranks, where ranks have different ones; {} where they agree or it is not known."""
    found: dict[str, list[int]] = {}
    for rank, entry in sorted(entries.items()):
        if value := by(entry):
            found.setdefault(value, []).append(rank)
    return found if len(found) > 1 else {}


def at_number(entries: Mapping[int, Entry]) -> tuple[int, dict[str, list[int]]] | None:
    """Which comparison shows a difference in a collective first, and what is different."""
    for number, (by, *_) in enumerate(COMPARED):
        if found := differing(entries, by):
            return number, found
    return None


def rule_collectives(job: Job) -> Iterator[Finding]:
    """What has one number in a group is one collective, on all ranks. The first difference makes all others."""
    stuck = {wait.entry["group"] for wait in job.waits} | broken(job)
    for group in sorted(stuck):
        by_rank = job.now.by_number.get(group, {})
        numbers = sorted({number for entered in by_rank.values() for number in entered})
        for number in numbers:
            entries = {r: entered[number] for r, entered in by_rank.items() if number in entered}
            found = at_number(entries) if len(entries) > 1 else None
            # What came to its end everywhere did no harm, unless somebody got an error out of it.
            if found and (job_open(job, entries) or group in broken(job)):
                yield _differ(job, entries, *found)
                break


def job_open(job: Job, entries: Mapping[int, Entry]) -> bool:
    """Whether one of the ranks is still in it."""
    waiting = {(wait.rank, wait.entry["group"], wait.entry["number"]) for wait in job.waits}
    return any((rank, one["group"], one["number"]) in waiting for rank, one in entries.items())


def broken(job: Job) -> set[str]:
    """The groups in whose last collective a rank raised something."""
    return {
        one["entries"][-1]["group"]
        for one in job.now.ranks.values()
        if one["raised"] and one["entries"]
    }


def _differ(
    job: Job, entries: Mapping[int, Entry], which: int, found: Mapping[str, list[int]]
) -> Finding:
    by, code, verb, fix = COMPARED[which]
    # The few are more likely to be wrong than the many; of two sides neither is.
    order = sorted(found.items(), key=lambda one: (len(one[1]), one[1]))
    odd = order[0][1] if len(order[0][1]) < len(order[-1][1]) else []
    first = entries[order[0][1][0]]
    said = [_side(job, entries, value, members) for value, members in order[:SAID]]
    what = f"number {first['number']} of {first['desc'] or 'group ' + first['group']}"
    if by is not kind_of:
        what = collective(first)
    acting = odd or sorted(entries)
    rest = f", and {len(order) - SAID} more" if len(order) > SAID else ""
    return Finding(
        code,
        f"{ranks(sorted(entries))} {verb}{' as' if by is kind_of else ''} {what}: {'; '.join(said)}{rest}",
        ranks=tuple(acting),
        hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in acting)),
        group=first["group"],
        number=first["number"],
        kind=first["kind"] if by is not kind_of else "",
        place=called(job, order[0][1][0], first),
        waiting=tuple(rank for rank, entry in sorted(entries.items()) if not entry["retired"]),
        seen="; ".join(f"{value} on {ranks(members)}" for value, members in order[:SAID]),
        expected="one on all ranks",
        fix=fix,
    )


def _side(job: Job, entries: Mapping[int, Entry], value: str, members: list[int]) -> str:
    place = called(job, members[0], entries[members[0]])
    name = job.now.named(members[0]) if len(members) == 1 else ranks(members)
    return f"{value} on {name}{' at ' + place if place else ''}"


def _crossing(job: Job) -> list[Wait]:
    """Ranks that wait for each other in a circle, each in a group of its own choice; [] where there are none."""
    after: dict[int, Wait] = {}
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


def rule_order(job: Job) -> Iterator[Finding]:
    """Groups that share ranks are entered in one order by all of them."""
    circle = _crossing(job)
    if not circle:
        return
    places = {wait.rank: called(job, wait.rank, wait.entry) for wait in circle}
    parts = [
        f"{job.now.named(wait.rank)} is in {collective(wait.entry)}"
        + (f" at {places[wait.rank]}" if places[wait.rank] else "")
        for wait in circle
    ]
    first = circle[0]
    involved = tuple(sorted(wait.rank for wait in circle))
    yield Finding(
        "HG-124",
        f"{ranks(involved)} entered two groups in opposite order and wait for each other: {', '.join(parts)}",
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


RULES = (rule_collectives, rule_order)
