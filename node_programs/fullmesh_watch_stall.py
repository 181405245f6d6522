# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Check whether the ranks of a job on this node make progress.

Runs on nodes. Changes nothing in the job.

A rank is hung if it has entered nothing, or has not left a collective, for the time of `patience`. That is at least the
user's limit. It grows with the job: a multiple of its usual pause between collectives, and 1.5 times the longest pause
that it recovered from.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

import fullmesh_hang_look as hang_look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fullmesh.observed.hang import NodeHang, Rank, RecorderEntry
    from fullmesh.observed.watch import EventKind

SECOND = 1_000_000_000  # nanoseconds
FACTOR = 5  # times the usual pause
HALF_MORE = 1.5
YOUNG = 8  # things that a rank has entered while it still loads its model
YOUNG_FACTOR = 5
LEAST = 5.0  # seconds between two looks
SHARE = (
    30.0  # seconds between two answers for the controller, which compares the ranks of all nodes
)
PART = 4  # looks in the time that a stall has to last
SHOWN = 4


def find_pending_collective(rank: Rank) -> RecorderEntry | None:
    """Return the oldest collective that a rank has entered and not left."""
    return next((one for one in rank["entries"] if not one["retired"] and not one["p2p"]), None)


def measure_pauses(rank: Rank) -> list[float]:
    """Return the seconds between a rank's consecutive entries."""
    times = [one["created_ns"] for one in rank["entries"]]
    return [(after - before) / SECOND for before, after in zip(times, times[1:]) if after >= before]


def measure_stall(rank: Rank) -> float:
    """Return the seconds since a rank's last progress, 0 if unknown."""
    if not rank["entries"]:
        return 0.0
    first = find_pending_collective(rank) or rank["entries"][-1]
    return max(0.0, (rank["taken_ns"] - first["created_ns"]) / SECOND)


class JobProgress:
    """The known progress of a job."""

    def __init__(self, limit: float) -> None:
        """Start without any observation."""
        self.limit = limit
        self.since = 0.0  # the longest duration so far of the reported stall
        self.longest = 0.0  # the longest pause that the job recovered from
        self.stalled = False

    def pause(self) -> float:
        """Return the seconds between two checks."""
        return max(LEAST, self.limit / PART)

    def patience(self, ranks: Iterable[Rank]) -> float:
        """Return the seconds that a rank of this job may hang."""
        known = list(ranks)
        gaps = [gap for rank in known for gap in measure_pauses(rank)]
        usual = FACTOR * statistics.median(gaps) if gaps else 0.0
        young = (
            max((one["entries"][-1]["record"] for one in known if one["entries"]), default=0)
            < YOUNG
        )
        limit = self.limit * (YOUNG_FACTOR if young else 1)
        return max(limit, usual, HALF_MORE * self.longest)

    def judge(self, ranks: list[Rank]) -> EventKind | None:
        """Return ``stalled`` if the job has just been found hung, ``moving`` if it continues."""
        reporting = [one for one in ranks if one["entries"]]
        most = max(map(measure_stall, reporting), default=0.0)
        if self.stalled:
            if reporting and most < self.limit:
                self.stalled, self.longest = False, max(self.longest, self.since)
                return "moving"
            self.since = max(self.since, most)
        elif reporting and most >= self.patience(reporting):
            self.stalled, self.since = True, most
            return "stalled"
        return None


def sort_late_first(ranks: list[Rank]) -> list[Rank]:
    """Return the ranks with those first that others on this node wait for."""
    entered: dict[str, int] = {}
    for rank in ranks:
        entry = find_pending_collective(rank)
        if entry:
            entered[entry["group"]] = max(entered.get(entry["group"], 0), entry["number"])

    def behind(rank: Rank) -> bool:
        last: dict[str, int] = {}
        for one in rank["entries"]:
            if not one["p2p"]:
                last[one["group"]] = one["number"]
        return any(last.get(group, number) < number for group, number in entered.items())

    return sorted(ranks, key=lambda one: (not behind(one), one["rank"]))


def describe_stall(ranks: list[Rank], in_words: Callable[[Rank], str]) -> str:
    """Describe a hung job and the state of its ranks on this node."""
    lines = [in_words(one) for one in sort_late_first(ranks)[:SHOWN]]
    rest = f"; and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else ""
    most = max(map(measure_stall, ranks), default=0.0)
    return (
        "[WA-109] No progress for {:.0f} s. Ranks here: {}{}. To find the rank that the others wait for, "
        "run on the controller: ./fullmesh hang -i INVENTORY".format(most, "; ".join(lines), rest)
    )


def write_ranks(ranks: list[Rank], folder: str) -> str:
    """Write the state of each rank to a file for explain-log. Return the folder, a new one if none is given.

    Raises:
        OSError: a file cannot be written.
    """
    folder = folder or tempfile.mkdtemp(prefix="fullmesh-hang-", dir=os.getcwd())
    os.makedirs(folder, exist_ok=True)
    for one in ranks:
        with open(os.path.join(folder, "rank{:d}.json".format(one["rank"])), "w") as stream:
            # explain-log knows such a file by a word in its first bytes
            json.dump({"taken_ns": one["taken_ns"], **one}, stream)
    return folder


def read_process_ranks(pids: Iterable[int], host: str) -> NodeHang:
    """Return the ranks among processes, with their own answers."""
    found, around = hang_look.FoundRanks("", pids), hang_look.NodeEvidence(thorough=False)
    # ranks without an answer are not judged, so their stacks are not needed each time
    ranks = hang_look.read_ranks(found, host, around)
    return {"host": host, "jobs": found.jobs(), "ranks": ranks}


class RankFollower:
    """Checks a job repeatedly in its own thread, because a hung rank may take seconds to fail."""

    def __init__(self, limit: float, observe: Callable[[], NodeHang]) -> None:
        """Save the settings. Nothing is read before `run`."""
        self.progress = JobProgress(limit)
        self.look = observe
        self.ended = False
        self.failed = False  # whether the last check failed, which was reported

    def run(
        self,
        tell: Callable[[EventKind, NodeHang], None],
        fail: Callable[[str], None],
        share: Callable[[NodeHang], None] = lambda _: None,
    ) -> None:
        """Report when the job hangs and when it continues, until it has ended.

        Args:
            tell: called with the report.
            fail: called with the reason if a check failed.
            share: called with the ranks from time to time.
        """
        shared = time.monotonic()
        while not self.ended:
            time.sleep(self.progress.pause())
            try:
                seen = self.look()
                found = self.progress.judge(seen["ranks"])
                if found and not self.ended:
                    tell(found, seen)
                if time.monotonic() - shared >= SHARE and not self.ended:
                    shared = time.monotonic()
                    share(seen)
                self.failed = False
            except Exception as error:  # a rank can answer anything, and the watch must continue
                if not self.failed and not self.ended:
                    fail(f"{type(error).__name__}: {error}")
                self.failed = True
