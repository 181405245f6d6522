"""Define findings, which every judging part makes and a result keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # slow to import; a log is judged without
    from fullmesh.result.types import CheckId, FindingRow, FoldedRow, Severity

ERROR: Final = "error"
WARNING: Final = "warning"


@dataclass(frozen=True)
class Finding:
    """One problem, its place, and the command that fixes it.

    Attributes:
        code: ``VC-201``, see ``fullmesh.codes``.
        rung: the check that found it.
        cause: one sentence.
        node: the node to act on.
        peer: the other end, or several.
        port: port or ports, as text.
        direction: ``el1 -> ubuntu1``: from the connecting node to its peer.
        seen: the value observed.
        expected: the value it should have.
        check: a command that only gathers information.
        fix: a command or a change.
        severity: an error fails the check, a warning does not.
        pairs: the ordered pairs of nodes that it affects.
        kinds: the kinds of listeners that it affects: sample, range, master, rendezvous.
        follows: findings that this one explains.
    """

    code: str
    rung: CheckId
    cause: str
    node: str = ""
    peer: str = ""
    port: str = ""
    direction: str = ""
    seen: str = ""
    expected: str = ""
    check: str = ""
    fix: str = ""
    severity: Severity = ERROR
    pairs: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ()
    follows: tuple[Finding, ...] = ()

    def folded(self) -> FoldedRow:
        """Return plain data for the result, without the findings that follow."""
        return {
            "code": self.code,
            "rung": self.rung,
            "cause": self.cause,
            "node": self.node,
            "peer": self.peer,
            "port": self.port,
            "direction": self.direction,
            "seen": self.seen,
            "expected": self.expected,
            "check": self.check,
            "fix": self.fix,
            "severity": self.severity,
            "pairs": [list(pair) for pair in self.pairs],
            "kinds": list(self.kinds),
            "page": get_code_page(self.code),
        }

    def as_dict(self) -> FindingRow:
        """Return plain data for the result."""
        return {**self.folded(), "follows": [one.folded() for one in self.follows]}


def format_finding(one: Finding) -> str:
    """Format a finding as one coded sentence, for a task's message."""
    steps = [("Check", one.check), ("Fix", one.fix)]
    said = [f"[{one.code}] {one.cause}", *(f"{label}: {text}" for label, text in steps if text)]
    return " ".join(part.rstrip(".") + "." for part in said)


def get_code_page(code: str) -> str:
    """Return the page of a code."""
    return f"docs/causes/diagnose.md#{code.lower()}"


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Join the first names and count the rest."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
