# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The last calls of the verification on a node: end the listeners, start a real job, collect what it said.

Runs on nodes: standard library only. Asked by library/ladder_gloo.py, or of all nodes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..answer import refused
from ..detach import BASE, drop_run_directory, make_run_directory
from ..survey.names import take_answers
from .listeners import about_only, stop_listeners
from .ranks import collect_ranks, start_ranks

if TYPE_CHECKING:
    from typing import Any

    from ..answer import Refused
    from ..schema.ranks import Collected, RanksWant, Started


def start(want: RanksWant) -> Started:
    """End the listeners first: the job needs their ports."""
    seen = stop_listeners(want["run"], BASE)
    names = take_answers(want["run"], BASE)
    drop_run_directory(want["run"])
    if want["ranks"]:
        make_run_directory(want["run"])
        start_ranks(want, BASE)
    said: Started = {}
    if seen:
        said["listeners"] = about_only(seen, want["about"]) if want["brief"] else seen
    if names:
        said["names"] = names
    return said


def collect(want: RanksWant) -> Collected:
    """Collect, and clean up after the last rank."""
    found = collect_ranks(want["run"], BASE, want["wait"])
    if not found["done"]:
        # It kills at the deadline whatever runs, so only its own death keeps it from writing the end.
        raise TimeoutError(
            "what started its ranks said nothing for {:.0f} s, longer than the job's deadline; "
            "it was killed, or the node stood still. On the node: dmesg | grep -i -E 'oom|killed'".format(
                want["wait"]
            )
        )
    drop_run_directory(want["run"])
    return found


def answer(**given: Any) -> Started | Collected | Refused:
    """End the listeners and start ranks, or collect what ranks said; *given*: a ``RanksWant``."""
    want = cast("RanksWant", given)
    try:
        return start(want) if want["state"] == "started" else collect(want)
    except PermissionError as exc:
        return refused(f"[VC-305] the test job's ranks, which are not root, cannot start: {exc}.")
    except (OSError, ValueError) as exc:
        word = "started" if want["state"] == "started" else "followed"
        return refused(f"[VC-304] the test job could not be {word}: {exc}.")
