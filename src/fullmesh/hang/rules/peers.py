"""Two ranks, or some: sends without receives, groups that not all make, calls for a group by one that is not in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fullmesh.hang.places import ActivityKind, find_user_location
from fullmesh.hang.rules.common import NO_MEMBER, find_call_location
from fullmesh.hang.types import (
    SECOND,
    HangFinding,
    JobSample,
    ObservedJob,
    format_ranks,
    has_record,
    strip_backend,
)
from fullmesh.observed.hang import RecorderEntry

# ``nccl:send 0->1``, ``nccl:recv 1<-0``: ranks within the group, the caller first.
PASSING = re.compile(r"^(?P<what>send|recv) (?P<own>\d+)(?:->|<-)(?P<peer>\d+)$")
OTHER = {"send": "recv", "recv": "send"}
CODE = {"send": "HG-141", "recv": "HG-142"}
SHOWN = 4


def find_p2p_call(sample: JobSample, rank: int) -> str:
    """``send`` or ``recv`` where a rank's main thread is in one, else ""."""
    doing = sample.doing(rank)
    if doing.kind is not ActivityKind.PASSING:
        return ""
    return "send" if "send" in doing.call else "recv"


def has_not_moved(job: ObservedJob, rank: int) -> bool:
    """Whether a rank's main thread was at the same place when it was looked at before."""
    before = job.before
    if before is None or rank not in before.ranks:
        return job.stalled <= 0
    return before.place(rank) == job.now.place(rank)


def rule_unmatched_stacks(job: ObservedJob) -> Iterator[HangFinding]:
    """Whoever sends is received from. Gloo's recorder keeps neither, so the main threads' stacks have to say it."""
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
        yield _make_unmatched_finding(
            job, what, here, "; ".join([f"no rank is in {OTHER[what]}", *places])
        )


def _has_p2p_record(now: JobSample, rank: int) -> bool:
    return any(entry["p2p"] for entry in now.ranks[rank]["entries"])


def find_open_p2p_calls(now: JobSample, rank: int) -> Iterator[tuple[RecorderEntry, str, int, int]]:
    """The sends and receives that a rank has not come out of: entry, which, itself and its peer in the job."""
    for entry in now.ranks[rank]["entries"]:
        found = PASSING.match(strip_backend(entry["kind"])) if entry["p2p"] else None
        members = now.members[entry["group"]] if found else ()
        if found is None or entry["retired"] or int(found["peer"]) >= len(members):
            continue
        yield entry, found["what"], rank, members[int(found["peer"])]


def rule_unmatched_records(job: ObservedJob) -> Iterator[HangFinding]:
    """Whoever sends is received from, as the recorder has it with NCCL."""
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
                    yield _make_stalled_finding(job, entry, rank, peer)
                continue
            place = now.place(peer)
            seen = f"rank {peer} has no {OTHER[what]} open with rank {rank}"
            yield _make_unmatched_finding(
                job, what, [rank, peer], f"{seen}; it is at {place}" if place else seen
            )
            break


def _make_stalled_finding(
    job: ObservedJob, entry: RecorderEntry, rank: int, peer: int
) -> HangFinding:
    """Both sides are there, and nothing comes."""
    now = job.now
    place = find_call_location(job, rank, entry)
    return HangFinding(
        "HG-161",
        f"{now.named(rank)} sends to {now.named(peer)}{' at ' + place if place else ''}, which receives, and neither"
        " comes out: what carries it stands",
        ranks=(rank, peer),
        hosts=tuple(dict.fromkeys((now.host(rank), now.host(peer)))),
        group=entry["group"],
        number=entry["number"],
        kind=entry["kind"],
        place=place,
        waiting=(rank, peer),
        seen=f"{strip_backend(entry['kind'])} is open on both",
        expected="it ends soon after both have come to it",
        fix="./fullmesh diagnose -i INVENTORY tests the links between these nodes beside the job",
    )


def _make_unmatched_finding(job: ObservedJob, what: str, who: list[int], seen: str) -> HangFinding:
    """A send or receive without the other: of all ranks that are in one, or of one and its peer where it is known."""
    now, recorded = job.now, not find_p2p_call(job.now, who[-1])
    here = who[:1] if recorded else who
    place = now.place(here[0])
    name = now.named(here[0]) if len(here) == 1 else format_ranks(here)
    verb = "waits" if len(here) == 1 else "wait"
    at = f" at {place}" if place else ""
    partner = now.named(who[-1]) if recorded else "another rank"
    if what == "send":
        cause = f"{name} {verb} in send{at}, and {partner} does not receive"
    else:
        cause = f"{name} {verb} in recv{at}, and {partner} does not send"
    return HangFinding(
        CODE[what],
        cause,
        ranks=tuple(who),
        hosts=tuple(dict.fromkeys(now.host(rank) for rank in here)),
        kind=what,
        place=place,
        waiting=tuple(here),
        seen=seen,
        expected=f"a {OTHER[what]} of the same pair, group and tag on the other side",
        fix="look at both lines: who should be the other side, and in which order? Two ranks that both send first "
        "wait for each other: one of them receives first, or both use batch_isend_irecv",
    )


def find_unmatched_ranks(job: ObservedJob) -> set[int]:
    """The ranks that wait in a send or receive that nobody answers: those who wait for them wait for that."""
    found = (*rule_unmatched_stacks(job), *rule_unmatched_records(job))
    return {rank for one in found if one.code in CODE.values() for rank in one.waiting}


def rule_group_member(job: ObservedJob) -> Iterator[HangFinding]:
    """A group's collectives are called by its own ranks, and name its own ranks."""
    together: dict[str, list[int]] = {}
    for rank, one in sorted(job.now.ranks.items()):
        if one["raised"] and NO_MEMBER.search(one["raised"]["text"]):
            together.setdefault(find_user_location(one["raised"]["frames"]), []).append(rank)
    for place, here in together.items():
        raised = job.now.ranks[here[0]]["raised"]
        text = raised["text"].splitlines()[0] if raised else ""
        behind = sorted({wait.rank for rank in here for wait in job.lacking.get(rank, [])})
        others = (
            f", while {format_ranks(behind)} wait{'' if len(behind) > 1 else 's'}" if behind else ""
        )
        at = f" at {place}" if place else ""
        yield HangFinding(
            "HG-143",
            f"{format_ranks(here)} used a process group with a rank that is not in it{at}{others}: {text}",
            ranks=tuple(here),
            hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in here)),
            place=place,
            waiting=tuple(behind),
            seen=text,
            expected="torch.distributed.get_rank(group) is not -1 for the caller, and src and dst are ranks of the "
            "job that are in the group",
            fix="`if rank in torch.distributed.get_process_group_ranks(group):` around what the group does; src and "
            "dst are numbers in the job, group_src and group_dst in the group",
        )


def rule_new_group(job: ObservedJob) -> Iterator[HangFinding]:
    """All ranks make all groups, in one order."""
    now = job.now
    here = [
        r for r in now.asked if now.doing(r).kind is ActivityKind.GROUP and has_not_moved(job, r)
    ]
    elsewhere = [r for r in now.asked if r not in here]
    if not here or not elsewhere:
        return
    first = elsewhere[0]
    place = now.place(first)
    at = f" at {place}" if place else ""
    yield HangFinding(
        "HG-144",
        f"{format_ranks(here)} make{'' if len(here) > 1 else 's'} a process group at {now.place(here[0])}, and"
        f" {format_ranks(elsewhere)} {'are' if len(elsewhere) > 1 else 'is'} somewhere else{at}",
        ranks=tuple(elsewhere),
        hosts=tuple(dict.fromkeys(now.host(rank) for rank in elsewhere)),
        place=place,
        waiting=tuple(here),
        seen=f"rank {first}: {now.doing(first).seen}",
        expected="every rank of the job calls new_group for every group, in one order",
        fix="take new_group out from below `if rank ...`: all ranks call it, also those that will not be in the group",
    )


RULES = (rule_group_member, rule_new_group, rule_unmatched_records, rule_unmatched_stacks)
