"""Ranks whose programs have ended, and the ranks that wait for them."""

from __future__ import annotations

import signal
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from fullmesh.causes.hang.common import PEER_GONE
from fullmesh.causes.hang.job import (
    HangCause,
    HangFinding,
    ObservedJob,
    format_collective,
    format_ranks,
)
from fullmesh.causes.hang.places import find_user_location
from fullmesh.observed.hang import Rank, UncaughtException

SHOWN = 120  # characters of an exception in a sentence


def is_peer_gone_error(raised: UncaughtException | None) -> bool:
    """Return whether an exception only says that another rank has gone."""
    return bool(raised and PEER_GONE.search(raised["text"]))


def find_affected_ranks(job: ObservedJob, here: Sequence[int]) -> list[int]:
    """Find the ranks that wait for ended ranks, or failed because of them."""
    waiting = {wait.rank for rank in here for wait in job.lacking.get(rank, [])}
    broke = {other for other, one in job.now.ranks.items() if is_peer_gone_error(one["raised"])}
    return sorted((waiting | broke) - set(here))


def group_alike_ranks(
    job: ObservedJob, alike: Callable[[Rank], Hashable]
) -> list[tuple[Rank, list[int]]]:
    """Group ranks that *alike* maps to the same value other than None: the first rank, and all numbers."""
    found: dict[Hashable, list[int]] = {}
    for rank, one in sorted(job.now.ranks.items()):
        if (what := alike(one)) is not None:
            found.setdefault(what, []).append(rank)
    return [(job.now.ranks[here[0]], here) for here in found.values()]


def format_named_ranks(job: ObservedJob, here: Sequence[int]) -> str:
    """Format these ranks for the start of a sentence."""
    return job.now.named(here[0]) if len(here) == 1 else format_ranks(here)


def _describe_last_collective(job: ObservedJob, rank: int) -> str:
    """Describe the last collective that a rank entered."""
    entries = job.now.ranks[rank]["entries"]
    return (
        f"{format_collective(entries[-1])} was its last"
        if entries
        else "its last collective is not known"
    )


def describe_waiting(job: ObservedJob, here: Sequence[int]) -> str:
    """Describe the state of the ranks that wait for these."""
    waits = [wait for rank in here for wait in job.lacking.get(rank, [])]
    if not waits:
        return f"{format_ranks(find_affected_ranks(job, here))} lost the connection"
    behind = sorted({wait.rank for wait in waits})
    verb = "wait" if len(behind) > 1 else "waits"
    return f"{format_ranks(behind)} {verb} in {format_collective(waits[0].entry)}"


def summarize_exception(one: Rank) -> tuple[str, str]:
    """Return the line at which a rank raised, and the first line of its message."""
    raised = one["raised"]
    return (
        (find_user_location(raised["frames"]), get_first_line(raised["text"]))
        if raised
        else ("", "")
    )


def get_first_line(text: str) -> str:
    return text.splitlines()[0] if text else "an exception"


def shorten_exception(text: str) -> str:
    first = get_first_line(text)
    return first if len(first) <= SHOWN else f"{first[: SHOWN - 3]}..."


HINTS = {
    -signal.SIGABRT: ". If Gloo says `Received data size doesn't match expected size`, ranks gave different sizes or "
    "types",
    -signal.SIGTERM: ". A launcher sends SIGTERM to the other ranks when one has failed, and a scheduler at the time "
    "limit: find the rank that ended first",
    -signal.SIGKILL: ". The kernel sends SIGKILL when memory runs out, and a launcher after its grace period",
}


def find_failed_processes(
    job: ObservedJob, cause: HangCause, is_meant: Callable[[int | None], bool]
) -> Iterator[HangFinding]:
    """Yield a finding for the processes that ended by a signal or an error, if their exit codes are meant."""

    def how(one: Rank) -> Hashable:
        broke = (
            one["process"] == "gone"
            and one["exit_code"] != 0
            and not one["raised"]
            and is_meant(one["exit_code"])
        )
        return (one["exit_code"], *list_oom_messages(one)) if broke else None

    for one, here in group_alike_ranks(job, how):
        if not find_affected_ranks(job, here):
            continue
        words, seen = _describe_exit(one)
        verb = "have" if len(here) > 1 else "has"
        found = HangFinding(
            cause.code,
            f"{format_named_ranks(job, here)} {verb} {words}, while {describe_waiting(job, here)}",
            seen=seen,
            expected="a process that lives as long as the others",
            check="read the rank's own output, and on its node journalctl -k (out of memory?) and coredumpctl"
            + HINTS.get(one["exit_code"] or 0, ""),
            fix="correct the error in the rank's output, or reduce the memory that each rank uses",
        )
        yield complete_finding(job, here, found)


def list_oom_messages(one: Rank) -> list[str]:
    """Return the kernel's messages if it killed a process because memory ran out."""
    return [line["text"] for line in one.get("kernel", []) if line["kind"] == "oom"]


def _describe_exit(one: Rank) -> tuple[str, str]:
    """Describe how a process ended, and the evidence."""
    code, words = one["exit_code"], list_oom_messages(one)
    if words:
        return "been killed by the kernel because memory ran out", words[-1]
    if code is None:
        return "gone", "no process, and no exit code is known"
    if code < 0:
        return f"been ended by {_name_signal(-code)}", f"exit code {code}"
    return f"ended with exit code {code}", f"exit code {code}"


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def complete_finding(job: ObservedJob, here: Sequence[int], finding: HangFinding) -> HangFinding:
    """Add the waiting ranks to a finding about ranks that ended in the same way."""
    waits = [wait for rank in here for wait in job.lacking.get(rank, [])]
    entry = waits[0].entry if waits else None
    return replace(
        finding,
        ranks=tuple(here),
        hosts=job.now.hosts(here),
        group=entry["group"] if entry else "",
        number=entry["number"] if entry else 0,
        kind=entry["kind"] if entry else "",
        waiting=tuple(find_affected_ranks(job, here)),
        seen=f"{finding.seen}; {_describe_last_collective(job, here[0])}",
    )
