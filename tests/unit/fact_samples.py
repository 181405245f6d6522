"""What node_facts returned on a lab node, with a change of the test's."""

from __future__ import annotations

from typing import Any

from record_files import RECORDED, load_record

from fullmesh.contract import convert_value
from fullmesh.observed.node import NodeFacts, Observations


def facts(**change: Any) -> Observations:
    """What it saw, with other fields; a field of another form is refused."""
    said = convert_value(NodeFacts, load_record(RECORDED / "ladder/ubuntu1-facts.json"))
    return convert_value(Observations, {**said["ansible_facts"]["fullmesh"], **change})
