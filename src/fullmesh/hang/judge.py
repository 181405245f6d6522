"""Derive findings from the ranks' samples: causes first, with their consequences folded under them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from fullmesh.causes.engine import fold_findings, load_causes
from fullmesh.causes.hang.job import (
    CAUSE,
    NOTE,
    WARNING,
    HangCause,
    HangFinding,
    JobSample,
    ObservedJob,
)
from fullmesh.observed.hang import Rank, RankGroup, RecorderEntry

MOST_ALIKE = 8
SEVERITIES = (CAUSE, WARNING, NOTE)


@cache
def load_hang_causes() -> dict[str, HangCause]:
    """Return every cause of a hang: code -> cause."""
    return {
        code: cause for code, cause in load_causes("HG").items() if isinstance(cause, HangCause)
    }


def hang_finding_sort_key(finding: HangFinding) -> tuple[int, bool, int, str, tuple[int, ...]]:
    """Sort causes first, then by the number of waiting ranks, then by code and rank."""
    return (
        SEVERITIES.index(finding.severity),
        not load_hang_causes()[finding.code].is_certain,
        -len(finding.waiting),
        finding.code,
        finding.ranks,
    )


def name_second_backends(samples: Sequence[Sequence[Rank]]) -> dict[tuple[str, str], str]:
    """Map group and backend to the backend's part of a group that several backends serve, except the first one's."""
    served: dict[str, set[str]] = {}
    for entry in (entry for sample in samples for one in sample for entry in one["entries"]):
        backend, mark, _ = entry["kind"].partition(":")
        if mark:
            served.setdefault(entry["group"], set()).add(backend)
    return {
        (group, backend): f"{group} ({backend})"
        for group, backends in served.items()
        for backend in sorted(backends, key=lambda name: (name != "nccl", name))[1:]
    }


def separate_backends(samples: Sequence[Iterable[Rank]]) -> list[list[Rank]]:
    """Make a group of its own for each backend of a group, since each one numbers its collectives.

    ``init_process_group()`` without a backend gives a group's GPU tensors to NCCL and its CPU tensors to Gloo.
    """
    taken = [list(sample) for sample in samples]
    parts = name_second_backends(taken)

    def separate_entry(entry: RecorderEntry) -> RecorderEntry:
        backend = entry["kind"].partition(":")[0]
        part = parts.get((entry["group"], backend))
        desc = f"{entry['desc']} ({backend})"
        return {**entry, "group": part, "desc": desc} if part else entry

    def separate_rank(one: Rank) -> Rank:
        more: list[RankGroup] = [
            {**group, "name": part, "desc": f"{group['desc']} ({backend})"}
            for group in one["groups"]
            for (name, backend), part in parts.items()
            if name == group["name"]
        ]
        entries = [separate_entry(entry) for entry in one["entries"]]
        return {**one, "groups": [*one["groups"], *more], "entries": entries}

    return [[separate_rank(one) for one in sample] for sample in taken] if parts else taken


def judge_job(samples: Sequence[Iterable[Rank]], stalled: float = 0.0) -> list[HangFinding]:
    """Find the problems of a job.

    Args:
        samples: its ranks' states, oldest first. A second one some seconds later tells hung ranks from slow ones.
        stalled: seconds that a collective may take. 0 if the records were taken because the job hung.
    """
    separate = separate_backends(samples)
    taken = [JobSample({one["rank"]: one for one in sample}) for sample in separate]
    taken = [sample for sample in taken if sample.ranks]
    if not taken:
        return []
    job = ObservedJob(taken, stalled)
    found = [one for cause in load_hang_causes().values() if cause.find for one in cause.find(job)]
    return limit_alike_findings(sorted(fold_findings(found), key=hang_finding_sort_key))


def limit_alike_findings(found: list[HangFinding]) -> list[HangFinding]:
    """Keep the first findings of each code at the top, and fold the others under the last of these."""
    heads: list[HangFinding] = []
    count: Counter[str] = Counter()
    for one in found:
        count[one.code] += 1
        if count[one.code] <= MOST_ALIKE:
            heads.append(one)
            continue
        last = max(number for number, head in enumerate(heads) if head.code == one.code)
        heads[last] = replace(heads[last], follows=(*heads[last].follows, one))
    return heads
