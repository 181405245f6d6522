"""Find the step in which each rank of a test job stopped, which of them stopped first, and which only followed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fullmesh.observed.ranks import CollectedRanks, RankReport, RanksEnd
from fullmesh.result.types import CheckId
from fullmesh.verify.model import ClusterObservations

STEPS: dict[str, CheckId] = {
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
# ends of a rank, the most informative first
WORTH = ("absent", "lost", "wrong", "died", "failed", "hung", "stopped")
CODED = re.compile(r"\[(?P<code>[A-Z]{2}-\d{3})\] (?P<text>.*)", re.DOTALL)
GOOD = ("ok", "unsupported")
ENDED = ("hung", "stopped")  # by a supervisor: at the deadline, or because another rank had failed
LOST_NODE = "VC-309"
TRACED = re.compile(r'^  File "([^"\n]{1,300})", line (\d{1,7})', re.MULTILINE)
FIRST_LINE = 300
LAST_LINE = 200
# The error of a rank whose partner is gone. The partner's own error has the cause.
LOST = re.compile(
    r"closed by peer|connection reset|broken pipe|socket closed|software caused connection abort",
    re.I,
)
TIMED_OUT = re.compile(r"timed out|timeout", re.I)
# Steps that the ranks do not end together.
APART = ("import", "store", "sockets", "gpus", "nccl_tests")
# A rank must end this many seconds before another to count as first: collectives do not end more precisely on busy
# machines, and a supervisor polls at this interval.
FIRST_BY = 0.1


@dataclass(frozen=True)
class RankEnd:
    """The end of a rank."""

    rank: int
    node: str
    step: str  # "" if it completed
    state: str  # wrong, failed, died, hung, absent, lost, stopped
    text: str
    seen: str = ""
    expected: str = ""
    check: str = ""  # the failed check inside the steps of L7 and L8
    ranks: tuple[int, ...] = ()  # the ranks at fault, if not the rank that found it
    at: float | None = None  # seconds after the last moment that all ranks shared, if known
    spent: float = 0.0  # seconds in its last step. 0 if it was ended because a neighbor died.
    code: str = ""  # if the node itself knows the cause. *fix* likewise.
    fix: str = ""


@dataclass(frozen=True)
class JobStopCause:
    """The cause that stopped a job.

    Attributes:
        ranks: the ranks with the cause, the first one to end comes first.
        followed: ranks that ended later for no other reason, by time if it is known.
    """

    ranks: list[RankEnd]
    followed: list[RankEnd]


def list_steps(checks: Sequence[str]) -> list[str]:
    """List the steps for the selected checks. A check needs the ones below it."""
    highest = max((check for check in checks if check in STEPS.values()), default="")
    return [step for step, check in STEPS.items() if check <= highest]


def iterate_ranks(seen: ClusterObservations) -> Iterator[tuple[str, int, RankReport, RanksEnd]]:
    """Yield every rank of the plan with its report."""
    silent: RankReport = {"events": [], "log": ""}
    for name, node in seen.plan["nodes"].items():
        gloo = seen.nodes.get(name, {}).get("gloo")
        for rank in node["ranks"]:
            report = gloo["ranks"].get(str(rank), silent) if gloo else silent
            yield name, rank, report, gloo["ended"] if gloo else {}


def read_missing_answer(said: Mapping[str, object], ranks: Sequence[int]) -> CollectedRanks | None:
    """Read Ansible's error for a node without an answer: its ranks are lost, or were stopped with the others."""
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
    """Return the last line that a rank printed."""
    return find_last_line(rank["log"])


def find_last_line(log: str) -> str:
    """Return the last non-empty line of a log."""
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1][:LAST_LINE] if lines else ""


def find_silent_rank_end(
    name: str, rank: int, report: RankReport, ended: RanksEnd, step: str
) -> RankEnd:
    """Find out why a rank never wrote a line."""
    error = str(ended.get("error", ""))
    if rank in ended.get("stopped", []):
        return RankEnd(rank, name, step, "stopped", error or "it had not begun")
    code: int | str = ended.get("codes", {}).get(str(rank), "unknown")
    silent = f"it never wrote a line (exit code {code}{describe_signal(code)})"
    state = "lost" if ended.get("code") == LOST_NODE else "absent"
    why = error or locate_exception(report["log"]) or get_last_rank_line(report) or silent
    own, fix = ended.get("code", ""), ended.get("fix", "")
    return RankEnd(rank, name, step, state, why, code=own, fix=fix)


def locate_exception(log: str) -> str:
    """Return the exception of a Python traceback, with its file and line, or ""."""
    places = TRACED.findall(log)
    return f"{find_last_line(log)}, at {places[-1][0]}:{places[-1][1]}" if places else ""


def find_rank_end(
    name: str, rank: int, report: RankReport, ended: RanksEnd, wanted: Sequence[str]
) -> RankEnd:
    """Find the step in which one rank stopped."""
    # A rank is unprivileged and writes its own lines, so unknown steps do not count.
    events = [event for event in report["events"] if event["step"] in (*STEPS, "done")]
    if not events:
        return find_silent_rank_end(name, rank, report, ended, wanted[0])
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
        filter(None, (f"exit code {code}{describe_signal(code)}", get_last_rank_line(report)))
    )
    return RankEnd(rank, name, last["step"], "died", text)


def describe_signal(code: int | str) -> str:
    """Name the signal that ended a process, in brackets."""
    try:
        return f" ({signal.Signals(-int(code)).name})"
    except ValueError:
        return ""


def compute_step_ends(report: RankReport) -> dict[str, float]:
    """Return when a rank ended each step, successfully or not, in seconds since its start."""
    begun: dict[str, float] = {}
    found: dict[str, float] = {}
    for event in report["events"]:
        if event["state"] == "begin":
            begun[event["step"]] = event.get("at", 0.0)
        elif event["step"] in begun:
            found[event["step"]] = begun[event["step"]] + event.get("seconds", 0.0)
    return found


def find_shared_step(seen: ClusterObservations) -> str:
    """Return the last step that all ranks completed together, or "". It gives their clocks a common moment."""
    done = [
        {event["step"] for event in report["events"] if event["state"] in GOOD}
        for _, _, report, _ in iterate_ranks(seen)
        if report["events"]
    ]
    common = set.intersection(*done) if done else set()
    return next((step for step in reversed(STEPS) if step in common and step not in APART), "")


def add_end_time(end: RankEnd, report: RankReport, ended: RanksEnd, shared: str) -> RankEnd:
    """Add the time of an end, if known. A rank that a supervisor killed has no time of its own."""
    times = compute_step_ends(report)
    if end.state in ENDED and not any(ended.get("codes", {}).values()):
        begun = next((e.get("at", 0.0) for e in report["events"] if e["step"] == end.step), 0.0)
        return replace(end, spent=max(0.0, ended.get("seconds", 0.0) - begun))
    if end.state == "failed":
        end = replace(end, spent=report["events"][-1].get("seconds", 0.0))
    last = ended.get("at", {}).get(str(end.rank)) if end.state == "died" else times.get(end.step)
    if last is None or shared not in times or end.state in ("ok", "absent", "lost", *ENDED):
        return end
    return replace(end, at=round(last - times[shared], 3))


def find_rank_ends(seen: ClusterObservations) -> list[RankEnd]:
    """Find the step in which every rank stopped."""
    wanted = list_steps(seen.checks)
    shared = find_shared_step(seen)
    return [
        add_end_time(find_rank_end(*found, wanted), found[2], found[3], shared)
        for found in iterate_ranks(seen)
    ]


def find_first_broken(found: Sequence[RankEnd]) -> list[RankEnd]:
    """Return the ranks that stopped in the first step. Ranks that stopped later waited for them.

    In one step, a wrong value comes before a death, and a death before a failure, because ranks that lost their
    partner fail too. A rank that failed by itself comes before one that hung.
    """
    order = list(STEPS)
    broken = [end for end in found if end.step and end.state != "stopped"]
    broken = broken or [end for end in found if end.step]
    if not broken:
        return []
    check = min(STEPS[end.step] for end in broken)
    lowest = min(order.index(end.step) for end in broken if STEPS[end.step] == check)
    at_step = [end for end in broken if order.index(end.step) == lowest]
    most = min(WORTH.index(end.state) for end in at_step)
    return [end for end in at_step if WORTH.index(end.state) == most]


def classify_rank_end(end: RankEnd) -> str:
    """Return the common text of ranks that stopped in the same way, regardless of peer and port."""
    if end.state == "failed" and TIMED_OUT.search(end.text):
        return "timeout"
    return "lost" if end.state == "failed" and LOST.search(end.text) else end.text


def has_own_error(end: RankEnd) -> bool:
    """Return whether a rank has its own error, other than waiting for another rank or losing it."""
    return classify_rank_end(end) not in ("timeout", "lost")


def group_first_broken(found: Sequence[RankEnd]) -> list[list[RankEnd]]:
    """Group the ranks that stopped first by their cause."""
    groups: dict[tuple[str, str, str], list[RankEnd]] = {}
    for end in find_first_broken(found):
        groups.setdefault((end.step, end.state, classify_rank_end(end)), []).append(end)
    return list(groups.values())


def select_telling_groups(found: Sequence[RankEnd]) -> list[list[RankEnd]]:
    """Select the most informative groups.

    Ranks that only lost their partner follow from the partner's cause, even in a later step. Ranks that only waited
    follow from another rank's own error.
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
    """Find ranks that were in the step for longer than the others waited: the others waited for them.

    Gloo's waits all end after the same time. For ``init``, it is another time (a connection's).
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
    """Sort ranks by the time of their ends. Ranks without one come last."""
    return sorted(found, key=lambda end: float("inf") if end.at is None else end.at)


def find_job_causes(found: Sequence[RankEnd]) -> list[JobStopCause]:
    """Return the causes that stopped the job: one, if the ranks' errors and times allow it.

    Ranks that died or raised their own errors in one step have one cause, that of the first, because a lost rank
    makes the others fail in many ways. Wrong values and ranks that never started are unrelated.
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
    """Return how much earlier the first rank ended than the next, or 0 if that is not significant."""
    moments = [end.at for end in ends_ if end.at is not None]
    if len(moments) < 2 or ends_[0].at is None:  # noqa: PLR2004 (a pair)
        return 0.0
    gap = moments[1] - moments[0]
    return gap if gap >= FIRST_BY else 0.0
