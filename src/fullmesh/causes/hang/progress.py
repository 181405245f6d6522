"""Measure how far ranks have come."""

from __future__ import annotations

from fullmesh.causes.hang.job import SECOND, JobSample


def find_newest_entries(sample: JobSample) -> dict[int, int]:
    """Map each rank to the number of entries that it has made."""
    return {
        rank: max((one["record"] for one in sample.ranks[rank]["entries"]), default=-1)
        for rank in sample.asked
    }


def measure_idle_seconds(sample: JobSample) -> float:
    """Return the seconds since any rank entered something."""
    ages = [
        (sample.ranks[rank]["taken_ns"] - sample.ranks[rank]["entries"][-1]["created_ns"]) / SECOND
        for rank in sample.asked
        if sample.ranks[rank]["entries"] and sample.ranks[rank]["taken_ns"]
    ]
    return min(ages, default=0.0)
