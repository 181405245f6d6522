"""The evidence for causes of a hang: all ranks in one or more samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeVar, cast

from fullmesh.causes.engine import Cause
from fullmesh.causes.hang.places import ThreadActivity, find_thread_activity
from fullmesh.observed.hang import Rank, RecorderEntry

CAUSE: Final = "cause"
WARNING: Final = "warning"
NOTE: Final = "note"
EVERYBODY = "default_pg"
SECOND = 1_000_000_000  # nanoseconds
RANKS_SHOWN = 8
Made = TypeVar("Made")


@dataclass(frozen=True)
class HangCause(Cause):
    """A cause of a hang.

    Attributes:
        is_certain: whether it is a cause of its own. The others are effects, or apply if nothing else does.
    """

    severity: str = CAUSE
    is_certain: bool = True


@dataclass(frozen=True)
class HangFinding:
    """One fault of a job that hangs, and its fix.

    Attributes:
        code: ``HG-101``.
        cause: one sentence, with rank, host, number and kind of the collective, and place.
        ranks: the ranks at fault.
        hosts: the hosts of these ranks.
        group, number, kind: the collective that the others wait in. "", 0 and "" if there is none.
        place: ``/home/user/train.py:88`` of the first of the ranks, or "".
        waiting: the ranks that wait for it.
        share: the share of time that they lose, if the job continues, else 0.
        seen, expected, check, fix: as in a diagnosis. An empty check means that of the cause's page.
        severity: a cause, a warning, or a note that nothing is wrong.
        follows: the findings that it explains.
    """

    code: str
    cause: str
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    group: str = ""
    number: int = 0
    kind: str = ""
    place: str = ""
    waiting: tuple[int, ...] = ()
    share: float = 0.0
    seen: str = ""
    expected: str = ""
    check: str = ""
    fix: str = ""
    severity: str = CAUSE
    follows: tuple[HangFinding, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return {
            "code": self.code,
            "severity": self.severity,
            "cause": self.cause,
            "ranks": list(self.ranks),
            "hosts": list(self.hosts),
            "group": self.group,
            "number": self.number,
            "kind": self.kind,
            "place": self.place,
            "waiting": list(self.waiting),
            "share": round(self.share, 3),
            "seen": self.seen,
            "expected": self.expected,
            "fix": self.fix,
            "follows": [one.as_dict() for one in self.follows],
        }


@dataclass(frozen=True)
class CollectiveWait:
    """A rank's wait in a collective that does not end.

    Attributes:
        lacks: ranks that have not entered it. Empty if all are in it.
    """

    rank: int
    entry: RecorderEntry
    lacks: tuple[int, ...]


@dataclass(frozen=True)
class JobSample:
    """All ranks at one moment."""

    ranks: Mapping[int, Rank]

    @cached_property
    def world(self) -> int:
        """The number of ranks of the job, as far as known."""
        named = [
            max(group["ranks"], default=-1) + 1
            for one in self.ranks.values()
            for group in one["groups"]
        ]
        worlds = [one["world"] for one in self.ranks.values()]
        return max((*worlds, *named, *(rank + 1 for rank in self.ranks)), default=0)

    @cached_property
    def asked(self) -> list[int]:
        """The ranks whose recorder was read, in order."""
        return [number for number, one in sorted(self.ranks.items()) if has_record(one)]

    @cached_property
    def groups(self) -> dict[str, str]:
        """Process groups by name, with their descriptions."""
        found: dict[str, str] = {}
        for one in self.ranks.values():
            for group in one["groups"]:
                found.setdefault(group["name"], group["desc"])
            for entry in one["entries"]:
                found.setdefault(entry["group"], entry["desc"])
        return found

    @cached_property
    def members(self) -> dict[str, tuple[int, ...]]:
        """Map each group to its ranks: as reported, all ranks for the default group, else the ranks with entries."""
        named: dict[str, set[int]] = {}
        seen: dict[str, set[int]] = {}
        for number, one in self.ranks.items():
            for group in one["groups"]:
                named.setdefault(group["name"], set()).update(group["ranks"])
            for entry in one["entries"]:
                seen.setdefault(entry["group"], set()).add(number)
        found: dict[str, tuple[int, ...]] = {}
        for name, desc in self.groups.items():
            everybody = set(range(self.world)) if desc == EVERYBODY else set()
            found[name] = tuple(sorted(named.get(name) or everybody or seen.get(name, set())))
        return found

    @cached_property
    def by_number(self) -> dict[str, dict[int, dict[int, RecorderEntry]]]:
        """Map group, rank and number to the rank's entry, without sends and receives."""
        found: dict[str, dict[int, dict[int, RecorderEntry]]] = {name: {} for name in self.groups}
        for number, one in self.ranks.items():
            for entry in one["entries"]:
                if not entry["p2p"]:
                    found[entry["group"]].setdefault(number, {})[entry["number"]] = entry
        return found

    @cached_property
    def last(self) -> dict[str, dict[int, int]]:
        """Map group and rank to the number that it entered last, 0 for none."""
        return {
            group: {
                rank: max(self.by_number[group].get(rank, {}), default=0)
                for rank in members
                if rank in self.ranks and has_record(self.ranks[rank])
            }
            for group, members in self.members.items()
        }

    def place(self, rank: int) -> str:
        """Return the line of a rank's main thread, or ""."""
        return self.doing(rank).place if rank in self.ranks else ""

    def doing(self, rank: int) -> ThreadActivity:
        """Return the activity of a rank's main thread."""
        if rank not in self._doings:
            self._doings[rank] = find_thread_activity(self.ranks[rank])
        return self._doings[rank]

    @cached_property
    def _doings(self) -> dict[int, ThreadActivity]:
        return {}

    def host(self, rank: int) -> str:
        """Return the host of a rank, or ""."""
        return self.ranks[rank]["host"] if rank in self.ranks else ""

    def hosts(self, ranks: Iterable[int]) -> tuple[str, ...]:
        """Return the hosts of some ranks, each once."""
        return tuple(dict.fromkeys(self.host(rank) for rank in ranks))

    def named(self, rank: int) -> str:
        """Format a rank for a sentence: ``rank 3 (n2)``."""
        host = self.host(rank)
        return f"rank {rank} ({host})" if host else f"rank {rank}"


def has_record(one: Rank) -> bool:
    """Return whether a rank's recorder was read."""
    return one["process"] != "unasked" and all(
        lost["what"] not in ("process", "recorder") for lost in one["missing"]
    )


def find_open_collectives(one: Rank) -> dict[str, RecorderEntry]:
    """Group -> the first collective of a rank that has not ended."""
    found: dict[str, RecorderEntry] = {}
    for entry in one["entries"]:
        if not entry["retired"] and not entry["p2p"]:
            found.setdefault(entry["group"], entry)
    return found


def get_collective_key(entry: RecorderEntry) -> tuple[str, int]:
    """Return the key that identifies a collective on all ranks of its group."""
    return entry["group"], entry["number"]


@dataclass(frozen=True)
class ObservedJob:
    """The observations of a job.

    Attributes:
        samples: oldest first. May be a single one.
        stalled: seconds that a collective may take before a rank counts as waiting in it.
    """

    samples: Sequence[JobSample]
    stalled: float = 0.0

    def get_once(self, make: Callable[[ObservedJob], Made]) -> Made:
        """Compute something that several causes need, once."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("Made", self._made[make])

    @cached_property
    def _made(self) -> dict[Callable[[ObservedJob], Any], Any]:
        return {}

    @property
    def now(self) -> JobSample:
        """The newest sample."""
        return self.samples[-1]

    @property
    def before(self) -> JobSample | None:
        """The sample before the newest."""
        return self.samples[-2] if len(self.samples) > 1 else None

    @cached_property
    def waits(self) -> list[CollectiveWait]:
        """The ranks that wait now, their collectives, and the ranks that they wait for."""
        return list(self._waits())

    def _waits(self) -> Iterator[CollectiveWait]:
        now = self.now
        for number in now.asked:
            one = now.ranks[number]
            before = self.before.ranks.get(number) if self.before else None
            earlier = find_open_collectives(before) if before and has_record(before) else None
            for group, entry in find_open_collectives(one).items():
                if earlier is not None and (
                    group not in earlier
                    or get_collective_key(earlier[group]) != get_collective_key(entry)
                ):
                    continue
                age = (one["taken_ns"] - entry["created_ns"]) / SECOND
                if one["taken_ns"] and age < self.stalled:
                    continue
                last = now.last[group]
                lacks = tuple(
                    rank
                    for rank in now.members[group]
                    if rank != number and last.get(rank, -1) < entry["number"]
                )
                yield CollectiveWait(number, entry, lacks)

    @cached_property
    def waiting(self) -> dict[int, list[CollectiveWait]]:
        """The same by rank, without those whose main thread is certainly somewhere else."""
        found: dict[int, list[CollectiveWait]] = {}
        for wait in self.waits:
            if not self.now.doing(wait.rank).elsewhere:
                found.setdefault(wait.rank, []).append(wait)
        return found

    @cached_property
    def lacking(self) -> dict[int, list[CollectiveWait]]:
        """Map each rank to the waits for it."""
        found: dict[int, list[CollectiveWait]] = {}
        for wait in self.waits:
            for rank in wait.lacks:
                found.setdefault(rank, []).append(wait)
        return found

    @cached_property
    def late(self) -> list[int]:
        """The ranks that others wait for and that do not wait themselves, the one with most waiting first."""
        found = [rank for rank in self.lacking if rank not in self.waiting]
        return sorted(found, key=lambda rank: (-len(self.lacking[rank]), rank))

    def held_back(self, rank: int) -> float:
        """Return the share of periods since the last sample in which the cgroup stopped a rank early."""
        before = self.before.ranks.get(rank) if self.before else None
        now = self.now.ranks.get(rank)
        if not before or not now or "limits" not in before or "limits" not in now:
            return 0.0
        periods = now["limits"]["periods"] - before["limits"]["periods"]
        held = now["limits"]["throttled"] - before["limits"]["throttled"]
        return held / periods if periods > 0 else 0.0

    def paged_in(self, rank: int) -> float:
        """Return the pages per second that a rank with memory in swap read since the last sample, else 0."""
        before = self.before.ranks.get(rank) if self.before else None
        now = self.now.ranks.get(rank)
        if not before or not now or "paging" not in before or "paging" not in now:
            return 0.0
        seconds = (now["taken_ns"] - before["taken_ns"]) / SECOND
        pages = now["paging"]["from_disk"] - before["paging"]["from_disk"]
        return pages / seconds if seconds > 0 and now["paging"]["swapped"] else 0.0

    def get_cpu_share(self, rank: int, whose: Literal["thread_cpu", "process_cpu"]) -> float | None:
        """Return the share of one CPU that a rank's main thread or process used since the last sample, if known."""
        before = self.before.ranks.get(rank) if self.before else None
        now = self.now.ranks.get(rank)
        if not before or not now or before["pid"] != now["pid"]:
            return None
        seconds = (now["taken_ns"] - before["taken_ns"]) / SECOND
        first, last = before["native"].get(whose, -1.0), now["native"].get(whose, -1.0)
        return (last - first) / seconds if seconds > 0 and 0 <= first <= last else None

    def age(self, wait: CollectiveWait) -> float:
        """Return the seconds since a rank entered the collective that it waits in, or 0."""
        taken = self.now.ranks[wait.rank]["taken_ns"]
        return max(0.0, (taken - wait.entry["created_ns"]) / SECOND) if taken else 0.0


def format_ranks(numbers: Sequence[int]) -> str:
    """Format ranks for a sentence: ``ranks 0, 2-7``."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words = [str(a) if a == b else f"{a}-{b}" if b > a + 1 else f"{a}, {b}" for a, b in spans]
    rest = f" and {len(words) - RANKS_SHOWN} more" if len(words) > RANKS_SHOWN else ""
    return f"rank{'s' if len(numbers) > 1 else ''} {', '.join(words[:RANKS_SHOWN])}{rest}"


def format_collective(entry: RecorderEntry) -> str:
    """Format a collective for a sentence: ``all_reduce 1204 of default_pg``."""
    return f"{strip_backend(entry['kind'])} {entry['number']} of {entry['desc'] or 'group ' + entry['group']}"


def strip_backend(kind: str) -> str:
    """Remove the backend from a kind: ``all_reduce``."""
    return kind.partition(":")[2] or kind
