# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the verification's first call on a node: observe the node and open the listeners for its peers.

Runs on nodes: standard library only. Called by library/ladder_node.py, or for all nodes at once.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

from ..answer import make_failed_result
from ..detach import BASE, make_run_directory, remove_run_directory, run_directory
from ..facts.sockets import find_address_family
from ..lease import keep_lease, take_lease
from ..survey.filters import find_port_borders
from ..survey.names import start_name_lookups
from ..survey.node import begin_survey, end_survey
from .bound import choose_spread_ports
from .listeners import start_listeners
from .observe import observe_nccl, observe_node

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..answer import FailedResult
    from ..schema.ladder import (
        LadderFacts,
        LadderNodeParams,
        LadderNodeResult,
        NcclListener,
        OpenedListeners,
    )
    from ..schema.survey import NodeSurvey, ParallelLookups


def choose_range_ports(want: LadderNodeParams, seen: NodeSurvey | None) -> list[int]:
    """Return the ports of the data range that get a listener."""
    first, last = (seen["range"] if seen else want["range"]) or (0, -1)
    if not want["spread"] or first > last:
        return []
    return choose_spread_ports(first, last, want["spread"], find_port_borders(seen, first, last))


def open_listeners(want: LadderNodeParams, facts: LadderFacts) -> OpenedListeners:
    """Open the listeners if they are requested."""
    if not want["listen"]:
        return {"ports": [], "tapped": False, "rails": []}
    return start_listeners(
        {
            "run": want["run"],
            "base": BASE,
            "token": want["token"],
            "node": want["node"],
            "address": want["address"],
            "interface": facts["addresses"].get(want["address"], ""),
            "samples": want["samples"],
            "named": want["named"],
            "outside": want["outside"],
            "allowed": want["allowed"],
            "lifetime": want["lifetime"],
            "leased": want["attached"],
            "spread": choose_range_ports(want, facts.get("survey")),
            "peers": [host["address"] for host in want["hosts"]],
            "rails": want["rails"],
        }
    )


def observe_and_survey(want: LadderNodeParams) -> tuple[LadderFacts, NcclListener | None]:
    """Observe the node, query NCCL and survey the node if requested."""
    run = want["run"]

    def beside(survey: Callable[[], ParallelLookups]) -> None:
        start_name_lookups(run, BASE, survey, want)

    looking = begin_survey(want, beside if want["beside"] else None) if want["survey"] else None
    facts = observe_node(want)
    device = facts["addresses"].get(want["address"])
    family = find_address_family(want["address"])
    nccl = observe_nccl(device, family) if want["nccl"] and device else None
    if looking:
        facts["survey"] = end_survey(looking, want)
    return facts, nccl


def observe_and_listen(**given: Any) -> LadderNodeResult | FailedResult:
    """Observe the node, query NCCL and open the listeners. *given*: a ``LadderNodeParams``."""
    want = cast("LadderNodeParams", given)
    try:
        if want["listen"] or want["beside"] or want["attached"]:
            make_run_directory(want["run"])
        if want["attached"]:
            take_lease(run_directory(want["run"]))
        facts, nccl = observe_and_survey(want)
        opened = open_listeners(want, facts)
    except (OSError, ValueError) as exc:
        with contextlib.suppress(ValueError):  # a name that no directory can have
            remove_run_directory(want["run"])
        return make_failed_result(f"[VC-213] The listeners could not be started: {exc}.")
    said: LadderNodeResult = {"facts": facts, "ports": opened["ports"], "tapped": opened["tapped"]}
    if nccl is not None:
        said["nccl"] = nccl
    if opened["rails"]:
        said["rails"] = opened["rails"]
    return said


def hold_lease(**given: Any) -> None:
    """Keep the lease (ask/boot.py) until the run is over. *given*: a ``LadderNodeParams``."""
    keep_lease(run_directory(cast("LadderNodeParams", given)["run"]))


def remove_run_files(**given: Any) -> None:
    """Remove the run's files after the controller is gone (ask/boot.py). Its processes end without their lease."""
    with contextlib.suppress(ValueError):
        remove_run_directory(cast("LadderNodeParams", given)["run"])
