"""A rank raised an exception, and others wait for it

One rank raised an exception, and the other ranks wait without knowing. torchrun ends all ranks only
when a process ends. A non-daemon thread keeps a process alive, and so does a cleanup that waits
(destroy_process_group, a barrier in `finally:`).

**Prove:** read the traceback in the rank's own output

**Fix:** Correct the exception. Start your own threads with daemon=True, and call no collective in
`finally:`.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import NO_MEMBER, is_waiting_for
from fullmesh.causes.hang.ended import (
    complete_finding,
    describe_waiting,
    find_affected_ranks,
    format_named_ranks,
    get_first_line,
    group_alike_ranks,
    is_peer_gone_error,
    shorten_exception,
    summarize_exception,
)
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.places import find_user_location
from fullmesh.observed.hang import Rank


def find_raised_exceptions(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks that raised an exception while others wait."""

    def how(one: Rank) -> Hashable:
        raised = one["raised"]
        if not raised or is_peer_gone_error(raised) or NO_MEMBER.search(raised["text"]):
            return None
        return one["process"], get_first_line(raised["text"]), find_user_location(raised["frames"])

    for one, here in group_alike_ranks(job, how):
        place, text = summarize_exception(one)
        still = " and " + ("their processes are" if len(here) > 1 else "its process is")
        still = f"{still} still there" if one["process"] == "running" else ""
        others = f", while {describe_waiting(job, here)}" if find_affected_ranks(job, here) else ""
        at = f" at {place}" if place else ""
        found = HangFinding(
            CAUSE.code,
            f"{format_named_ranks(job, here)} raised {shorten_exception(text)}{at}{still}{others}",
            place=place,
            seen=text,
            expected="an exception ends the job",
            fix="fix the exception. torchrun ends the other ranks if one fails, unless a non-daemon "
            "thread keeps its process alive",
        )
        yield complete_finding(job, here, found)


CAUSE = HangCause(
    "HG-133",
    __doc__,
    find=find_raised_exceptions,
    weight=94,
    explains=(
        Explains(("HG-134", "HG-135", "HG-164")),
        Explains(("HG-141", "HG-142", "HG-161"), is_waiting_for),
    ),
)
