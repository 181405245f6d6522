"""Sends and receives: which are open, and which have no other side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fullmesh.causes.hang.job import (
    SECOND,
    HangCause,
    HangFinding,
    JobSample,
    ObservedJob,
    format_ranks,
    has_record,
    strip_backend,
)
from fullmesh.causes.hang.places import ActivityKind
from fullmesh.observed.hang import RecorderEntry

# ``nccl:send 0->1``, ``nccl:recv 1<-0``: ranks within the group, the caller first.
PASSING = re.compile(r"^(?P<what>send|recv) (?P<own>\d+)(?:->|<-)(?P<peer>\d+)$")
OTHER = {"send": "recv", "recv": "send"}
SHOWN = 4


def find_p2p_call(sample: JobSample, rank: int) -> str:
    """Return ``send`` or ``recv`` if a rank's main thread is in one, else ""."""
    doing = sample.doing(rank)
    if doing.kind is not ActivityKind.PASSING:
        return ""
    return "send" if "send" in doing.call else "recv"


def has_not_moved(job: ObservedJob, rank: int) -> bool:
    """Return whether a rank was at the same place in the last sample, and has entered nothing since."""
    before = job.before
    if before is None or rank not in before.ranks:
        return job.stalled <= 0
    newest = [
        max((entry["record"] for entry in sample.ranks[rank]["entries"]), default=-1)
        for sample in (before, job.now)
    ]
    return before.place(rank) == job.now.place(rank) and newest[0] == newest[1]


def _has_p2p_record(now: JobSample, rank: int) -> bool:
    return any(entry["p2p"] for entry in now.ranks[rank]["entries"])


def find_p2p_pairs(sample: JobSample) -> Iterator[tuple[int, int]]:
    """Yield the ranks that send or receive, and their peers, as far as they are recorded (NCCL)."""
    for rank in sample.asked:
        for entry in sample.ranks[rank]["entries"]:
            found = PASSING.match(strip_backend(entry["kind"])) if entry["p2p"] else None
            members = sample.members[entry["group"]] if found else ()
            if found and int(found["peer"]) < len(members):
                yield rank, members[int(found["peer"])]


def find_open_p2p_calls(now: JobSample, rank: int) -> Iterator[tuple[RecorderEntry, str, int, int]]:
    """Return the sends and receives that a rank has not left: entry, which, itself and its peer in the job."""
    for entry in now.ranks[rank]["entries"]:
        found = PASSING.match(strip_backend(entry["kind"])) if entry["p2p"] else None
        members = now.members[entry["group"]] if found else ()
        if found is None or entry["retired"] or int(found["peer"]) >= len(members):
            continue
        yield entry, found["what"], rank, members[int(found["peer"])]


def find_unmatched_stacks(job: ObservedJob) -> Iterator[UnmatchedCall]:
    """Find unmatched sends and receives from the main threads' stacks, because Gloo's recorder records neither."""
    now = job.now
    found: dict[str, list[int]] = {"send": [], "recv": []}
    for rank in now.asked:
        if (what := find_p2p_call(now, rank)) and has_not_moved(job, rank):
            found[what].append(rank)
    for what, here in found.items():
        if not here or found[OTHER[what]] or any(_has_p2p_record(now, rank) for rank in here):
            continue
        elsewhere = [rank for rank in now.asked if rank not in here]
        places = [
            f"rank {rank} is at {now.place(rank)}"
            + (f" ({now.doing(rank).seen})" if now.doing(rank).seen else "")
            for rank in elsewhere[:SHOWN]
        ]
        yield UnmatchedCall(what, here, "; ".join([f"no rank is in {OTHER[what]}", *places]))


def find_recorded_calls(job: ObservedJob) -> Iterator[UnmatchedCall | MatchedCall]:
    """Find matched and unmatched sends and receives from the recorder, which records them with NCCL."""
    now = job.now
    sides = {
        (what, rank, peer) for r in now.asked for _, what, rank, peer in find_open_p2p_calls(now, r)
    }
    for one in now.asked:
        for entry, what, rank, peer in find_open_p2p_calls(now, one):
            known = peer in now.ranks and has_record(now.ranks[peer])
            age = (now.ranks[one]["taken_ns"] - entry["created_ns"]) / SECOND
            young = bool(now.ranks[one]["taken_ns"]) and age < job.stalled
            if not known or young:
                continue
            if (OTHER[what], peer, rank) in sides:
                if what == "send":
                    yield MatchedCall(entry, rank, peer)
                continue
            place = now.place(peer)
            seen = f"rank {peer} has no {OTHER[what]} open with rank {rank}"
            yield UnmatchedCall(what, [rank, peer], f"{seen}; it is at {place}" if place else seen)
            break


@dataclass(frozen=True)
class UnmatchedCall:
    """A send or receive without the other side: of all ranks that are in one, or of one and its peer."""

    what: str
    ranks: list[int]
    seen: str


@dataclass(frozen=True)
class MatchedCall:
    """A send whose receive is also open, and no data arrives."""

    entry: RecorderEntry
    rank: int
    peer: int


def collect_calls(job: ObservedJob) -> list[UnmatchedCall | MatchedCall]:
    """Collect all sends and receives that do not end, those without the other side first."""
    return [*find_recorded_calls(job), *find_unmatched_stacks(job)]


def find_unmatched(
    job: ObservedJob, cause: HangCause, what: str, lacks: str
) -> Iterator[HangFinding]:
    """Yield a finding for each send, or receive, without the other side."""
    for one in job.get_once(collect_calls):
        if isinstance(one, UnmatchedCall) and one.what == what:
            yield _make_unmatched_finding(job, cause, one, lacks)


def _make_unmatched_finding(
    job: ObservedJob, cause: HangCause, call: UnmatchedCall, lacks: str
) -> HangFinding:
    who = call.ranks
    now, recorded = job.now, not find_p2p_call(job.now, who[-1])
    here = who[:1] if recorded else who
    place = now.place(here[0])
    name = now.named(here[0]) if len(here) == 1 else format_ranks(here)
    verb = "waits" if len(here) == 1 else "wait"
    at = f" at {place}" if place else ""
    partner = now.named(who[-1]) if recorded else "another rank"
    cause_text = f"{name} {verb} in {call.what}{at}, and {partner} {lacks}"
    return HangFinding(
        cause.code,
        cause_text,
        ranks=tuple(who),
        hosts=job.now.hosts(here),
        kind=call.what,
        place=place,
        waiting=tuple(here),
        seen=call.seen,
        expected=f"a {OTHER[call.what]} of the same pair, group and tag on the other side",
        fix="use the same pair, tag and order on both lines. If both ranks send first, let one of them receive first, "
        "or use batch_isend_irecv on both",
    )


def find_unmatched_ranks(job: ObservedJob) -> set[int]:
    """Return the ranks in a send or receive without the other side. Ranks that wait for them are not at fault."""
    calls = job.get_once(collect_calls)
    return {
        rank
        for one in calls
        if isinstance(one, UnmatchedCall)
        for rank in list_waiting_callers(job, one)
    }


def list_waiting_callers(job: ObservedJob, call: UnmatchedCall) -> list[int]:
    """Return the ranks in a send or receive, without its peer."""
    return call.ranks if find_p2p_call(job.now, call.ranks[-1]) else call.ranks[:1]
