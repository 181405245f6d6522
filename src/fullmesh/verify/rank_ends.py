"""Where the ranks of a test job ended, which of them ended first, and whoever only followed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fullmesh.observed.ranks import CollectedRanks, RankReport, RanksEnd
from fullmesh.result.types import RungId
from fullmesh.verify.model import ClusterObservations

STEPS: dict[str, RungId] = {
    "import": "L3",
    "store": "L3",
    "rendezvous": "L3",
    "init": "L4",
    "all_reduce": "L4",
    "broadcast": "L4",
    "all_gather": "L4",
    "reduce_scatter": "L4",
    "all_to_all": "L4",
    "barrier": "L4",
    "groups": "L4",
    "latency": "L5",
    "bandwidth": "L5",
    "sockets": "L5",
    "gpus": "L7",
    "nccl": "L7",
    "nccl_sizes": "L7",
    "nccl_tests": "L7",
    "ddp": "L8",
    "amp": "L8",
    "subgroups": "L8",
    "fsdp": "L8",
    "gpu_ddp": "L8",
    "gpu_amp": "L8",
    "gpu_subgroups": "L8",
    "gpu_fsdp": "L8",
}
# how much an end says, most first
WORTH = ("absent", "lost", "wrong", "died", "failed", "hung", "stopped")
CODED = re.compile(r"\[(?P<code>[A-Z]{2}-\d{3})\] (?P<text>.*)", re.DOTALL)
GOOD = ("ok", "unsupported")
ENDED = ("hung", "stopped")  # by a supervisor: at the deadline, or because another rank had failed
LOST_NODE = "VC-309"
TRACED = re.compile(r'^  File "([^"\n]{1,300})", line (\d{1,7})', re.MULTILINE)
FIRST_LINE = 300
LAST_LINE = 200
# What a rank says whose partner is gone; why that one went, the partner says.
LOST = re.compile(
    r"closed by peer|connection reset|broken pipe|socket closed|software caused connection abort",
    re.I,
)
TIMED_OUT = re.compile(r"timed out|timeout", re.I)
# Steps whose end is no moment that the ranks share.
APART = ("import", "store", "sockets", "gpus", "nccl_tests")
# Seconds by which a rank must have ended before another to be the first: the end of a collective is no sharper a moment
# on busy machines, and a supervisor looks that often.
FIRST_BY = 0.1


@dataclass(frozen=True)
class RankEnd:
    """Where a rank's climb ended."""

    rank: int
    node: str
    step: str  # "" when it got through
    state: str  # wrong, failed, died, hung, absent, lost, stopped
    text: str
    seen: str = ""
    expected: str = ""
    check: str = ""  # what was found wrong, for the steps of L7 and L8
    ranks: tuple[int, ...] = ()  # at fault, when it is not the rank that found it
    at: float | None = None  # seconds after the last moment that all ranks shared, where known
    spent: float = 0.0  # seconds in its last step; 0 for who was ended with a neighbour that died
    code: str = ""  # where the node itself knows why; *fix* likewise
    fix: str = ""


@dataclass(frozen=True)
class JobStopCause:
    """What stopped a job.

    Attributes:
        ranks: those that it is laid to, the one that ended first before the others.
        followed: whoever ended after them and says no more than that; by time, where that is known.
    """

    ranks: list[RankEnd]
    followed: list[RankEnd]


def list_steps(rungs: Sequence[str]) -> list[str]:
    """The steps that the asked rungs need; a rung needs the ones below it."""
    highest = max((rung for rung in rungs if rung in STEPS.values()), default="")
    return [step for step, rung in STEPS.items() if rung <= highest]


def iterate_ranks(seen: ClusterObservations) -> Iterator[tuple[str, int, RankReport, RanksEnd]]:
    """Every rank of the plan with what is known of it."""
    silent: RankReport = {"events": [], "log": ""}
    for name, node in seen.plan["nodes"].items():
        gloo = seen.nodes.get(name, {}).get("gloo")
        for rank in node["ranks"]:
            told = gloo["ranks"].get(str(rank), silent) if gloo else silent
            yield name, rank, told, gloo["ended"] if gloo else {}


def read_missing_answer(said: Mapping[str, object], ranks: Sequence[int]) -> CollectedRanks | None:
    """Read what Ansible has instead of a node's answer about its ranks: they are lost, or were stopped with others."""
    if not said.get("failed") and not said.get("unreachable"):
        return None
    text = str(said.get("msg", ""))
    found = CODED.match(text)
    ended: RanksEnd = {"error": found["text"] if found else text}
    if said.get("after_stop"):
        ended["stopped"] = list(ranks)
    elif said.get("unreachable") or not found or found["code"].startswith("AK"):
        ended["code"] = LOST_NODE
    else:
        ended["code"] = found["code"]
    return {"done": False, "started": True, "ended": ended, "ranks": {}, "doing": {}}


def get_last_rank_line(rank: RankReport) -> str:
    """The last line that a rank printed."""
    return find_last_line(rank["log"])


def find_last_line(log: str) -> str:
    """The last line of a log that is not empty."""
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1][:LAST_LINE] if lines else ""


def find_silent_rank_end(
    name: str, rank: int, told: RankReport, ended: RanksEnd, step: str
) -> RankEnd:
    """Find out why a rank never wrote a line."""
    error = str(ended.get("error", ""))
    if rank in ended.get("stopped", []):
        return RankEnd(rank, name, step, "stopped", error or "it had not begun")
    code: int | str = ended.get("codes", {}).get(str(rank), "unknown")
    silent = f"it never wrote a line (exit code {code}{describe_signal(code)})"
    state = "lost" if ended.get("code") == LOST_NODE else "absent"
    why = error or locate_exception(told["log"]) or get_last_rank_line(told) or silent
    own, fix = ended.get("code", ""), ended.get("fix", "")
    return RankEnd(rank, name, step, state, why, code=own, fix=fix)


def locate_exception(log: str) -> str:
    """The exception of a Python traceback with the file and line that raised it; "" if the log has none."""
    places = TRACED.findall(log)
    return f"{find_last_line(log)}, at {places[-1][0]}:{places[-1][1]}" if places else ""


def find_rank_end(
    name: str, rank: int, told: RankReport, ended: RanksEnd, wanted: Sequence[str]
) -> RankEnd:
    """Find out where one rank stopped."""
    # A rank has no rights and writes its own lines: a step that nobody asked for is none.
    events = [event for event in told["events"] if event["step"] in (*STEPS, "done")]
    if not events:
        return find_silent_rank_end(name, rank, told, ended, wanted[0])
    last = events[-1]
    if last["step"] == "done" or (last["step"] == wanted[-1] and last["state"] in GOOD):
        return RankEnd(rank, name, "", "ok", "")
    if last["state"] not in ("begin", *GOOD):
        text = str(last.get("text", "")).strip()[:FIRST_LINE]
        return RankEnd(
            rank,
            name,
            last["step"],
            last["state"],
            text,
            last.get("seen", ""),
            last.get("expected", ""),
            str(last.get("check", "")),
            tuple(last.get("ranks", ())),
        )
    if rank in ended.get("killed", []):
        return RankEnd(rank, name, last["step"], "hung", f"no end of step {last['step']}")
    if rank in ended.get("stopped", []):
        return RankEnd(rank, name, last["step"], "stopped", f"it was ended in step {last['step']}")
    code = ended.get("codes", {}).get(str(rank), "unknown")
    text = "; ".join(
        filter(None, (f"exit code {code}{describe_signal(code)}", get_last_rank_line(told)))
    )
    return RankEnd(rank, name, last["step"], "died", text)


def describe_signal(code: int | str) -> str:
    """Which signal ended a process, in brackets."""
    try:
        return f" ({signal.Signals(-int(code)).name})"
    except ValueError:
        return ""


def compute_step_ends(told: RankReport) -> dict[str, float]:
    """When a rank came to the end of each step, well or not, in seconds since it began."""
    begun: dict[str, float] = {}
    found: dict[str, float] = {}
    for event in told["events"]:
        if event["state"] == "begin":
            begun[event["step"]] = event.get("at", 0.0)
        elif event["step"] in begun:
            found[event["step"]] = begun[event["step"]] + event.get("seconds", 0.0)
    return found


def find_shared_step(seen: ClusterObservations) -> str:
    """The last step that all ranks ended well and together, which gives their clocks a common moment; "" for none."""
    done = [
        {event["step"] for event in told["events"] if event["state"] in GOOD}
        for _, _, told, _ in iterate_ranks(seen)
        if told["events"]
    ]
    common = set.intersection(*done) if done else set()
    return next((step for step in reversed(STEPS) if step in common and step not in APART), "")


def add_end_time(end: RankEnd, told: RankReport, ended: RanksEnd, shared: str) -> RankEnd:
    """The same end with its moment, where that is known: who was killed by a supervisor has none of its own."""
    times = compute_step_ends(told)
    if end.state in ENDED and not any(ended.get("codes", {}).values()):
        begun = next((e.get("at", 0.0) for e in told["events"] if e["step"] == end.step), 0.0)
        return replace(end, spent=max(0.0, ended.get("seconds", 0.0) - begun))
    if end.state == "failed":
        end = replace(end, spent=told["events"][-1].get("seconds", 0.0))
    last = ended.get("at", {}).get(str(end.rank)) if end.state == "died" else times.get(end.step)
    if last is None or shared not in times or end.state in ("ok", "absent", "lost", *ENDED):
        return end
    return replace(end, at=round(last - times[shared], 3))


def find_rank_ends(seen: ClusterObservations) -> list[RankEnd]:
    """Where every rank stopped."""
    wanted = list_steps(seen.rungs)
    shared = find_shared_step(seen)
    return [
        add_end_time(find_rank_end(*found, wanted), found[2], found[3], shared)
        for found in iterate_ranks(seen)
    ]


def find_first_broken(found: Sequence[RankEnd]) -> list[RankEnd]:
    """The ranks that stopped first on the ladder; whoever stopped later was waiting for them.

    At one step a wrong value says more than a death, and that more than a failure: whoever lost its partner fails
    too. A rank that failed by itself says more than one that hung.
    """
    order = list(STEPS)
    broken = [end for end in found if end.step and end.state != "stopped"]
    broken = broken or [end for end in found if end.step]
    if not broken:
        return []
    rung = min(STEPS[end.step] for end in broken)
    lowest = min(order.index(end.step) for end in broken if STEPS[end.step] == rung)
    at_step = [end for end in broken if order.index(end.step) == lowest]
    most = min(WORTH.index(end.state) for end in at_step)
    return [end for end in at_step if WORTH.index(end.state) == most]


def classify_rank_end(end: RankEnd) -> str:
    """What ranks that stopped alike have in common, whichever peer and port their words name."""
    if end.state == "failed" and TIMED_OUT.search(end.text):
        return "timeout"
    return "lost" if end.state == "failed" and LOST.search(end.text) else end.text


def has_own_error(end: RankEnd) -> bool:
    """The rank's own error, not only that it waited for another one or lost it."""
    return classify_rank_end(end) not in ("timeout", "lost")


def group_first_broken(found: Sequence[RankEnd]) -> list[list[RankEnd]]:
    """The ranks that stopped first on the ladder, put together by what stopped them."""
    groups: dict[tuple[str, str, str], list[RankEnd]] = {}
    for end in find_first_broken(found):
        groups.setdefault((end.step, end.state, classify_rank_end(end)), []).append(end)
    return list(groups.values())


def select_telling_groups(found: Sequence[RankEnd]) -> list[list[RankEnd]]:
    """The groups that say most.

    Whoever only lost its partner follows from what stopped that one, be it a step further on; whoever only waited, from
    another rank's own error.
    """
    groups = group_first_broken(found)
    if groups and all(classify_rank_end(group[0]) == "lost" for group in groups):
        groups = (
            group_first_broken(
                [end for end in found if end.state not in ENDED and has_own_error(end)]
            )
            or groups
        )
    waited = [group for group in groups if classify_rank_end(group[0]) != "lost"] or groups
    return (
        [group for group in waited if has_own_error(group[0])]
        or find_hung_ranks(found, waited)
        or waited
    )


def find_hung_ranks(
    found: Sequence[RankEnd], waited: Sequence[Sequence[RankEnd]]
) -> list[list[RankEnd]]:
    """Whoever stood in the step for longer than the others waited in it: it is who they waited for.

    Gloo's waits end by themselves, all after the same time. For ``init`` that is another one (a connection's).
    """
    failed = [end for group in waited for end in group if end.state == "failed"]
    if not failed or failed[0].step == "init":
        return []
    longest = max(end.spent for end in failed)
    stood = [
        replace(end, state="hung")
        for end in found
        if end.state in ENDED and end.step == failed[0].step and end.spent > longest + FIRST_BY
    ]
    return [stood] if stood else []


def sort_by_end_time(found: Sequence[RankEnd]) -> list[RankEnd]:
    """By the moment of their ends; who has none comes last."""
    return sorted(found, key=lambda end: float("inf") if end.at is None else end.at)


def find_job_causes(found: Sequence[RankEnd]) -> list[JobStopCause]:
    """What stopped the job: one cause, where the ranks' errors and their moments allow to say so.

    Ranks that died or raised at one step with words of their own are one cause, that of the first: a rank that is gone
    makes the others fail in many ways. Wrong values and ranks that never started have nothing to do with each other.
    """
    groups = [sort_by_end_time(group) for group in select_telling_groups(found)]
    if len(groups) > 1 and all(
        g[0].state in ("died", "failed") and g[0].at is not None for g in groups
    ):
        groups = [min(groups, key=lambda group: group[0].at or 0.0)]
    if len(groups) != 1:
        return [JobStopCause(group, []) for group in groups]
    (only,) = groups
    return [
        JobStopCause(only, sort_by_end_time([end for end in found if end.step and end not in only]))
    ]


def compute_lead_time(ends_: Sequence[RankEnd]) -> float:
    """By how much the first of ranks in order ended before the next; 0 where that says nothing."""
    moments = [end.at for end in ends_ if end.at is not None]
    if len(moments) < 2 or ends_[0].at is None:  # noqa: PLR2004 (a pair)
        return 0.0
    gap = moments[1] - moments[0]
    return gap if gap >= FIRST_BY else 0.0
