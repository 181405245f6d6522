"""Collect the pages of the causes that a report names, because its readers may have no checkout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from fullmesh.causes.engine import load_cause
from fullmesh.result.types import FindingBase, Result


@dataclass(frozen=True)
class KnownCause:
    """The page of a code.

    Attributes:
        code: like VC-202.
        place: its anchor in the report.
        meaning: its title.
        why: the mechanism.
        prove: how to see it without Fullmesh.
        fix: the change that solves it.
        source: the source of the knowledge, empty for Fullmesh's own rules.
    """

    code: str
    place: str
    meaning: str
    why: str
    prove: str
    fix: str
    source: str


def iterate_codes(findings: Iterable[FindingBase]) -> Iterator[str]:
    """Yield the codes of findings and of the findings that follow from them."""
    for finding in findings:
        yield finding["code"]
        yield from iterate_codes(
            cast("list[FindingBase]", finding.get("follows") or [])
        )  # see FoldedRow


def collect_known_causes(result: Result) -> dict[str, KnownCause]:
    """Collect the pages for a result's codes, each once, in the order of the findings."""
    found: dict[str, KnownCause] = {}
    for code in dict.fromkeys(iterate_codes(result["findings"])):
        cause = load_cause(code)
        if cause:
            page, place = cause.page, f"about-{code.lower()}"
            found[code] = KnownCause(
                code, place, page.meaning, page.why, page.prove, page.fix, page.source
            )
    return found
