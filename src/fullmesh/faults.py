"""A fault: what is wrong, the value seen, the next step, under a code that never changes its meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Fault:
    """One reason to refuse an input.

    Attributes:
        code: ``PL-104``; two letters name the owner, see ``fullmesh.codes``.
        text: one sentence with the value seen.
        step: what to do next, one sentence.
    """

    code: str
    text: str
    step: str

    def __str__(self) -> str:
        return f"[{self.code}] {self.text.rstrip('.')}. {self.step.rstrip('.')}."


class InvalidInputError(ValueError):
    """Input that cannot work, with every fault found (never only the first one)."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))
