"""How many nodes go at a time, and where ssh finds one."""

from __future__ import annotations

from typing import Any

import pytest

from fullmesh.faults import Fault
from fullmesh.model import batching


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("100%", ["100%"]),
        (1, [1]),
        ("2", [2]),
        ("25%", ["25%"]),
        ([1, "50%", "100%"], [1, "50%", "100%"]),
    ],
)
def test_batches(value: Any, expected: list[int | str]) -> None:
    assert batching.parse_batches(value) == expected


@pytest.mark.parametrize(
    "value", [0, -1, True, None, "", "0%", "101%", "1.5", "one", [], [1, 0], {"all": 1}, "\u0661"]
)
def test_an_invalid_batch_size(value: Any) -> None:
    faults: list[Fault] = []
    assert batching.read_serial(value, faults) == ["100%"]
    assert [fault.code for fault in faults] == ["PL-128"]


@pytest.mark.parametrize(
    "text",
    ["10.0.0.1", "10.0.0.1:22", "fd78::1", "[fd78::1]", "[fd78::1]:22", "gateway.example:2223"],
)
def test_where_ssh_may_be_pointed(text: str) -> None:
    assert batching.is_ssh_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "gateway:ssh",
        "gateway:",
        "gateway:-1",
        "gateway:65536",
        "[fd78::1]:0x16",
        "a b",
        "root@node",
    ],
)
def test_where_it_may_not(text: str) -> None:
    faults: list[Fault] = []
    batching.check_ssh_addresses({"a": {"fullmesh_ssh_address": text}}, faults)
    assert [fault.code for fault in faults] == ["PL-129"]
    assert text in str(faults[0])


def test_a_node_excluded_by_limit_has_no_plan() -> None:
    hosts = {"a": {}, "b": {"fullmesh_plan": {"serial": [1]}}}
    assert batching.find_plan_batches(hosts, ["a", "b"]) == [1]
    assert batching.find_plan_batches(hosts, ["a"]) == ["100%"]
    assert batching.find_plan_batches({}, ["a"]) == ["100%"]  # --syntax-check
