"""Find the rank that a watched job always waits for, from the answers that its nodes send while it runs.

The watch on each node queries its ranks anyway, so this costs the job nothing more. Only a rank that is slow in two
results in a row is queried again, for the reason.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fullmesh.causes.hang.job import HangFinding
from fullmesh.hang import ask
from fullmesh.hang.jobs import group_answers_by_job
from fullmesh.observed.hang import NodeHang
from fullmesh.printed import clean_and_shorten
from fullmesh.watch.remote import JobHosts, NodeMessage

CODE = "HG-163"
LOOKS, PAUSE = 4, 3.0  # of the query for the reason
LONG = 60.0  # seconds that a collective of a job that goes on may take
KEPT = 4  # answers of a node
STAMPS = 16  # of a node's clock
LONGEST = 2000
FAILED = "Fullmesh could not judge whether a rank is slow"
AGAIN_BY_HAND = "The watch continues. Check: ./fullmesh hang -i INVENTORY"


@dataclass
class NodeHistory:
    """What a node has sent: the text of its newest answer until that is judged, earlier ones, and its clock's times."""

    text: str = ""
    looks: deque[NodeHang] = field(default_factory=lambda: deque(maxlen=KEPT))
    stamps: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=STAMPS))


SlowKey = tuple[str, tuple[int, ...]]  # the name of a job, and its ranks


@dataclass
class SlowReporter:
    """Judges in a thread when all nodes have answered, and reports each slow rank once."""

    part: JobHosts
    nodes: dict[str, NodeHistory] = field(default_factory=dict)
    suspected: frozenset[SlowKey] = frozenset()
    reported: frozenset[SlowKey] = frozenset()
    judging: threading.Thread | None = None
    answer: list[HangFinding] = field(default_factory=list)
    failed: str = ""
    failure_reported: bool = False

    def take(self, what: NodeMessage) -> None:
        """Keep a node's answer. Anything else in the message is for others."""
        event = what.event
        if event is None or "sent_ns" not in event:
            return
        node = self.nodes.setdefault(what.node, NodeHistory())
        node.stamps.append((event["sent_ns"], what.at_ns))
        if event["event"] != "ranks":
            return
        node.text = event.get("text", "")
        ready = all(name in self.nodes and self.nodes[name].text for name in self.part["hosts"])
        if ready and self.judging is None:
            texts = {name: one.text for name, one in self.nodes.items()}
            for one in self.nodes.values():
                one.text = ""
            self.judging = threading.Thread(target=self.try_to_judge, args=(texts,), daemon=True)
            self.judging.start()

    def align(self, texts: Mapping[str, str]) -> list[ask.HangAnswer]:
        """Read the new answers, and return the same number from each node. A damaged answer is left out."""
        for name, text in texts.items():
            with contextlib.suppress(ValueError):
                self.nodes[name].looks.append(ask.parse_node_hang(text, name))
        count = min(len(one.looks) for one in self.nodes.values())
        return [
            ask.HangAnswer(
                name,
                tuple(
                    ask.set_clock(look, ask.compare_clocks(tuple(one.stamps)))
                    for look in list(one.looks)[len(one.looks) - count :]
                ),
            )
            for name, one in self.nodes.items()
        ]

    def try_to_judge(self, texts: Mapping[str, str]) -> None:
        """Find slow ranks. An error is reported, and the watch continues."""
        try:
            self.judge(texts)
        except Exception as error:
            self.failed = f"{type(error).__name__}: {error}"

    def judge(self, texts: Mapping[str, str]) -> None:
        """Find slow ranks. If they were slow the last time as well, query the nodes for the reason."""
        found = frozenset(self.find(self.align(texts)))
        new = found & self.suspected - self.reported
        self.reported &= found | self.suspected  # that is slow again later is news
        self.suspected = found
        for name in {name for name, _ in new}:
            answers = ask.query_hang_nodes(self.part["hosts"], name, [PAUSE] * (LOOKS - 1))
            confirmed = {key: one for key, one in self.find(answers).items() if key in new}
            self.reported |= confirmed.keys()
            self.answer += confirmed.values()

    def find(self, answers: Sequence[ask.HangAnswer]) -> dict[SlowKey, HangFinding]:
        """Return the findings about slow ranks."""
        jobs, _ = group_answers_by_job(self.part["plan"], answers)
        return {
            (job.name, one.ranks): one
            for job in jobs
            for one in job.findings(LONG)
            if one.code == CODE
        }

    def lines(self) -> list[str]:
        """Return the new findings since the last call."""
        if self.judging is None or self.judging.is_alive():
            return []
        found, self.answer, self.judging = self.answer, [], None
        if self.failed and not self.failure_reported:
            self.failure_reported = True
            return [clean_and_shorten(f"{FAILED}: {self.failed}. {AGAIN_BY_HAND}", LONGEST)]
        return [
            clean_and_shorten(
                f"[{one.code}] {one.cause}. Seen: {one.seen}. "
                f"{f'Check: {one.check}. ' if one.check else ''}Fix: {one.fix}",
                LONGEST,
            )
            for one in found
        ]
