# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What ladder_gloo returns: the end of the listeners, then what the ranks of the test job said."""

from __future__ import annotations

from typing import Any, TypedDict

from .ladder import Answers, Listeners

# What becomes of a step: it begins, ends, is not there in this torch, gives a wrong value, or raises.
STATES = ("begin", "ok", "unsupported", "wrong", "failed")


class EventAlways(TypedDict):
    """A line that a rank writes at the beginning and at the end of each step; ``done`` is the last. *state*: of
    STATES.
    """

    step: str
    state: str


class Event(EventAlways, total=False):
    """What a rank says of a step.

    Attributes:
        at: seconds since the rank began; seconds: how long the step took.
        text: the exception, if any; data: what the step found, its own form each.
        seen, expected: values that differ; check: one word for what was checked; ranks: those at fault.
    """

    at: float
    seconds: float
    text: str
    data: dict[str, Any]
    seen: str
    expected: str
    check: str
    ranks: list[int]


class RankSaid(TypedDict):
    """One rank: its events, and the end of what it printed."""

    events: list[Event]
    log: str


class Ended(TypedDict, total=False):
    """How the ranks of a node ended; empty while they run.

    Attributes:
        codes: exit status by rank.
        killed: ranks that a deadline ended.
        seconds: from the first start to the last end.
        load: runnable processes on average over the last minute, when they had ended; cpus: processors.
        error: why they could not be started.
    """

    codes: dict[str, int]
    killed: list[int]
    seconds: float
    load: float
    cpus: int
    error: str


class Collected(TypedDict):
    """ladder_gloo's answer, state collected; ``doing``: the step that each rank is at."""

    done: bool
    started: bool
    ended: Ended
    ranks: dict[str, RankSaid]
    doing: dict[str, str]


class Started(TypedDict, total=False):
    """ladder_gloo's answer, state started: what the listeners saw, and the names that were looked up meanwhile.

    Neither is there where no listener was open, or none answered any more, or no names were left to be looked up.
    """

    listeners: Listeners
    names: Answers
