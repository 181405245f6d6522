# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Probe one listener of each of many peers in the order of a schedule, with an answer of limited size.

Expected results are only counted. Others are reported in full up to a limit, and the controller probes every listener
of those pairs in a second call. Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from .pairs import probe_links

if TYPE_CHECKING:
    from ..schema.ladder import (
        LinkResult,
        ProbeOrigin,
        ProbeTarget,
        SweepResult,
        SweepTarget,
        Verdict,
    )

# The time budget is checked after this many listeners. A silent peer costs one deadline per chunk.
CHUNK = 256
# Unexpected results are reported in full up to this number. For the others, only the peers and the kernel's result are
# reported.
ODD_MOST = 16
# Segments sent again to one peer, of some fifty: a healthy network loses none between two nodes.
LOST_LEAST = 2


def row_to_target(row: SweepTarget) -> ProbeTarget:
    """Convert a row of the schedule to a target."""
    return {
        "node": row["node"],
        "address": row["address"],
        "port": row["port"],
        "kind": row["kind"],
    }


def is_expected_result(record: LinkResult) -> bool:
    """Return whether a connection needs no report."""
    if record["kind"] == "outside":
        return record["verdict"] != "open"
    lossless = record.get("lost", 0) < LOST_LEAST
    return record["verdict"] == "open" and not record["remark"] and lossless


def sweep_peers(
    rows: list[SweepTarget], me: ProbeOrigin, seconds: float, at_once: int, budget: float
) -> tuple[list[LinkResult], int]:
    """Try the rows in order, *at_once* together, for at most *budget* seconds.

    Returns:
        The records, and the number of rows that were tried.
    """
    begun = time.monotonic()
    found: list[LinkResult] = []
    tried = 0
    while tried < len(rows) and (not tried or time.monotonic() - begun < budget):
        now = rows[tried : tried + CHUNK]
        found += probe_links([row_to_target(row) for row in now], me, seconds, CHUNK, at_once)
        tried += len(now)
    return found, tried


def condense_sweep(
    rows: list[SweepTarget], tried: int, records: list[LinkResult], master: str
) -> tuple[list[LinkResult], SweepResult]:
    """Condense the results of many connections.

    Args:
        rows: the requested targets in order.
        tried: the number of rows that were tried.
        records: their results, in any order.
        master: the node whose clock is the reference.

    Returns:
        The unexpected records, up to a limit, and the totals.
    """
    place = {(row["node"], row["port"]): number for number, row in enumerate(rows)}
    blocks = [0] * (1 + max((row["block"] for row in rows), default=-1))
    odd: list[LinkResult] = []
    well: list[LinkResult] = []
    for record in records:
        (well if is_expected_result(record) else odd).append(record)
    for record in well:
        block = rows[place[(record["node"], record["port"])]]["block"]
        blocks[block] = max(blocks[block], round(record["rtt_ms"] * 1000))
    more: dict[Verdict, list[int]] = {}
    for record in odd[ODD_MOST:]:
        more.setdefault(record["verdict"], []).append(place[(record["node"], record["port"])])
    said: SweepResult = {
        "asked": len(rows),
        "tried": tried,
        "peers": len({row["node"] for row in rows[:tried]}),
        "rtt_us": blocks,
        "ms": round(median([r["ms"] for r in well]), 3) if well else 0.0,
        "more": more,
    }
    of_master = [r for r in records if r["node"] == master and r["offset"] is not None]
    if of_master:
        surest = min(of_master, key=lambda r: r["offset_error"])
        said["clock"] = [surest["offset"] or 0.0, surest["offset_error"]]
    return odd[:ODD_MOST], said
