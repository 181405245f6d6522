"""From what the ranks said to findings in order: the causes first, what follows from them folded under them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fullmesh.hang import rules
from fullmesh.hang.types import CAUSE, NOTE, WARNING, Finding, Job, Sample
from fullmesh.observed.hang import Rank

Relation = Callable[[Finding, Finding], bool]
MOST_ALIKE = 8
SEVERITIES = (CAUSE, WARNING, NOTE)
LATE = tuple(f"HG-1{number:02}" for number in range(1, 15))


def same_group(root: Finding, other: Finding) -> bool:
    """Both are of one process group."""
    return root.group == other.group


def waits(root: Finding, other: Finding) -> bool:
    """The other's ranks are those that wait for the root's."""
    return bool(other.ranks) and set(other.ranks) <= {*root.waiting, *root.ranks}


def same_ranks(root: Finding, other: Finding) -> bool:
    """The other's ranks are among the root's."""
    return bool(other.ranks) and set(other.ranks) <= set(root.ranks)


def other_ranks(root: Finding, other: Finding) -> bool:
    """They are about different ranks."""
    return not set(root.ranks) & set(other.waiting)


def anywhere(_root: Finding, _other: Finding) -> bool:
    """Wherever it is."""
    return True


# What explains what; a code explains only what stands below it or nowhere, so there are no circles.
DIFFER = ("HG-121", "HG-122", "HG-123")
SENDS = ("HG-141", "HG-142")
ENDED = ("HG-131", "HG-132", "HG-133", "HG-143")
ROOTS: tuple[tuple[tuple[str, ...], tuple[str, ...], Relation], ...] = (
    (("HG-143", "HG-133"), ("HG-134",), anywhere),
    (("HG-143", "HG-133", "HG-132", "HG-131"), ("HG-135",), anywhere),
    (DIFFER, ("HG-131", "HG-132", "HG-134", "HG-135"), anywhere),
    (("HG-132", "HG-131"), ("HG-134",), anywhere),
    (("HG-135",), ("HG-134",), anywhere),
    (ENDED, (*SENDS, "HG-161"), waits),
    (DIFFER, ("HG-161", "HG-124", *LATE), same_group),
    (("HG-144",), (*LATE, "HG-161"), waits),
    (LATE, ("HG-161",), waits),
    (LATE, SENDS, other_ranks),  # who is late sends nothing, either
    (SENDS, ("HG-161",), same_ranks),
    ((*SENDS, *ENDED, "HG-144", "HG-161"), ("HG-164",), anywhere),
    (("HG-163",), ("HG-162",), anywhere),  # it says so itself
)


def fold(found: Iterable[Finding]) -> list[Finding]:
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


def order(finding: Finding) -> tuple[int, int, int, str, tuple[int, ...]]:
    """Causes first, of these the one that keeps most ranks waiting; alike ones by code and rank."""
    certain = 1 if finding.code in ("HG-151", "HG-161", "HG-134", "HG-135", "HG-110") else 0
    return (
        SEVERITIES.index(finding.severity),
        certain,
        -len(finding.waiting),
        finding.code,
        finding.ranks,
    )


def judge(samples: Sequence[Iterable[Rank]], stalled: float = 0.0) -> list[Finding]:
    """What is wrong with a job.

    Args:
        samples: what its ranks said, oldest first; a second one some seconds later tells what stands from what is slow.
        stalled: seconds that a collective may take; 0 where the records were taken because the job stood.
    """
    taken = [Sample({one["rank"]: one for one in sample}) for sample in samples]
    taken = [sample for sample in taken if sample.ranks]
    if not taken:
        return []
    return few(sorted(fold(rules.findings(Job(taken, stalled))), key=order))


def few(found: list[Finding]) -> list[Finding]:
    """Of many findings with one code the first ones stay at the top; the others go under the last of these."""
    heads: list[Finding] = []
    count: Counter[str] = Counter()
    for one in found:
        count[one.code] += 1
        if count[one.code] <= MOST_ALIKE:
            heads.append(one)
            continue
        last = max(number for number, head in enumerate(heads) if head.code == one.code)
        heads[last] = replace(heads[last], follows=(*heads[last].follows, one))
    return heads
