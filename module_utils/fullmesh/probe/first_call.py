# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The first call of the verification on a node: what is observed there, and the listeners that peers will ask.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..detach import BASE
from ..survey.filters import port_borders
from ..survey.names import ask_beside
from ..survey.node import begin_survey, end_survey
from .bound import spread_over
from .listeners import start_listeners
from .observe import observe

if TYPE_CHECKING:
    from typing import Any


def chosen_ports(want: dict[str, Any]) -> list[int]:
    """Say which ports of the data range get a listener of their own."""
    seen = want.get("seen", {})
    first, last = seen.get("range") or want["range"] or (0, -1)
    if not want["spread"] or first > last:
        return []
    borders = port_borders(seen.get("nft", {}), first, last)
    chosen: list[int] = spread_over(first, last, want["spread"], borders)
    return chosen


def open_ports(want: dict[str, Any]) -> dict[str, Any]:
    """Open the listeners, or say that none were wanted."""
    if not want["listen"]:
        return {"ports": [], "tapped": False}
    opened: dict[str, Any] = start_listeners(
        {
            "run": want["run"],
            "base": BASE,
            "token": want["token"],
            "node": want["node"],
            "address": want["address"],
            "interface": want["device"],
            "samples": want["samples"],
            "named": want["named"],
            "outside": want["outside"],
            "allowed": want["allowed"],
            "lifetime": want["lifetime"],
            "spread": chosen_ports(want),
            "peers": [str(host["address"]) for host in want["hosts"]],
        }
    )
    return opened


def look(want: dict[str, Any]) -> dict[str, Any]:
    """Look at the node; what the listeners need to know of it goes into *want*."""
    if want["beside"]:
        run = want["run"]
        want["beside"] = lambda survey: ask_beside(run, BASE, survey, want)
    looking = begin_survey(want) if want["survey"] else None
    facts: dict[str, Any] = observe(want)
    want["device"] = facts["addresses"].get(want["address"], "")
    if looking:
        want["seen"] = facts["survey"] = end_survey(looking, want)
    return facts
