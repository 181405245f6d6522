"""The one place that knows where the survey of a node stands in what was kept of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fullmesh.observed.survey import Survey

# library/ladder_node.py returns it among the facts.
PLACE = ("node", "facts", "survey")


def survey_of(node: object) -> Survey:
    """The survey in what was kept of a node, {} where there is none; *node* may be anything that a node said."""
    held: Any = node
    for key in PLACE:
        held = held.get(key) if isinstance(held, Mapping) else None
    return cast("Survey", held if isinstance(held, Mapping) else {})
