"""Group nodes by a value that each needs for itself."""

from __future__ import annotations

from collections.abc import Mapping


def group_equal_values(held: Mapping[str, str]) -> dict[str, list[str]]:
    """Map each value that more than one node has to these nodes."""
    found: dict[str, list[str]] = {}
    for name, value in held.items():
        if value:
            found.setdefault(value, []).append(name)
    return {value: names for value, names in found.items() if len(names) > 1}
