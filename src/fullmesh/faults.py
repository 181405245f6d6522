"""Define faults: problem, value seen and next step, under a code whose meaning never changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LABELS = ("Fix: ", "Check: ")


@dataclass(frozen=True, order=True)
class Fault:
    """One reason to reject an input.

    Attributes:
        code: ``PL-104``. The two letters name the owner, see ``fullmesh.codes``.
        text: one sentence with the value seen.
        step: the next step, one sentence. It gets the label Fix unless it begins with its own, such as Check.
    """

    code: str
    text: str
    step: str

    def __str__(self) -> str:
        label = "" if self.step.startswith(LABELS) else "Fix: "
        return f"[{self.code}] {self.text.rstrip('.')}. {label}{self.step.rstrip('.')}."


class InvalidInputError(ValueError):
    """Input that cannot work, with every fault found (never only the first one)."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))
