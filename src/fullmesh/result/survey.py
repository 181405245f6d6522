"""Find the survey of a node in the stored data of the node. Only this module knows its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fullmesh.observed.survey import NodeSurvey

# library/ladder_node.py returns it among the facts.
PLACE = ("node", "facts", "survey")


def get_survey(node: object) -> NodeSurvey:
    """Return the survey in the stored data of a node, or {}. *node* may be any answer of a node."""
    held: Any = node
    for key in PLACE:
        held = held.get(key) if isinstance(held, Mapping) else None
    return cast("NodeSurvey", held if isinstance(held, Mapping) else {})
