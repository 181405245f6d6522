# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The last calls of the verification on a node: end the listeners, start a real job, collect what it said.

Runs on nodes: standard library only. Asked by library/ladder_gloo.py, or of all nodes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..answer import refused
from ..detach import (
    BASE,
    drop_run_directory,
    empty_run_directory,
    make_run_directory,
    run_directory,
)
from ..lease import LEASE, is_lease_lost
from ..survey.names import take_answers
from .listeners import about_only, stop_listeners
from .ranks import collect_ranks, start_ranks, stop_ranks

if TYPE_CHECKING:
    from typing import Any

    from ..answer import Refused
    from ..schema.ranks import Collected, RanksWant, Started, Stopped


LEASE_LOST = (
    "it heard nothing from the controller for some seconds, so it ended its part of the run"
)


class LeaseLostError(Exception):
    """The controller was silent for too long in the meantime."""


def start(want: RanksWant) -> Started:
    """End the listeners first: the job needs their ports.

    Raises:
        LeaseLostError: this node has ended its part of the run.
    """
    run = want["run"]
    seen = stop_listeners(run, BASE)
    names = take_answers(run, BASE)
    if not want["ranks"]:
        drop_run_directory(run)
    else:
        if want["attached"] and is_lease_lost(run_directory(run, BASE)):
            raise LeaseLostError(LEASE_LOST)
        make_run_directory(run)
        empty_run_directory(run, BASE, keep=LEASE)
        start_ranks(want, BASE)
    said: Started = {}
    if seen:
        said["listeners"] = about_only(seen, want["about"]) if want["brief"] else seen
    if names:
        said["names"] = names
    return said


def collect(want: RanksWant) -> Collected:
    """Collect, and clean up after the last rank.

    Raises:
        LeaseLostError: this node has ended its part of the run.
        TimeoutError: the ranks' supervisor is gone.
    """
    run = want["run"]
    found = collect_ranks(run, BASE, want["wait"], want["attached"])
    if want["attached"] and not found["started"]:
        raise LeaseLostError(LEASE_LOST)
    if not found["done"]:
        # It kills at the deadline whatever runs, so only its own death keeps it from writing the end.
        raise TimeoutError(
            "the process that supervises its ranks is gone: it was killed, or the node stood still. "
            "Check: dmesg | grep -i -E 'oom|killed'"
        )
    if want["keep"]:
        empty_run_directory(run, BASE, keep=LEASE)
    else:
        drop_run_directory(run)
    return found


def stop(want: RanksWant) -> Stopped:
    """Ask the supervisor of the ranks to end them."""
    stop_ranks(want["run"], BASE)
    return {}


def answer(**given: Any) -> Started | Collected | Stopped | Refused:
    """End the listeners and start ranks, stop them, or collect what they said; *given*: a ``RanksWant``."""
    want = cast("RanksWant", given)
    words = {"started": (start, "started"), "collected": (collect, "followed")}
    work, word = words.get(want["state"], (stop, "stopped"))
    try:
        return work(want)
    except LeaseLostError as exc:
        return refused(f"[VC-309] {exc}.")
    except (OSError, ValueError) as exc:
        return refused(f"[VC-304] the test job could not be {word}: {exc}.")
