"""A finding, as every part that judges makes it and a result keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # slow to import; a log is judged without
    from fullmesh.result.types import FindingRow, FoldedRow, RungId, Severity

ERROR: Final = "error"
WARNING: Final = "warning"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where, and the command that fixes it.

    Attributes:
        code: ``VC-201``, see ``fullmesh.codes``.
        rung: where on the ladder it was found.
        cause: one sentence.
        node: the node to act on.
        peer: the other end, or several.
        port: port or ports, as text.
        direction: ``el1 -> ubuntu1``: who connects to whom.
        seen: the value observed.
        expected: the value it should have.
        fix: a command to copy.
        severity: an error fails the rung, a warning does not.
        pairs: the ordered pairs of nodes that it is about.
        kinds: the kinds of listeners that were hit: sample, range, master, rendezvous.
        follows: findings that are explained by this one.
    """

    code: str
    rung: RungId
    cause: str
    node: str = ""
    peer: str = ""
    port: str = ""
    direction: str = ""
    seen: str = ""
    expected: str = ""
    fix: str = ""
    severity: Severity = ERROR
    pairs: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ()
    follows: tuple[Finding, ...] = ()

    def folded(self) -> FoldedRow:
        """Plain data for the result, without what follows."""
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
            "fix": self.fix,
            "severity": self.severity,
            "pairs": [list(pair) for pair in self.pairs],
            "kinds": list(self.kinds),
            "page": get_code_page(self.code),
        }

    def as_dict(self) -> FindingRow:
        """Plain data for the result."""
        return {**self.folded(), "follows": [one.folded() for one in self.follows]}


def get_code_page(code: str) -> str:
    """Where the page of a code stands: the causes of diagnosis have one each, the others a line in the list."""
    return f"docs/causes/diagnose.md#{code.lower()}"


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Join names, the rest as a number."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
