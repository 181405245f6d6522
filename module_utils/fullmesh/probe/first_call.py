# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The first call of the verification on a node: what is observed there, and the listeners that peers will ask.

Runs on nodes: standard library only. Asked by library/ladder_node.py, or of all nodes at once.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, cast

from ..answer import refused
from ..detach import BASE, drop_run_directory, make_run_directory, run_directory
from ..facts.sockets import family_of
from ..lease import keep_lease, take_lease
from ..survey.filters import port_borders
from ..survey.names import ask_beside
from ..survey.node import begin_survey, end_survey
from .bound import spread_over
from .listeners import start_listeners
from .observe import observe, observe_nccl

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..answer import Refused
    from ..schema.ladder import Facts, Look, LookWant, Opened
    from ..schema.survey import Beside, Survey


def chosen_ports(want: LookWant, seen: Survey | None) -> list[int]:
    """Say which ports of the data range get a listener of their own."""
    first, last = (seen["range"] if seen else want["range"]) or (0, -1)
    if not want["spread"] or first > last:
        return []
    return spread_over(first, last, want["spread"], port_borders(seen, first, last))


def open_ports(want: LookWant, facts: Facts) -> Opened:
    """Open the listeners, or say that none were wanted."""
    if not want["listen"]:
        return {"ports": [], "tapped": False}
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
            "spread": chosen_ports(want, facts.get("survey")),
            "peers": [host["address"] for host in want["hosts"]],
        }
    )


def look(want: LookWant) -> Facts:
    """Look at the node."""
    run = want["run"]

    def beside(survey: Callable[[], Beside]) -> None:
        ask_beside(run, BASE, survey, want)

    looking = begin_survey(want, beside if want["beside"] else None) if want["survey"] else None
    facts = observe(want)
    if looking:
        facts["survey"] = end_survey(looking, want)
    return facts


def answer(**given: Any) -> Look | Refused:
    """Look at the node, ask NCCL, open the listeners; *given*: a ``LookWant``."""
    want = cast("LookWant", given)
    try:
        if want["listen"] or want["beside"] or want["attached"]:
            make_run_directory(want["run"])
        if want["attached"]:
            take_lease(run_directory(want["run"]))
        facts = look(want)
        opened = open_ports(want, facts)
    except (OSError, ValueError) as exc:
        with contextlib.suppress(ValueError):  # a name that no directory can have
            drop_run_directory(want["run"])
        return refused(f"[VC-213] the listeners could not be started: {exc}.")
    said: Look = {"facts": facts, "ports": opened["ports"], "tapped": opened["tapped"]}
    device = facts["addresses"].get(want["address"])
    if want["nccl"] and device:
        said["nccl"] = observe_nccl(device, family_of(want["address"]))
    return said


def hold(**given: Any) -> None:
    """Keep the lease of the run after the answer (ask/boot.py), until the run is over; *given*: a ``LookWant``."""
    keep_lease(run_directory(cast("LookWant", given)["run"]))


def forget(**given: Any) -> None:
    """Remove the files of the run, as the controller is gone (ask/boot.py); its processes end without their lease."""
    with contextlib.suppress(ValueError):
        drop_run_directory(cast("LookWant", given)["run"])
