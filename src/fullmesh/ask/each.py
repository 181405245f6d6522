"""Arguments of a question that each host has its own of. Standard library only: filters import this."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# by argument and then by host: as ask_nodes takes them
Each = dict[str, dict[str, Any]]


def by_argument(given: Mapping[str, Mapping[str, Any]]) -> Each:
    """The arguments of each host, turned round."""
    found: Each = {}
    for host, own in given.items():
        for name, value in own.items():
            found.setdefault(name, {})[host] = value
    return found
