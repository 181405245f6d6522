"""What node_facts returned on a lab node, with a change of the test's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fullmesh.contract import read
from fullmesh.observed.node import NodeFacts, Observations

RECORDED = Path(__file__).parent / "recorded/ladder/ubuntu1-facts.json"


def facts(**change: Any) -> Observations:
    """What it saw, with other fields; a field of another form is refused."""
    said = read(NodeFacts, json.loads(RECORDED.read_text()))
    return read(Observations, {**said["ansible_facts"]["fullmesh"], **change})
