"""Handle the query arguments that differ between hosts. Standard library only, because filters import this."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

# by argument and then by host: as ask_nodes takes them
Each = dict[str, dict[str, Any]]


def group_by_argument(given: Mapping[str, Mapping[str, Any]]) -> Each:
    """Turn ``host -> argument -> value`` into ``argument -> host -> value``."""
    found: Each = {}
    for host, own in given.items():
        for name, value in own.items():
            found.setdefault(name, {})[host] = value
    return found


def format_arguments_json(each: Each) -> str:
    """Format the arguments as JSON, because Ansible processes every value in a dictionary that a template returns.

    With 200 hosts, the rows for testing a mesh are 45,000, which took Ansible 12 s.
    """
    return json.dumps(each)


def read_arguments(each: Any) -> Each:
    """Return the arguments from either form."""
    found: Each = json.loads(each) if isinstance(each, str) else each
    return found
