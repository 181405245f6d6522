"""A rank's program has ended, well, with an exception or by a signal, and others wait for it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from fullmesh.hang.places import ActivityKind, find_user_location
from fullmesh.hang.rules.common import NO_MEMBER, PEER_GONE
from fullmesh.hang.types import HangFinding, ObservedJob, format_collective, format_ranks
from fullmesh.observed.hang import Rank, UncaughtException

SHOWN = 120  # characters of an exception in a sentence
HINTS = {
    -signal.SIGABRT: "; Gloo aborts a rank that gets more than it expects (`Received data size doesn't match expected "
    "size`): then sizes or types differ",
    -signal.SIGTERM: "; SIGTERM is what a launcher sends to the other ranks when one has failed, and a scheduler when "
    "time is up: look for the rank that ended first",
    -signal.SIGKILL: "; SIGKILL is what the kernel sends when memory is short, and a launcher after its patience",
}


def is_peer_gone_error(raised: UncaughtException | None) -> bool:
    """Whether an exception only says that another rank has gone."""
    return bool(raised and PEER_GONE.search(raised["text"]))


def find_affected_ranks(job: ObservedJob, here: Sequence[int]) -> list[int]:
    """The ranks that wait for some that have ended, or broke when they did."""
    waiting = {wait.rank for rank in here for wait in job.lacking.get(rank, [])}
    broke = {other for other, one in job.now.ranks.items() if is_peer_gone_error(one["raised"])}
    return sorted((waiting | broke) - set(here))


def group_alike_ranks(
    job: ObservedJob, alike: Callable[[Rank], Hashable]
) -> list[tuple[Rank, list[int]]]:
    """Ranks by what is said of them, those of which None is left out: the first's words, and all of them."""
    found: dict[Hashable, list[int]] = {}
    for rank, one in sorted(job.now.ranks.items()):
        if (what := alike(one)) is not None:
            found.setdefault(what, []).append(rank)
    return [(job.now.ranks[here[0]], here) for here in found.values()]


def format_named_ranks(job: ObservedJob, here: Sequence[int]) -> str:
    """These ranks at the beginning of a sentence."""
    return job.now.named(here[0]) if len(here) == 1 else format_ranks(here)


def _describe_last_collective(job: ObservedJob, rank: int) -> str:
    """The last thing that a rank entered, in words."""
    entries = job.now.ranks[rank]["entries"]
    return (
        f"{format_collective(entries[-1])} was its last"
        if entries
        else "its last words are not known"
    )


def _describe_waiting(job: ObservedJob, here: Sequence[int]) -> str:
    """What the others do without these."""
    waits = [wait for rank in here for wait in job.lacking.get(rank, [])]
    if not waits:
        return f"{format_ranks(find_affected_ranks(job, here))} lost the connection"
    behind = sorted({wait.rank for wait in waits})
    verb = "wait" if len(behind) > 1 else "waits"
    return f"{format_ranks(behind)} {verb} in {format_collective(waits[0].entry)}"


def rule_early_exit(job: ObservedJob) -> Iterator[HangFinding]:
    """A rank leaves when all of them do."""

    def how(one: Rank) -> Hashable:
        done = one["process"] == "gone" and one["exit_code"] == 0
        ended = done or job.now.doing(one["rank"]).kind is ActivityKind.ENDED
        return (done, len(one["entries"]) and one["entries"][-1]["number"]) if ended else None

    for one, here in group_alike_ranks(job, lambda one: None if one["raised"] else how(one)):
        if not find_affected_ranks(job, here):
            continue
        done = one["process"] == "gone"
        verb = "have" if len(here) > 1 else "has"
        found = HangFinding(
            "HG-131",
            f"{format_named_ranks(job, here)} {verb} come to the end of the program, while "
            f"{_describe_waiting(job, here)}",
            seen=_describe_clean_exit(one) if done else job.now.doing(here[0]).seen,
            expected="all ranks make the same number of steps",
            fix="ranks have data for different numbers of steps: DistributedSampler(drop_last=True), `with "
            "torch.distributed.algorithms.join.Join([model]):`, or stop all ranks after the fewest steps",
        )
        yield _complete_finding(job, here, found)


def _describe_clean_exit(one: Rank) -> str:
    """What says that a process ended well."""
    return "exit code 0" + "".join(f", since {lost['why']}" for lost in one["missing"][:1])


def rule_failed_process(job: ObservedJob) -> Iterator[HangFinding]:
    """No rank's process ends by a signal or with an error that is its own."""

    def how(one: Rank) -> Hashable:
        broke = one["process"] == "gone" and one["exit_code"] != 0 and not one["raised"]
        return (one["exit_code"], *list_oom_messages(one)) if broke else None

    for one, here in group_alike_ranks(job, how):
        if not find_affected_ranks(job, here):
            continue
        words, seen = _describe_exit(one)
        verb = "have" if len(here) > 1 else "has"
        found = HangFinding(
            "HG-135" if one["exit_code"] == -signal.SIGTERM else "HG-132",
            f"{format_named_ranks(job, here)} {verb} {words}, while {_describe_waiting(job, here)}",
            seen=seen,
            expected="a process that lives as long as the others",
            fix="the rank's own output; on its node: journalctl -k (out of memory?), coredumpctl"
            + HINTS.get(one["exit_code"] or 0, ""),
        )
        yield _complete_finding(job, here, found)


def list_oom_messages(one: Rank) -> list[str]:
    """The kernel's own words where it ended a process for memory."""
    return [line["text"] for line in one.get("kernel", []) if line["kind"] == "oom"]


def _describe_exit(one: Rank) -> tuple[str, str]:
    """How a process ended: what it did, and what says so."""
    code, words = one["exit_code"], list_oom_messages(one)
    if words:
        return "been killed by the kernel, which had no memory left for it", words[-1]
    if code is None:
        return "gone", "no process, and nobody knows how it ended"
    if code < 0:
        return f"been ended by {_name_signal(-code)}", f"exit code {code}"
    return f"ended with exit code {code}", f"exit code {code}"


def rule_raised_exception(job: ObservedJob) -> Iterator[HangFinding]:
    """An exception on one rank ends all of them."""

    def how(one: Rank) -> Hashable:
        raised = one["raised"]
        if not raised or is_peer_gone_error(raised) or NO_MEMBER.search(raised["text"]):
            return None
        return one["process"], _get_first_line(raised["text"]), find_user_location(raised["frames"])

    for one, here in group_alike_ranks(job, how):
        place, text = _summarize_exception(one)
        still = " and " + ("their processes are" if len(here) > 1 else "its process is")
        still = f"{still} still there" if one["process"] == "running" else ""
        others = f", while {_describe_waiting(job, here)}" if find_affected_ranks(job, here) else ""
        at = f" at {place}" if place else ""
        found = HangFinding(
            "HG-133",
            f"{format_named_ranks(job, here)} raised {_shorten_exception(text)}{at}{still}{others}",
            place=place,
            seen=text,
            expected="an exception ends the job",
            fix="fix what raised; torchrun ends the other ranks when one fails, where no thread that is not a "
            "daemon keeps the process alive",
        )
        yield _complete_finding(job, here, found)


def rule_lost_connection(job: ObservedJob) -> Iterator[HangFinding]:
    """Where a rank lost a connection, somebody has ended, or a link has."""
    for one, here in group_alike_ranks(
        job, lambda one: _summarize_exception(one)[0] if is_peer_gone_error(one["raised"]) else None
    ):
        place, text = _summarize_exception(one)
        at = f" at {place}" if place else ""
        what = f" in {format_collective(one['entries'][-1])}" if one["entries"] else ""
        found = HangFinding(
            "HG-134",
            f"{format_named_ranks(job, here)} lost the connection to another rank{what}{at}",
            place=place,
            seen=text,
            expected="connections that stay",
            fix="what the other ranks say; where none has ended: ./fullmesh diagnose -i INVENTORY",
        )
        yield replace(_complete_finding(job, here, found), waiting=())


def _summarize_exception(one: Rank) -> tuple[str, str]:
    """Where a rank raised, and what it said in its first line."""
    raised = one["raised"]
    return (
        (find_user_location(raised["frames"]), _get_first_line(raised["text"]))
        if raised
        else ("", "")
    )


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _get_first_line(text: str) -> str:
    return text.splitlines()[0] if text else "an exception"


def _shorten_exception(text: str) -> str:
    first = _get_first_line(text)
    return first if len(first) <= SHOWN else f"{first[: SHOWN - 3]}..."


def _complete_finding(job: ObservedJob, here: Sequence[int], finding: HangFinding) -> HangFinding:
    """A finding about ranks that ended alike, with what waits for them."""
    waits = [wait for rank in here for wait in job.lacking.get(rank, [])]
    entry = waits[0].entry if waits else None
    return replace(
        finding,
        ranks=tuple(here),
        hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in here)),
        group=entry["group"] if entry else "",
        number=entry["number"] if entry else 0,
        kind=entry["kind"] if entry else "",
        waiting=tuple(find_affected_ranks(job, here)),
        seen=f"{finding.seen}; {_describe_last_collective(job, here[0])}",
    )


RULES = (rule_raised_exception, rule_failed_process, rule_early_exit, rule_lost_connection)
