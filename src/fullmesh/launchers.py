"""What can be wrong with the settings of the launchers."""

from __future__ import annotations

import re
from typing import Any

from fullmesh.faults import Fault

CODES: dict[str, str] = {
    "LA-101": "a setting of the launchers cannot work",
    "LA-102": "the node has no environment file",
    "LA-103": "the node has no torchrun",
    "LA-104": "the launcher was called without a script or with half an option",
    "LA-105": "the launcher was asked for an unknown rendezvous",
}

# useradd's own rule, so that nothing else gets into the unit file.
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\$?")
LONGEST = 7 * 24 * 3600


def faults(user: str, join_seconds: Any, stop_seconds: Any) -> list[Fault]:
    """Every setting that cannot work."""
    found = []
    if not USER.fullmatch(user):
        text = f"launchers_job_user is {user!r}, which is no user name"
        found.append(Fault("LA-101", text, "Write it like root or train"))
    named = {
        "launchers_join_timeout_seconds": join_seconds,
        "launchers_stop_timeout_seconds": stop_seconds,
    }
    for name, value in named.items():
        if not str(value).isdigit() or not 1 <= int(value) <= LONGEST:
            text = f"{name} is {value!r}, which is no number of seconds from 1 to {LONGEST}"
            found.append(Fault("LA-101", text, "Write it like 300"))
    return found
