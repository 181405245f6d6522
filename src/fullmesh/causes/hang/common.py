"""Helpers that several causes of a hang use."""

from __future__ import annotations

import re

from fullmesh.causes.hang.job import (
    CollectiveWait,
    HangFinding,
    ObservedJob,
    get_collective_key,
    has_record,
)
from fullmesh.causes.hang.places import find_user_location
from fullmesh.observed.hang import RecorderEntry

# Messages of a rank whose peer has gone: consequences, never causes.
PEER_GONE = re.compile(
    r"Connection (?:closed|reset) by peer|Broken pipe|NCCL communicator was aborted"
    r"|remote process exited|Socket Timeout|Timed out waiting"
)
# torch's words for a group that is used with a rank outside of it
NO_MEMBER = re.compile(
    r"is not part of group|[Ii]nvalid process group specified|does not belong to|not in the (?:process )?group"
    r"|[Gg]roup rank -1"
)

# Pages a second from swap: a disk's random reads are a few hundred a second, an SSD's some thousands; a process that
# comes back from swap for a moment needs few.
MANY_PAGES = 50
# share of throttled periods from which on throttling is the reason for a late rank
MUCH = 0.5


def is_rank_observable(job: ObservedJob, rank: int) -> bool:
    """Return whether a rank's process runs without an exception and its state is known."""
    one = job.now.ranks.get(rank)
    if one is None or one["process"] != "running" or one["raised"]:
        return False
    return has_record(one) or job.now.doing(rank).elsewhere


def is_throttled(job: ObservedJob, rank: int) -> bool:
    """Return whether a running rank is stopped by its cgroup most of the time."""
    here = job.now.ranks.get(rank)
    return here is not None and here["process"] == "running" and job.held_back(rank) >= MUCH


def is_swapping(job: ObservedJob, rank: int) -> bool:
    """Return whether a running rank keeps reading its own memory back from swap."""
    here = job.now.ranks.get(rank)
    return here is not None and here["process"] == "running" and job.paged_in(rank) >= MANY_PAGES


def is_held_back(job: ObservedJob, rank: int) -> bool:
    """Return whether two samples show that throttling or swapping holds up a rank."""
    return is_throttled(job, rank) or is_swapping(job, rank)


def describe_gpu_load(job: ObservedJob, rank: int) -> list[str]:
    """Describe the load of a rank's GPUs, or why the driver did not report it."""
    one = job.now.ranks[rank]
    said = [
        f"GPU {gpu['index']} of rank {rank}: a kernel runs {gpu['busy']} % of the time"
        + (f", {gpu['watts']} W" if gpu["watts"] >= 0 else "")
        for gpu in one.get("gpus", [])
        if gpu["busy"] >= 0
    ]
    silent = [f"rank {rank}: {lost['why']}" for lost in one["missing"] if lost["what"] == "gpus"]
    return said + silent


def describe_ras_state(job: ObservedJob, rank: int) -> list[str]:
    """Describe NCCL RAS's state of a rank, or why there is none."""
    one = job.now.ranks[rank]
    said = [f"{lost['why']}" for lost in one["missing"] if lost["what"] == "ras"]
    if "ras" in one:
        state = one["ras"]
        if not state["answers"]:
            since = ", for a minute or longer" if state["dead"] else ""
            said.append(f"NCCL's RAS gets no answer from rank {rank}{since}")
        said += [
            f"NCCL's RAS: rank {rank} has launched {row['kind']} {row['count']} times, others {row['most']} times"
            for row in state["behind"]
        ]
    return said


def find_missed_collective(job: ObservedJob, rank: int) -> CollectiveWait:
    """Find the collective in which most ranks wait for a rank, the earliest of several."""
    waits = job.lacking[rank]
    counts: dict[tuple[str, int], int] = {}
    for wait in waits:
        counts[get_collective_key(wait.entry)] = counts.get(get_collective_key(wait.entry), 0) + 1
    return min(
        waits,
        key=lambda one: (-counts[get_collective_key(one.entry)], one.entry["number"], one.rank),
    )


def list_waiting_ranks(job: ObservedJob, wait: CollectiveWait) -> list[int]:
    """List the ranks that wait in the same collective."""
    return sorted(
        {
            one.rank
            for one in job.waits
            if get_collective_key(one.entry) == get_collective_key(wait.entry)
        }
    )


def find_call_location(job: ObservedJob, rank: int, entry: RecorderEntry) -> str:
    """Return the line at which a rank entered a collective: from the recorder, else its current line if it is in it."""
    if entry["frames"]:
        return find_user_location(entry["frames"])
    return job.now.place(rank) if not entry["retired"] else ""


def describe_last_entry(job: ObservedJob, rank: int, group: str) -> str:
    """Describe the last collective that a rank entered in a group, or return "" without a record."""
    last = job.now.last[group].get(rank)
    if last is None:
        return ""
    if not last:
        whole = job.now.ranks[rank]["entries"][:1]
        return "it entered none" + (
            " that its record still has" if whole and whole[0]["record"] else ""
        )
    entry = job.now.by_number[group][rank][last]
    at = f" at {find_user_location(entry['frames'])}" if entry["frames"] else ""
    return f"it entered {last} last{at}"


def is_same_group(root: HangFinding, other: HangFinding) -> bool:
    """Return whether both are about the same process group."""
    return root.group == other.group


def is_waiting_for(root: HangFinding, other: HangFinding) -> bool:
    """Return whether the other's ranks wait for the root's."""
    return bool(other.ranks) and set(other.ranks) <= {*root.waiting, *root.ranks}


def has_same_ranks(root: HangFinding, other: HangFinding) -> bool:
    """Return whether the other's ranks are among the root's."""
    return bool(other.ranks) and set(other.ranks) <= set(root.ranks)


def has_other_ranks(root: HangFinding, other: HangFinding) -> bool:
    """Return whether they are about different ranks."""
    return not set(root.ranks) & set(other.waiting)
