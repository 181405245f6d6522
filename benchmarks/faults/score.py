"""Score answers of fault finders: precision, recall, place, cause, time and cost. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

FIELDS = ("node", "peer", "direction", "cause")
LONGEST_ANSWER = 1 << 20  # characters


@dataclass(frozen=True)
class Truth:
    """The place and the cause of a fault. A healthy or harmlessly changed state has no node.

    Attributes:
        node: the node where the fault was made.
        peer: the other end, if the fault is about a link.
        directions: correct directions, with "" if an answer without one is correct, too. Empty: all are.
        words: a correct cause contains one of them.
    """

    node: str = ""
    peer: str = ""
    directions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trial:
    """The answer of one adapter to one state.

    Attributes:
        answer: its fields. Empty: nothing is wrong.
        failed: why there is no valid answer. It counts as a miss, and as an alarm on a healthy state.
        seconds, cpu_seconds: time and CPU time of the command on the controller.
    """

    case: str
    kind: str
    adapter: str
    truth: Truth
    answer: Mapping[str, str] = field(default_factory=dict)
    failed: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class AdapterScore:
    """The figures of an adapter. Shares are None if there was nothing to count."""

    adapter: str
    faults: int
    found: int
    placed: int
    named: int
    quiet: int
    alarms: int
    failed: int
    seconds: float
    cpu_seconds: float

    @property
    def precision(self) -> float | None:
        """The share of its reports that were about a fault."""
        reports = self.found + self.alarms
        return self.found / reports if reports else None

    @property
    def recall(self) -> float | None:
        """The share of the faults that it reported."""
        return self.found / self.faults if self.faults else None


def parse_answer(text: str) -> dict[str, str]:
    """Return the answer that a command printed: the last line that is a JSON object.

    Raises:
        ValueError: there is none, or it has other fields or values.
    """
    if len(text) > LONGEST_ANSWER:
        raise ValueError("the answer is too long")
    lines = [line for line in text.splitlines() if line.strip().startswith("{")]
    if not lines:
        raise ValueError("no line is a JSON object")
    found: Any = json.loads(lines[-1])
    unknown = sorted(set(found) - set(FIELDS))
    if unknown or not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"an answer has the texts {', '.join(FIELDS)}, not {unknown or 'others'}")
    return {key: value for key, value in found.items() if value}


def is_placed(trial: Trial) -> bool:
    """Return whether node, peer and direction are right, as far as the fault has them."""
    truth, answer = trial.truth, trial.answer
    if answer.get("node") != truth.node:
        return False
    if truth.peer and answer.get("peer") != truth.peer:
        return False
    return not truth.directions or answer.get("direction", "") in truth.directions


def is_named(trial: Trial) -> bool:
    """Return whether the cause contains one of the fault's words, as a word."""
    cause = trial.answer.get("cause", "").lower()
    return any(
        re.search(rf"(?<![a-z0-9]){re.escape(word.strip().lower())}(?![a-z0-9])", cause)
        for word in trial.truth.words
    )


def score_adapter(adapter: str, trials: Sequence[Trial]) -> AdapterScore:
    """Count the figures of one adapter."""
    own = [one for one in trials if one.adapter == adapter]
    faults = [one for one in own if one.truth.node]
    healthy = [one for one in own if not one.truth.node]
    found = [one for one in faults if one.answer and not one.failed]
    return AdapterScore(
        adapter=adapter,
        faults=len(faults),
        found=len(found),
        placed=sum(map(is_placed, found)),
        named=sum(map(is_named, found)),
        quiet=len(healthy),
        alarms=sum(bool(one.answer or one.failed) for one in healthy),
        failed=sum(bool(one.failed) for one in own),
        seconds=median(one.seconds for one in own) if own else 0.0,
        cpu_seconds=median(one.cpu_seconds for one in own) if own else 0.0,
    )


def format_share(part: int, whole: int) -> str:
    """Format a share as a count and percent."""
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "none"


def render_table(trials: Sequence[Trial]) -> str:
    """Render the figures of all adapters, and the recall for each kind of fault."""
    adapters = list(dict.fromkeys(one.adapter for one in trials))
    lines = [
        "| adapter | precision | recall | place | cause | false alarms | failed | median | CPU |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in adapters:
        one = score_adapter(name, trials)
        cells = (
            name,
            "none" if one.precision is None else f"{100 * one.precision:.0f} %",
            format_share(one.found, one.faults),
            format_share(one.placed, one.faults),
            format_share(one.named, one.faults),
            f"{one.alarms} of {one.quiet}",
            str(one.failed),
            f"{one.seconds:.1f} s",
            f"{one.cpu_seconds:.1f} s",
        )
        lines.append(f"| {' | '.join(cells)} |")
    kinds = list(dict.fromkeys(one.kind for one in trials if one.truth.node))
    lines += ["", f"| recall | {' | '.join(kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for name in adapters:
        scores = [
            score_adapter(name, [one for one in trials if one.kind == kind]) for kind in kinds
        ]
        shares = " | ".join(f"{one.found} of {one.faults}" for one in scores)
        lines.append(f"| {name} | {shares} |")
    return "\n".join([*lines, ""])


def list_misses(trials: Sequence[Trial], adapter: str) -> list[str]:
    """List the cases that an adapter missed, misplaced or reported without a fault."""
    lines = []
    for one in trials:
        if one.adapter != adapter:
            continue
        if not one.truth.node:
            wrong = "false alarm" if one.answer or one.failed else ""
        elif not one.answer or one.failed:
            wrong = one.failed or "missed"
        else:
            wrong = "" if is_placed(one) else "wrong place"
        if wrong:
            lines.append(f"- {one.case}: {wrong}: {one.answer.get('cause', '')[:160]}".rstrip(": "))
    return lines
