"""A rank's program has ended, well, with an exception or by a signal, and others wait for it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

from fullmesh.hang.places import Kind, place_in
from fullmesh.hang.rules.common import NO_MEMBER, PEER_GONE
from fullmesh.hang.types import Finding, Job, collective, ranks
from fullmesh.observed.hang import Raised

SHOWN = 120  # characters of an exception in a sentence
HINTS = {
    -signal.SIGABRT: "; Gloo aborts a rank that gets more than it expects (`Received data size doesn't match expected "
    "size`): then sizes or types differ",
    -signal.SIGKILL: "; SIGKILL is what the kernel sends when memory is short, and a launcher after its patience",
}


def echo(raised: Raised | None) -> bool:
    """Whether an exception only says that another rank has gone."""
    return bool(raised and PEER_GONE.search(raised["text"]))


def left(job: Job, rank: int) -> list[int]:
    """The ranks that wait for one that has ended, or broke when it did."""
    waiting = {wait.rank for wait in job.lacking.get(rank, [])}
    broke = {other for other, one in job.now.ranks.items() if echo(one["raised"])}
    return sorted((waiting | broke) - {rank})


def _after(job: Job, rank: int) -> str:
    """The last thing that a rank entered, in words."""
    entries = job.now.ranks[rank]["entries"]
    return f"{collective(entries[-1])} was its last" if entries else "its last words are not known"


def _waits(job: Job, behind: list[int], rank: int) -> str:
    waits = job.lacking.get(rank, [])
    if not waits:
        return f"{ranks(behind)} lost the connection to it"
    verb = "wait" if len({wait.rank for wait in waits}) > 1 else "waits"
    return f"{ranks([wait.rank for wait in waits])} {verb} in {collective(waits[0].entry)}"


def rule_left(job: Job) -> Iterator[Finding]:
    """A rank leaves when all of them do."""
    for rank, one in sorted(job.now.ranks.items()):
        behind = left(job, rank)
        done = one["process"] == "gone" and one["exit_code"] == 0
        ended = done or job.now.doing(rank).kind is Kind.ENDED
        if not ended or one["raised"] or not behind:
            continue
        found = Finding(
            "HG-131",
            f"{job.now.named(rank)} has come to the end of its program, while {_waits(job, behind, rank)}",
            seen="exit code 0" if done else job.now.doing(rank).seen,
            expected="all ranks make the same number of steps",
            fix="ranks have data for different numbers of steps: DistributedSampler(drop_last=True), `with "
            "torch.distributed.algorithms.join.Join([model]):`, or stop all ranks after the fewest steps",
        )
        yield _about(job, rank, behind, found)


def rule_broke(job: Job) -> Iterator[Finding]:
    """No rank's process ends by a signal or with an error that is its own."""
    for rank, one in sorted(job.now.ranks.items()):
        behind, code = left(job, rank), one["exit_code"]
        if one["process"] != "gone" or code == 0 or one["raised"] or not behind:
            continue
        how, seen = _end(code)
        found = Finding(
            "HG-132",
            f"{job.now.named(rank)} {how}, while {_waits(job, behind, rank)}",
            seen=seen,
            expected="a process that lives as long as the others",
            fix="the rank's own output; on its node: journalctl -k (out of memory?), coredumpctl"
            + HINTS.get(code or 0, ""),
        )
        yield _about(job, rank, behind, found)


def _end(code: int | None) -> tuple[str, str]:
    """How a process ended: what it did, and what says so."""
    if code is None:
        return "has gone", "no process, and nobody knows how it ended"
    if code < 0:
        return f"was ended by {_signal(-code)}", f"exit code {code}"
    return f"has ended with exit code {code}", f"exit code {code}"


def rule_raised(job: Job) -> Iterator[Finding]:
    """An exception on one rank ends all of them."""
    for rank, one in sorted(job.now.ranks.items()):
        raised = one["raised"]
        if not raised or echo(raised) or NO_MEMBER.search(raised["text"]):
            continue
        behind, place = left(job, rank), place_in(raised["frames"])
        still = " and its process is still there" if one["process"] == "running" else ""
        others = f", while {_waits(job, behind, rank)}" if behind else ""
        at = f" at {place}" if place else ""
        found = Finding(
            "HG-133",
            f"{job.now.named(rank)} raised {_short(raised['text'])}{at}{still}{others}",
            place=place,
            seen=_first(raised["text"]),
            expected="an exception ends the job",
            fix="mend what raised; torchrun ends the other ranks when one fails, where no thread that is not a "
            "daemon keeps the process alive",
        )
        yield _about(job, rank, behind, found)


def rule_lost(job: Job) -> Iterator[Finding]:
    """Where a rank lost a connection, somebody has ended, or a link has."""
    for rank, one in sorted(job.now.ranks.items()):
        raised = one["raised"]
        if not raised or not echo(raised):
            continue
        place = place_in(raised["frames"])
        at = f" at {place}" if place else ""
        what = f" in {collective(one['entries'][-1])}" if one["entries"] else ""
        found = Finding(
            "HG-134",
            f"{job.now.named(rank)} lost the connection to another rank{what}{at}",
            place=place,
            seen=_first(raised["text"]),
            expected="connections that stay",
            fix="what the other rank says; where none has ended: ./fullmesh diagnose -i INVENTORY",
        )
        yield _about(job, rank, [], found)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _first(text: str) -> str:
    return text.splitlines()[0] if text else "an exception"


def _short(text: str) -> str:
    first = _first(text)
    return first if len(first) <= SHOWN else f"{first[: SHOWN - 3]}..."


def _about(job: Job, rank: int, behind: list[int], finding: Finding) -> Finding:
    """A finding about one rank, with what waits for it."""
    waits = job.lacking.get(rank, [])
    entry = waits[0].entry if waits else None
    return replace(
        finding,
        ranks=(rank,),
        hosts=(job.now.host(rank),),
        group=entry["group"] if entry else "",
        number=entry["number"] if entry else 0,
        kind=entry["kind"] if entry else "",
        waiting=tuple(behind),
        seen=f"{finding.seen}; {_after(job, rank)}",
    )


RULES = (rule_raised, rule_broke, rule_left, rule_lost)
