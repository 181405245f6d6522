"""The one place that knows where the survey of a node stands in what was kept of the node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fullmesh.observed.survey import NodeSurvey

# library/ladder_node.py returns it among the facts.
PLACE = ("node", "facts", "survey")


def get_survey(node: object) -> NodeSurvey:
    """The survey in what was kept of a node, {} where there is none; *node* may be anything that a node said."""
    held: Any = node
    for key in PLACE:
        held = held.get(key) if isinstance(held, Mapping) else None
    return cast("NodeSurvey", held if isinstance(held, Mapping) else {})
