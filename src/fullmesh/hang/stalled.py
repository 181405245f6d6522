"""Query all nodes of a watched job that hangs for the rank that causes it, while the job is still running."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from fullmesh.causes.hang.job import CAUSE, HangFinding
from fullmesh.hang import ask
from fullmesh.hang.dump import Judged
from fullmesh.hang.jobs import find_disputed_ranks, group_answers_by_job
from fullmesh.printed import clean_and_shorten
from fullmesh.watch.remote import JobHosts

AGAIN = 3.0  # seconds between the two samples that tell hung ranks from slow ones
CERTAIN = 5.0  # seconds in a collective (its node saw it hang for far longer)
GATHER = 1.0  # the other nodes notice at about the same time
LONGEST = 2000
UNASKED = "The ranks hang, and Fullmesh could not find the rank that the others wait for"
AGAIN_BY_HAND = "The watch continues. Check: ./fullmesh hang -i INVENTORY"
FINDINGS = 4


@dataclass(frozen=True)
class StallVerdict:
    """The judged jobs of an answer with a cause, and the ranks that several nodes claim to run."""

    judged: Judged
    disputed: dict[int, list[str]]

    def causes(self) -> list[HangFinding]:
        """Return the causes of all jobs."""
        return [one for _, found in self.judged for one in found if one.severity == CAUSE]


@dataclass
class StallReporter:
    """Queries in a thread, so that the job's output continues, and reports each cause once."""

    part: JobHosts
    reported: set[tuple[str, tuple[int, ...], str]] = field(default_factory=set)
    asking: threading.Thread | None = None
    answer: StallVerdict | None = None
    verdict: StallVerdict | None = None  # with new causes, until it is taken
    failed: str = ""

    def begin(self, job: str, account: str = "") -> None:
        """Start a query, unless one runs. *account*: the owner of the watched job."""
        if self.asking is None:
            self.asking = threading.Thread(target=self.ask, args=(job, account), daemon=True)
            self.asking.start()

    def ask(self, job: str, account: str) -> None:
        """Query all nodes and judge the watched job. An error is reported, and the watch continues."""
        found = StallVerdict([], {})
        try:
            time.sleep(GATHER)
            answers = ask.query_hang_nodes(self.part["hosts"], job, [AGAIN])
            jobs, _ = group_answers_by_job(self.part["plan"], answers)
            # in a container an account can have another name
            chosen = [job for job in jobs if job.account == account] or jobs
            judged = [(one, one.findings(CERTAIN)) for one in chosen]
            found = StallVerdict(judged, find_disputed_ranks(answers, chosen))
        except Exception as error:
            self.failed = f"{type(error).__name__}: {error}"
        self.answer = found

    def wait(self, seconds: float) -> None:
        """Wait for the answer of a running query."""
        if self.asking is not None:
            self.asking.join(seconds)

    def take_verdict(self) -> StallVerdict | None:
        """Return the last answer, once, if it has new causes."""
        found, self.verdict = self.verdict, None
        return found

    def forget(self) -> None:
        """Report all later findings again, because the job continues."""
        self.reported.clear()

    def lines(self) -> list[str]:
        """Return the new findings since the last call."""
        if self.answer is None:
            return []
        found, self.answer, self.asking = self.answer, None, None
        why, self.failed = self.failed, ""
        if why:
            return [clean_and_shorten(f"[WA-111] {UNASKED}: {why}. {AGAIN_BY_HAND}", LONGEST)]
        new = [one for one in found.causes() if make_stall_key(one) not in self.reported]
        self.reported.update(map(make_stall_key, new))
        self.verdict = found if new else None
        return [
            clean_and_shorten(
                f"[{one.code}] {one.cause}. Seen: {one.seen}. "
                f"{f'Check: {one.check}. ' if one.check else ''}Fix: {one.fix}",
                LONGEST,
            )
            for one in new[:FINDINGS]
        ]


def make_stall_key(one: HangFinding) -> tuple[str, tuple[int, ...], str]:
    """Return the key that identifies a finding."""
    return one.code, one.ranks, one.place
