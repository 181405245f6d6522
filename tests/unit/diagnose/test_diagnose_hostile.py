"""Diagnosis: hostile and truncated observations."""

from __future__ import annotations

import copy
import json
from typing import Any

from diagnosis_cases import HEALTHY, place, sent
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from records import ABOUT, World
from records import UBUNTU1 as UB

from fullmesh.diagnose import judge
from fullmesh.result import read


def judge_leniently(world: World) -> dict[str, Any]:
    """Judge the answers of a broken or hostile machine without the strict reader."""
    return judge.diagnose_cluster(world["plan"], world["nodes"], ABOUT)


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(max_size=20),
        st.sampled_from(
            ["<script>alert(1)</script>", "\x1b[31m", "${jndi:x}", "10.78.5.11", "eth1", "-1", "٣"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an observation."""
    found = [here] if here else []
    items: Any = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        found += paths(inner, (*here, key))
    return found


PLACES = paths(HEALTHY["nodes"])


@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON, st.booleans()), min_size=1, max_size=8))
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@example([(("el1", "links", "links", 11, "lost"), -1, False)])  # its share of all was no share
def test_no_observation_crashes_a_rule(changes: list[tuple[tuple[Any, ...], Any, bool]]) -> None:
    world = copy.deepcopy(HEALTHY)
    for path, value, drop in changes:
        place(world, path, value, drop)
    found = judge_leniently(world)
    assert read.list_result_faults(found) == []
    text = json.dumps(found)
    assert "\\u001b" not in text


@given(JSON)
@settings(max_examples=60, deadline=None)
def test_no_answer_crashes_the_judge(answer: Any) -> None:
    world = copy.deepcopy(HEALTHY)
    world["nodes"][UB] = answer
    found = judge_leniently(world)
    assert [f["code"] for f in found["findings"] if f["code"] in ("DG-201", "DG-202")]


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_rules_that_only_log_block_nothing(noise: bytes) -> None:
    try:
        held = json.loads(noise.decode("utf-8", "replace"))
    except ValueError:
        held = noise.decode("latin-1")
    garbled = {
        "chains": [held, {"hook": "input", "family": "inet"}],
        "rules": [held, {"expr": held}],
        "sets": [held],
    }
    assert sent(garbled).verdict == "accept"
