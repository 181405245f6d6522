"""A rank lost the connection to another one

The other end of a connection was closed or reset, usually because the other rank ended. This is the
main finding only if no other rank is known to have ended.

**Prove:** read the other ranks' outputs. If none ended: ./fullmesh diagnose -i INVENTORY

**Fix:** Correct the error of the rank that ended first.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fullmesh.causes.hang.ended import (
    complete_finding,
    format_named_ranks,
    group_alike_ranks,
    is_peer_gone_error,
    summarize_exception,
)
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob, format_collective


def find_lost_connections(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks that lost a connection: another rank has ended, or a link is down."""
    for one, here in group_alike_ranks(
        job, lambda one: summarize_exception(one)[0] if is_peer_gone_error(one["raised"]) else None
    ):
        place, text = summarize_exception(one)
        at = f" at {place}" if place else ""
        what = f" in {format_collective(one['entries'][-1])}" if one["entries"] else ""
        found = HangFinding(
            CAUSE.code,
            f"{format_named_ranks(job, here)} lost the connection to another rank{what}{at}",
            place=place,
            seen=text,
            expected="connections that stay",
            check="read the output of the other ranks. If none has ended: ./fullmesh diagnose -i INVENTORY",
            fix="correct the error of the rank that ended first",
        )
        yield replace(complete_finding(job, here, found), waiting=())


CAUSE = HangCause("HG-134", __doc__, find=find_lost_connections, is_certain=False)
