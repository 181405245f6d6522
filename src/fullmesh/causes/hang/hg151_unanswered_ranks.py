"""A rank cannot be queried

Without a record of a rank, Fullmesh does not know its state. The node does not answer, the process
holds Python's own lock inside a library, or you did not give its dump. The data of the other ranks
are still used.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Add the missing dumps. If a node does not answer: ./fullmesh diagnose -i INVENTORY.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.hang.common import describe_ras_state, is_held_back
from fullmesh.causes.hang.job import (
    WARNING,
    HangCause,
    HangFinding,
    JobSample,
    ObservedJob,
    format_collective,
    format_ranks,
    has_record,
)

HOSTS_SHOWN = 4


def find_unanswered_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks whose state is not known."""
    now = job.now
    together: dict[tuple[str, bool], list[int]] = {}
    for rank in range(now.world):
        one = now.ranks.get(rank)
        if one is not None and (has_record(one) or one["process"] == "gone"):
            continue
        if one is not None and (now.doing(rank).elsewhere or is_held_back(job, rank)):
            continue  # seen from outside
        why = one["missing"][0]["why"] if one and one["missing"] else "there is no record of it"
        together.setdefault((why, rank in job.lacking), []).append(rank)
    for (why, wanted), here in together.items():
        hosts = tuple(dict.fromkeys(now.host(rank) for rank in here if now.host(rank)))
        rest = f" and {len(hosts) - HOSTS_SHOWN} more" if len(hosts) > HOSTS_SHOWN else ""
        on = f" ({', '.join(hosts[:HOSTS_SHOWN])}{rest})" if hosts else ""
        waits = job.lacking.get(here[0], [])
        what = f", and others wait for it in {format_collective(waits[0].entry)}" if waits else ""
        yield HangFinding(
            CAUSE.code,
            f"{format_ranks(here)}{on} cannot be queried: {why}{what}",
            ranks=tuple(here),
            hosts=hosts,
            group=waits[0].entry["group"] if waits else "",
            number=waits[0].entry["number"] if waits else 0,
            kind=waits[0].entry["kind"] if waits else "",
            waiting=tuple(sorted({w.rank for rank in here for w in job.lacking.get(rank, [])})),
            seen="; ".join(
                [_describe_kernel_state(now, here[0]) or why, *_describe_silent_ras(job, here[0])]
            ),
            expected="an answer of every rank",
            check="./fullmesh diagnose -i INVENTORY for the node, py-spy dump --pid PID for the process on it",
            fix="repair the connection to the node, or start the job with a launcher of Fullmesh",
            severity=CAUSE.severity if wanted else WARNING,
        )


def _describe_silent_ras(job: ObservedJob, rank: int) -> list[str]:
    """Return NCCL RAS's data about a rank that does not answer."""
    return describe_ras_state(job, rank) if rank in job.now.ranks else []


def _describe_kernel_state(now: JobSample, rank: int) -> str:
    """Return the kernel's data about a process that does not answer."""
    if rank not in now.ranks or not now.ranks[rank]["native"]["state"]:
        return ""
    native = now.ranks[rank]["native"]
    return f"state {native['state']}, {native['wchan'] or 'no wait channel'}, {native['syscall'] or 'no system call'}"


CAUSE = HangCause("HG-151", __doc__, find=find_unanswered_ranks, is_certain=False)
