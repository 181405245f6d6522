"""No rank continues, and no rank waits in a collective that another has not entered

The recorder shows no open collective, and all ranks are at the same lines as before. They wait for
a file, a server or a terminal, or for each other in sends and receives, which Gloo's recorder does
not record.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Repair the file or server that the line waits for, or correct the other side of the send or
receive.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.hang.common import is_rank_observable
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob, format_ranks
from fullmesh.causes.hang.progress import find_newest_entries, measure_idle_seconds

SOON = 1.0  # seconds in which a job may well enter nothing
PLACES_SHOWN = 3


def find_stillness(job: ObservedJob) -> Iterator[HangFinding]:
    """Find a job in which no rank continues, although the recorder shows no open collective."""
    before, now = job.before, job.now
    if before is None or job.waits or not now.asked:
        return
    was, found = find_newest_entries(before), find_newest_entries(now)
    here = [rank for rank in now.asked if is_rank_observable(job, rank)]
    still = all(was.get(rank) == found[rank] for rank in now.asked)
    stay = all(before.place(rank) == now.place(rank) for rank in here)
    if not here or not still or not stay or measure_idle_seconds(now) < max(job.stalled, SOON):
        return
    counts = Counter((now.place(rank), now.doing(rank).seen) for rank in here)
    order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    seen = [f"{count} at {place or 'no known place'}, {what}" for (place, what), count in order]
    place = order[0][0][0]
    yield HangFinding(
        CAUSE.code,
        f"no rank continues: none has entered anything for {measure_idle_seconds(now):.0f} s, and "
        f"{format_ranks(here)}"
        f" {'are' if len(here) > 1 else 'is'} at the same {'lines' if len(here) > 1 else 'line'} as"
        f" before{', most at ' + place if place else ''}",
        ranks=tuple(here),
        hosts=job.now.hosts(here),
        place=place,
        seen="; ".join(seen[:PLACES_SHOWN]),
        expected="a collective now and then",
        check="read these lines. They are waiting for a file, a server, a terminal or a link, or for a send or receive "
        "with another tag or peer (./fullmesh diagnose -i INVENTORY)",
        fix="repair the file, server or link, or correct the other side of the send or receive",
    )


CAUSE = HangCause("HG-164", __doc__, find=find_stillness)
