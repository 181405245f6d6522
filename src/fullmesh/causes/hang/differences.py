"""Compare the ranks' calls of a collective: its kind, sizes and types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from fullmesh.causes.hang.common import find_call_location
from fullmesh.causes.hang.job import (
    HangCause,
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
    """Return the name of the collective."""
    return strip_backend(entry["kind"])


def get_entry_size(entry: RecorderEntry) -> str:
    """Return the number of input elements. Shapes may differ if these numbers do not."""
    if get_entry_kind(entry) not in EVEN:
        return ""
    return str(sum(prod(shape) for shape in entry["in_sizes"]))


def get_entry_types(entry: RecorderEntry) -> str:
    """Return the types of the input elements."""
    return ", ".join(entry["in_dtypes"])


EntryComparison = Callable[[RecorderEntry], str]
COMPARED: Sequence[EntryComparison] = (get_entry_kind, get_entry_size, get_entry_types)


def group_differing_ranks(
    entries: Mapping[int, RecorderEntry], by: EntryComparison
) -> dict[str, list[int]]:
    """Map each value to its ranks if ranks differ. Empty if they agree or no value is known."""
    found: dict[str, list[int]] = {}
    for rank, entry in sorted(entries.items()):
        if value := by(entry):
            found.setdefault(value, []).append(rank)
    return found if len(found) > 1 else {}


def find_first_difference(
    entries: Mapping[int, RecorderEntry],
) -> tuple[EntryComparison, dict[str, list[int]]] | None:
    """Return the first comparison that shows a difference in a collective, and the values."""
    for by in COMPARED:
        if found := group_differing_ranks(entries, by):
            return by, found
    return None


@dataclass(frozen=True)
class CollectiveDifference:
    """A collective that ranks call differently: the calls, the comparison, and the ranks of each value."""

    entries: Mapping[int, RecorderEntry]
    by: EntryComparison
    found: Mapping[str, list[int]]


def collect_differences(job: ObservedJob) -> list[CollectiveDifference]:
    """Find the first collective of each group that ranks call differently. It causes all later differences."""
    differences = []
    stuck = {wait.entry["group"] for wait in job.waits} | find_broken_groups(job)
    for group in sorted(stuck):
        by_rank = job.now.by_number.get(group, {})
        numbers = sorted({number for entered in by_rank.values() for number in entered})
        for number in numbers:
            entries = {r: entered[number] for r, entered in by_rank.items() if number in entered}
            found = find_first_difference(entries) if len(entries) > 1 else None
            # An operation that ended on all ranks did no harm, unless it raised an error on one.
            if found and (is_collective_open(job, entries) or group in find_broken_groups(job)):
                differences.append(CollectiveDifference(entries, *found))
                break
    return differences


def is_collective_open(job: ObservedJob, entries: Mapping[int, RecorderEntry]) -> bool:
    """Return whether one of the ranks is still in it."""
    waiting = {(wait.rank, wait.entry["group"], wait.entry["number"]) for wait in job.waits}
    return any((rank, one["group"], one["number"]) in waiting for rank, one in entries.items())


def find_broken_groups(job: ObservedJob) -> set[str]:
    """Find the groups in whose last collective a rank raised an exception."""
    return {
        one["entries"][-1]["group"]
        for one in job.now.ranks.values()
        if one["raised"] and one["entries"]
    }


def find_differences(
    job: ObservedJob, cause: HangCause, by: EntryComparison, verb: str, fix: str
) -> Iterator[HangFinding]:
    """Yield a finding for each collective that ranks call differently, by one comparison."""
    for one in job.get_once(collect_differences):
        if one.by is by:
            yield _make_difference_finding(job, cause, one, verb, fix)


def _make_difference_finding(
    job: ObservedJob,
    cause: HangCause,
    difference: CollectiveDifference,
    verb: str,
    fix: str,
) -> HangFinding:
    entries, by, found = difference.entries, difference.by, difference.found
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
        cause.code,
        f"{format_ranks(sorted(entries))} {verb}{' as' if by is get_entry_kind else ''} {what}: "
        f"{'; '.join(said)}{rest}",
        ranks=tuple(acting),
        hosts=job.now.hosts(acting),
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
