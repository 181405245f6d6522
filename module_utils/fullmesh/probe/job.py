# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the verification's last calls on a node: end the listeners, start a real job, collect its results.

Runs on nodes: standard library only. Called by library/ladder_gloo.py, or for all nodes at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ..answer import make_failed_result
from ..detach import (
    BASE,
    clear_run_directory,
    make_run_directory,
    remove_run_directory,
    run_directory,
)
from ..lease import LEASE, is_lease_lost
from ..survey.names import take_name_answers
from .listeners import filter_listener_report, stop_listeners
from .ranks import collect_ranks, start_ranks, stop_ranks

if TYPE_CHECKING:
    from typing import Any

    from ..answer import FailedResult
    from ..schema.ranks import CollectedRanks, LadderGlooParams, StartedRanks, StoppedRanks


LEASE_LOST = (
    "it heard nothing from the controller for some seconds, so it ended its part of the run"
)


class LeaseLostError(Exception):
    """The controller was silent for too long in the meantime."""


def start_test_job(want: LadderGlooParams) -> StartedRanks:
    """End the listeners, because the job needs their ports, and start the job.

    Raises:
        LeaseLostError: this node has ended its part of the run.
    """
    run = want["run"]
    seen = stop_listeners(run, BASE)
    names = take_name_answers(run, BASE)
    if not want["ranks"]:
        remove_run_directory(run)
    else:
        if want["attached"] and is_lease_lost(run_directory(run, BASE)):
            raise LeaseLostError(LEASE_LOST)
        make_run_directory(run)
        clear_run_directory(run, BASE, keep=LEASE)
        start_ranks(want, BASE)
    said: StartedRanks = {}
    if seen:
        said["listeners"] = filter_listener_report(seen, want["about"]) if want["brief"] else seen
    if names:
        said["names"] = names
    return said


def collect_test_job(want: LadderGlooParams) -> CollectedRanks:
    """Collect the results, and clean up after the last rank.

    Raises:
        LeaseLostError: this node has ended its part of the run.
        TimeoutError: the ranks' supervisor is gone.
    """
    run = want["run"]
    found = collect_ranks(run, BASE, want["wait"], want["attached"])
    if want["attached"] and not found["started"]:
        raise LeaseLostError(LEASE_LOST)
    if not found["done"]:
        # The supervisor ends all ranks at the deadline, so this file is only missing if the supervisor died.
        raise TimeoutError(
            "the process that supervises its ranks is gone: it was killed, or the node hung. "
            "Check: dmesg | grep -i -E 'oom|killed'"
        )
    if want["keep"]:
        clear_run_directory(run, BASE, keep=LEASE)
    else:
        remove_run_directory(run)
    return found


def stop_test_job(want: LadderGlooParams) -> StoppedRanks:
    """Tell the supervisor of the ranks to end them."""
    stop_ranks(want["run"], BASE)
    return {}


def control_test_job(**given: Any) -> StartedRanks | CollectedRanks | StoppedRanks | FailedResult:
    """End the listeners and start ranks, stop them, or collect their results. *given*: a ``LadderGlooParams``."""
    want = cast("LadderGlooParams", given)
    words = {"started": (start_test_job, "started"), "collected": (collect_test_job, "followed")}
    work, word = words.get(want["state"], (stop_test_job, "stopped"))
    try:
        return work(want)
    except LeaseLostError as exc:
        return make_failed_result(f"[VC-309] {exc}.")
    except (OSError, ValueError) as exc:
        return make_failed_result(f"[VC-304] The test job could not be {word}: {exc}.")
