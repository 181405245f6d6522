"""A job under watch that stands: all its nodes are asked which rank it is, while it is still there."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from fullmesh.explain.model import clean
from fullmesh.hang import ask
from fullmesh.hang.judge import judge
from fullmesh.hang.types import CAUSE, Finding
from fullmesh.watch.remote import TakesPart

AGAIN = 3.0  # seconds between the two looks that tell what stands from what is slow
CERTAIN = 5.0  # seconds in a collective; its node has seen it stand for far longer
GATHER = 1.0  # the other nodes notice in about the same moment
LONGEST = 2000
FINDINGS = 4


@dataclass
class Stalled:
    """Asks aside, so that the job's output goes on, and says each cause once."""

    part: TakesPart
    told: set[tuple[str, tuple[int, ...], str]] = field(default_factory=set)
    asking: threading.Thread | None = None
    answer: list[Finding] | None = None

    def begin(self, job: str) -> None:
        """Ask, unless that is being done."""
        if self.asking is None:
            self.asking = threading.Thread(target=self.ask, args=(job,), daemon=True)
            self.asking.start()

    def ask(self, job: str) -> None:
        """Ask all nodes, and judge."""
        time.sleep(GATHER)
        answers = ask.nodes(self.part["hosts"], job, [AGAIN])
        self.answer = judge(ask.samples(self.part["plan"], answers), CERTAIN)

    def wait(self, seconds: float) -> None:
        """Let a question that was asked be answered."""
        if self.asking is not None:
            self.asking.join(seconds)

    def forget(self) -> None:
        """It goes on: what is found from now on is said again."""
        self.told.clear()

    def lines(self) -> list[str]:
        """What was found since this was asked for before; nothing where it is known."""
        if self.answer is None:
            return []
        found, self.answer, self.asking = self.answer, None, None
        new = [one for one in found if key(one) not in self.told and one.severity == CAUSE]
        self.told.update(map(key, new))
        return [
            clean(f"[{one.code}] {one.cause}. Seen: {one.seen}. Fix: {one.fix}", LONGEST)
            for one in new[:FINDINGS]
        ]


def key(one: Finding) -> tuple[str, tuple[int, ...], str]:
    """What makes a finding the same one."""
    return one.code, one.ranks, one.place
