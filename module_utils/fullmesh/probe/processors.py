# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Measure the CPU time that this node's processes lost to the hypervisor (steal) or to a control group's limit."""

from __future__ import annotations

import os
from typing import NamedTuple

from ..foreign_text import parse_decimal

STAT, OWN, GROUPS = "/proc/stat", "/proc/self/cgroup", "/sys/fs/cgroup"
STEAL, GUEST = (
    7,
    8,
)  # fields of the cpu line in /proc/stat (user includes the guests' time, proc_stat(5))


class CpuCounters(NamedTuple):
    """Counters that only grow. ``groups``: (periods, throttled periods) of each control group from the top."""

    ticks: int
    stolen: int
    groups: tuple[tuple[int, int], ...]


def read_counter_file(path: str) -> str:
    """Return a file's text, or ""."""
    try:
        with open(path) as stream:
            return stream.read()
    except OSError:
        return ""


def read_named_counters(path: str) -> dict[str, int]:
    """Parse ``name number`` lines."""
    rows = [line.split() for line in read_counter_file(path).splitlines()]
    pairs = [(row[0], parse_decimal(row[1])) for row in rows if len(row) == 2]  # noqa: PLR2004 (name, number)
    return {name: number for name, number in pairs if number is not None}


def find_cgroup_folders() -> list[str]:
    """Return the control groups of this process, outermost first.

    Version 2 only, which all supported systems have.
    """
    own = next(
        (one[3:] for one in read_counter_file(OWN).splitlines() if one.startswith("0::")), ""
    )
    found = [GROUPS]
    for name in filter(None, own.split("/")):
        found.append(os.path.join(found[-1], name))
    return found if own else []


def read_cpu_counters() -> CpuCounters:
    """Read the counters now."""
    line = read_counter_file(STAT).partition("\n")[0].split()[1:]
    ticks = [parse_decimal(field) or 0 for field in line[:GUEST]]
    stats = [read_named_counters(folder + "/cpu.stat") for folder in find_cgroup_folders()]
    return CpuCounters(
        sum(ticks),
        ticks[STEAL] if len(ticks) > STEAL else 0,
        tuple((one.get("nr_periods", 0), one.get("nr_throttled", 0)) for one in stats),
    )


def compute_share(part: int, whole: int) -> float:
    """Return part / whole, or 0 if the whole is 0."""
    return round(max(0, part) / whole, 3) if whole > 0 else 0.0


def measure_cpu_loss(before: CpuCounters) -> tuple[float, float]:
    """Return the shares since *before* of stolen CPU time and of throttled periods."""
    now = read_cpu_counters()
    throttled = [
        compute_share(after[1] - first[1], after[0] - first[0])
        for first, after in zip(before.groups, now.groups)
    ]
    return compute_share(now.stolen - before.stolen, now.ticks - before.ticks), max(
        throttled, default=0.0
    )
