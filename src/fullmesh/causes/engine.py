"""Define a cause, find its file by code, and fold findings under the finding that explains them.

A cause is a module ``fullmesh.causes.FAMILY.CODE_NAME`` (``names/dg145_reverse_lookup.py``) with a value ``CAUSE``. Its
docstring is the page of the code: the meaning in one line, then why it happens, how to prove it, how to fix it, and the
source. Modules are found by their names, so no list of them is kept anywhere.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

from fullmesh.result.findings import ERROR, WARNING

PACKAGE = "fullmesh.causes"
FOLDER = Path(__file__).parent
LAB, RECORDED = "lab", "recorded"
LINK = ("node", "peer", "port", "direction", "seen")
NODE = ("node", "seen", "expected")
# A finding is explained only by one that is at least as grave.
GRAVITY = {ERROR: 0, "cause": 0, WARNING: 1}


class RankedFinding(Protocol):
    """The attributes of a finding that the engine uses."""

    @property
    def code(self) -> str:
        """The code of its cause."""

    @property
    def severity(self) -> str:
        """The severity of the finding."""


Found = TypeVar("Found", bound=RankedFinding)
Relation = Callable[[Any, Any], bool]


def is_at_any_place(_root: object, _other: object) -> bool:
    """Relate two findings wherever they are."""
    return True


@dataclass(frozen=True)
class Explains:
    """The findings that a cause explains, which are then shown under it.

    Attributes:
        codes: of these findings.
        relation: the condition between a finding of the cause and one of these (the same node, the same links).
    """

    codes: tuple[str, ...]
    relation: Relation = is_at_any_place


@dataclass(frozen=True)
class CauseCase:
    """One way to produce a cause in a test.

    Attributes:
        name: short and unique. The tests use this name.
        how: how to make it on lab nodes, in words. For a recorded case, a description of the observation.
        by: ``lab`` if containers, namespaces, nft, tc or files can make it, else ``recorded``.
        fields: which fields of the finding are filled in.
        severity: of the finding, if it differs from the cause's.
        options: of ``./fullmesh diagnose``, if it finds the case only with them.
    """

    name: str
    how: str
    by: str = LAB
    fields: tuple[str, ...] = NODE
    severity: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class CausePage:
    """The page of a cause, in parts.

    Attributes:
        why: the mechanism, and its effect on a job.
        prove: a command that shows it without Fullmesh.
        fix: a command or a change.
        source: the measurement or text that shows the mechanism. Empty for Fullmesh's own rules.
        where: the broken end (log codes only).
        meaning: the meaning of the code in one line.
    """

    why: str
    prove: str
    fix: str
    source: str = ""
    where: str = ""
    meaning: str = ""


def parse_page(text: str) -> CausePage:
    """Read the page of a cause from the docstring of its module.

    Raises:
        ValueError: a part is missing, or there is one that no page has.
    """
    meaning, *paragraphs = (" ".join(part.split()) for part in text.strip().split("\n\n"))
    parts = {"why": ""}
    for paragraph in paragraphs:
        name, mark, rest = paragraph.partition(":** ")
        if mark and name.startswith("**"):
            name = name.removeprefix("**").lower()
            parts["where" if name == "place" else name] = rest
        else:
            parts["why"] = f"{parts['why']}\n\n{paragraph}".strip()
    if not {"prove", "fix"} <= parts.keys() <= {"why", "where", "prove", "fix", "source"}:
        raise ValueError(f"the page of '{meaning}' has the parts {', '.join(parts)}")
    return CausePage(**parts, meaning=meaning)


@dataclass(frozen=True)
class Cause:
    """A cause of findings: its code, its page and the functions that find it.

    Attributes:
        code: as in ``DG-113``. The module's name begins with it.
        doc: the docstring of its module, which is its page.
        find: yields its findings from the observations. None if another module finds it (a check of the verification,
            or another cause, as a comment in its module says).
        explain_block: returns its finding if it explains why a rule blocks links, else None.
        severity: of its findings, as a rule.
        weight: the heavier of two causes comes first. Close to 0: it explains nothing.
        explains: the findings that follow from it.
        needs: parts of a node's survey without which it finds nothing: it is not asked if no node has one of them.
        hidden: every check of the verification can pass although it is there.
        cases: the ways in which it shows.
        family: the folder of its module.
    """

    code: str
    doc: str | None
    find: Callable[[Any], Iterator[Any]] | None = None
    explain_block: Callable[[Any, Any], Any | None] | None = None
    severity: str = ERROR
    weight: int = 0
    explains: tuple[Explains, ...] = ()
    needs: tuple[str, ...] = ()
    hidden: bool = False
    cases: tuple[CauseCase, ...] = ()
    family: str = ""

    @cached_property
    def page(self) -> CausePage:
        """The page of its code."""
        return parse_page(self.doc or "")


@cache
def index_cause_modules() -> Mapping[str, str]:
    """Map each code that has a module to the module's name, by the names of the files."""
    found = {}
    for family in pkgutil.iter_modules([str(FOLDER)]):
        for module in pkgutil.iter_modules([str(FOLDER / family.name)] if family.ispkg else []):
            code = module.name.partition("_")[0].upper()
            if code[2:].isdecimal():
                found[f"{code[:2]}-{code[2:]}"] = f"{PACKAGE}.{family.name}.{module.name}"
    return dict(sorted(found.items()))


@cache
def load_cause(code: str) -> Cause | None:
    """Load the cause of a code, or None if the code has no module.

    Raises:
        ValueError: the module is named after a different code than its cause.
    """
    name = index_cause_modules().get(code)
    if name is None:
        return None
    found: Cause = importlib.import_module(name).CAUSE
    if found.code != code:
        raise ValueError(f"{name} has the cause {found.code}")
    return replace(found, family=name.split(".")[2])


@cache
def load_causes(group: str) -> Mapping[str, Cause]:
    """Load all causes of a group, such as ``DG``: code -> cause, the heaviest first."""
    named = [load_cause(code) for code in index_cause_modules() if code.startswith(f"{group}-")]
    held = sorted((one for one in named if one), key=lambda cause: -cause.weight)
    return {one.code: one for one in held}


def collect_meanings(group: str) -> dict[str, str]:
    """Map each code of a group to its meaning."""
    return {code: cause.page.meaning for code, cause in sorted(load_causes(group).items())}


def index_cases() -> dict[str, tuple[Cause, CauseCase]]:
    """Map the name of each case of a cluster's causes to its cause and itself."""
    held = [cause for group in ("VC", "DG") for cause in load_causes(group).values()]
    return {case.name: (cause, case) for cause in held for case in cause.cases}


def get_weight(code: str) -> int:
    """Return the weight of a code's cause, or 0."""
    cause = load_cause(code)
    return cause.weight if cause else 0


def list_explanations(root: RankedFinding, other: RankedFinding) -> Iterator[Explains]:
    """List the relations that make one finding the reason for the other."""
    cause = load_cause(root.code)
    if cause and GRAVITY.get(root.severity, 2) <= GRAVITY.get(other.severity, 2):
        for one in cause.explains:
            if other.code in one.codes and one.relation(root, other):
                yield one


@cache
def list_explained_codes(code: str) -> frozenset[str]:
    """List the codes that a cause may explain: most pairs of findings need no closer look."""
    cause = load_cause(code)
    return (
        frozenset(other for one in cause.explains for other in one.codes) if cause else frozenset()
    )


def can_explain(root: RankedFinding, other: RankedFinding) -> bool:
    """Return whether one finding explains the other."""
    if other.code not in list_explained_codes(root.code):
        return False
    return any(True for _ in list_explanations(root, other))


def finding_sort_key(finding: RankedFinding) -> tuple[int, int]:
    """Return a key that sorts severe findings first, then heavy ones."""
    return GRAVITY.get(finding.severity, 2), -get_weight(finding.code)


def fold_findings(
    found: Sequence[Found],
    explains: Relation | None = None,
    key: Callable[[Any], Any] = finding_sort_key,
) -> list[Found]:
    """Put each finding under the first one that explains it, directly or through another finding.

    Args:
        found: findings, each a dataclass with ``follows``.
        explains: whether the first finding is the reason for the second. Default: :func:`can_explain`.
        key: sorts the findings.
    """
    ranked = sorted(found, key=key)
    codes = [one.code for one in ranked]
    places = range(len(ranked))
    roots = {
        code: [i for i in places if explains or code in list_explained_codes(codes[i])]
        for code in set(codes)
    }
    relation = explains or can_explain
    reasons = {
        one: [
            root
            for root in roots[codes[one]]
            if root != one
            and (root < one or codes[root] != codes[one])
            and relation(ranked[root], ranked[one])
        ]
        for one in places
    }
    left = [one for one in places if reasons[one]]
    home = {one: one for one in places if not reasons[one]}  # finding -> the head that it is under
    under: dict[int, list[int]] = {}
    while left:
        waiting = []
        for one in left:
            head = next((root for root in reasons[one] if home.get(root) == root), None)
            if head is None:
                heads = {home[root] for root in reasons[one] if root in home}
                head = next((head for head in under if head in heads), None)
            if head is None:
                waiting.append(one)
            else:
                home[one] = head
                under.setdefault(head, []).append(one)
        if len(waiting) == len(left):  # they explain each other
            first = waiting.pop(0)
            home[first] = first
        left = waiting
    return [
        put_under(one, [ranked[effect] for effect in under.get(place, ())])
        for place, one in enumerate(ranked)
        if home[place] == place
    ]


def put_under(head: Found, findings: Iterable[Found]) -> Found:
    """Return a finding with others under it."""
    return replace(head, follows=tuple(findings))  # type: ignore[type-var]  # a Protocol cannot say dataclass
