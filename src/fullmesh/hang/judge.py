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
from fullmesh.observed.hang import GroupArrivals, Rank, RankGroup, RecorderEntry

MOST_ALIKE = 8
GLOO, GLOO_PART = "gloo:", " (gloo)"
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


def find_shared_groups(samples: Sequence[Sequence[Rank]]) -> set[str]:
    """Find the groups of which Gloo carries the CPU tensors, and another backend those of the GPUs."""
    backends: dict[bool, set[str]] = {True: set(), False: set()}
    for entry in (entry for sample in samples for one in sample for entry in one["entries"]):
        if ":" in entry["kind"]:
            backends[entry["kind"].startswith(GLOO)].add(entry["group"])
    return backends[True] & backends[False]


def separate_backends(samples: Sequence[Iterable[Rank]]) -> list[list[Rank]]:
    """Make Gloo's part of a shared group a group of its own, since each backend numbers its collectives.

    ``init_process_group()`` without a backend makes such groups.
    """
    taken = [list(sample) for sample in samples]
    shared = find_shared_groups(taken)

    def separate_entry(entry: RecorderEntry) -> RecorderEntry:
        if entry["group"] not in shared or not entry["kind"].startswith(GLOO):
            return entry
        return {**entry, "group": entry["group"] + GLOO_PART, "desc": entry["desc"] + GLOO_PART}

    def separate_rank(one: Rank) -> Rank:
        parts: list[RankGroup] = [
            {**group, "name": group["name"] + GLOO_PART, "desc": group["desc"] + GLOO_PART}
            for group in one["groups"]
            if group["name"] in shared
        ]
        entries = [separate_entry(entry) for entry in one["entries"]]
        arrivals: list[GroupArrivals] = [
            {**part, "group": part["group"] + GLOO_PART}
            if part["group"] in shared and f"{part['backend']}:" == GLOO
            else part
            for part in one.get("arrivals", [])
        ]
        groups = [*one["groups"], *parts]
        return {**one, "groups": groups, "entries": entries, "arrivals": arrivals}

    return [[separate_rank(one) for one in sample] for sample in taken] if shared else taken


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
