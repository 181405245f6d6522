"""What is known of the causes that a report names, for the report itself: who reads it may have no checkout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from fullmesh.diagnose import pages as diagnose_pages
from fullmesh.hang import pages as hang_pages
from fullmesh.hang.codes import CODES as HANGING
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
        fix: what to do.
        source: where that is known from; empty for rules of our own.
    """

    code: str
    place: str
    meaning: str
    why: str
    prove: str
    fix: str
    source: str


def iterate_codes(findings: Iterable[FindingBase]) -> Iterator[str]:
    """The codes of findings and of what follows from them, as they come."""
    for finding in findings:
        yield finding["code"]
        yield from iterate_codes(
            cast("list[FindingBase]", finding.get("follows") or [])
        )  # see FoldedRow


def collect_known_causes(result: Result) -> dict[str, KnownCause]:
    """The pages of a result's codes that have one, each once, in the order of the findings."""
    sources: tuple[tuple[Mapping[str, diagnose_pages.CausePage], Mapping[str, str]], ...] = (
        (diagnose_pages.PAGES, diagnose_pages.index_code_meanings()),
        (hang_pages.PAGES, HANGING),
    )
    found: dict[str, KnownCause] = {}
    for code in dict.fromkeys(iterate_codes(result["findings"])):
        for pages, meanings in sources:
            if code in pages:
                page, place = pages[code], code.lower()
                found[code] = KnownCause(
                    code,
                    f"about-{place}",
                    meanings[code],
                    page.why,
                    page.prove,
                    page.fix,
                    page.source,
                )
    return found
