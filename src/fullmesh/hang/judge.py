"""From what the ranks said to findings in order: the causes first, what follows from them folded under them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fullmesh.hang import rules
from fullmesh.hang.types import CAUSE, NOTE, WARNING, HangFinding, JobSample, ObservedJob
from fullmesh.observed.hang import Rank

Relation = Callable[[HangFinding, HangFinding], bool]
MOST_ALIKE = 8
SEVERITIES = (CAUSE, WARNING, NOTE)
LATE = tuple(f"HG-1{number:02}" for number in range(1, 15))


def is_same_group(root: HangFinding, other: HangFinding) -> bool:
    """Both are of one process group."""
    return root.group == other.group


def is_waiting_for(root: HangFinding, other: HangFinding) -> bool:
    """The other's ranks are those that wait for the root's."""
    return bool(other.ranks) and set(other.ranks) <= {*root.waiting, *root.ranks}


def has_same_ranks(root: HangFinding, other: HangFinding) -> bool:
    """The other's ranks are among the root's."""
    return bool(other.ranks) and set(other.ranks) <= set(root.ranks)


def has_other_ranks(root: HangFinding, other: HangFinding) -> bool:
    """They are about different ranks."""
    return not set(root.ranks) & set(other.waiting)


def is_always_related(_root: HangFinding, _other: HangFinding) -> bool:
    """Wherever it is."""
    return True


# What explains what; a code explains only what stands below it or nowhere, so there are no circles.
DIFFER = ("HG-121", "HG-122", "HG-123")
SENDS = ("HG-141", "HG-142")
ENDED = ("HG-131", "HG-132", "HG-133", "HG-143")
ROOTS: tuple[tuple[tuple[str, ...], tuple[str, ...], Relation], ...] = (
    (("HG-143", "HG-133"), ("HG-134",), is_always_related),
    (("HG-143", "HG-133", "HG-132", "HG-131"), ("HG-135",), is_always_related),
    (DIFFER, ("HG-131", "HG-132", "HG-134", "HG-135"), is_always_related),
    (("HG-132", "HG-131"), ("HG-134",), is_always_related),
    (("HG-135",), ("HG-134",), is_always_related),
    (ENDED, (*SENDS, "HG-161"), is_waiting_for),
    (DIFFER, ("HG-161", "HG-124", *LATE), is_same_group),
    (("HG-144",), (*LATE, "HG-161"), is_waiting_for),
    (LATE, ("HG-161",), is_waiting_for),
    (LATE, SENDS, has_other_ranks),  # who is late sends nothing, either
    (SENDS, ("HG-161",), has_same_ranks),
    ((*SENDS, *ENDED, "HG-144", "HG-161"), ("HG-164",), is_always_related),
    (("HG-163",), ("HG-162",), is_always_related),  # it says so itself
)


def fold_hang_findings(found: Iterable[HangFinding]) -> list[HangFinding]:
    """What one finding explains goes under it."""
    heads = list(found)
    for causes, effects, relation in ROOTS:
        for root in [one for one in heads if one.code in causes]:
            hit = [
                one
                for one in heads
                if one.code in effects and one is not root and relation(root, one)
            ]
            if hit and root in heads:
                heads = [one for one in heads if one not in hit]
                heads[heads.index(root)] = replace(root, follows=(*root.follows, *hit))
    return heads


def hang_finding_sort_key(finding: HangFinding) -> tuple[int, int, int, str, tuple[int, ...]]:
    """Causes first, of these the one that keeps most ranks waiting; alike ones by code and rank."""
    certain = 1 if finding.code in ("HG-151", "HG-161", "HG-134", "HG-135", "HG-110") else 0
    return (
        SEVERITIES.index(finding.severity),
        certain,
        -len(finding.waiting),
        finding.code,
        finding.ranks,
    )


def judge_job(samples: Sequence[Iterable[Rank]], stalled: float = 0.0) -> list[HangFinding]:
    """What is wrong with a job.

    Args:
        samples: what its ranks said, oldest first; a second one some seconds later tells what stands from what is slow.
        stalled: seconds that a collective may take; 0 where the records were taken because the job stood.
    """
    taken = [JobSample({one["rank"]: one for one in sample}) for sample in samples]
    taken = [sample for sample in taken if sample.ranks]
    if not taken:
        return []
    return limit_alike_findings(
        sorted(
            fold_hang_findings(rules.check_hang_rules(ObservedJob(taken, stalled))),
            key=hang_finding_sort_key,
        )
    )


def limit_alike_findings(found: list[HangFinding]) -> list[HangFinding]:
    """Of many findings with one code the first ones stay at the top; the others go under the last of these."""
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
