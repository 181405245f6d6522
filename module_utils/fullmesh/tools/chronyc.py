# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the state of chronyd from chronyc(1)."""

from __future__ import annotations

from typing import TypedDict

from ..files import SPACE, split_lines

SHOW_TRACKING = ["chronyc", "-n", "-c", "tracking"]
SHOW_SOURCES = ["chronyc", "-n", "-c", "sources"]


class ChronySource(TypedDict):
    """A row of ``chronyc sources``. ``reach``: one bit for each of the last eight polls."""

    state: str
    address: str
    stratum: int
    reach: int


class ChronyTracking(TypedDict):
    """The output of ``chronyc tracking``.

    ``offset`` in seconds. ``leap`` is ``no answer`` if chronyd does not run.
    """

    reference: str
    stratum: int
    offset: float
    leap: str


def parse_sources(text: str) -> list[ChronySource]:
    """Parse ``chronyc -n -c sources``: mode, state, address, stratum, poll, reach (octal), ..."""
    rows = [line.split(",") for line in split_lines(text)]
    return [
        {"state": row[1], "address": row[2], "stratum": int(row[3]), "reach": int(row[5], 8)}
        for row in rows
        if len(row) > 5  # noqa: PLR2004 (up to reach)
    ]


def parse_tracking(text: str) -> ChronyTracking:
    """Parse ``chronyc -n -c tracking``.

    Its fields are reference id, address, stratum, ..., system offset (the 5th) and leap status (the last).
    """
    row = text.strip(SPACE).split(",")
    if len(row) < 6:  # noqa: PLR2004 (up to the offset)
        return {"reference": "", "stratum": 0, "offset": 0.0, "leap": "no answer"}
    return {"reference": row[0], "stratum": int(row[2]), "offset": float(row[4]), "leap": row[-1]}
