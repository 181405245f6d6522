"""Values that two nodes share."""

from __future__ import annotations

from collections.abc import Mapping


def group_equal_values(held: Mapping[str, str]) -> dict[str, list[str]]:
    """Value -> the nodes that have it, where there is more than one."""
    found: dict[str, list[str]] = {}
    for name, value in held.items():
        if value:
            found.setdefault(value, []).append(name)
    return {value: names for value, names in found.items() if len(names) > 1}
