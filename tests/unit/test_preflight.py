"""Preflight: every fault that a node's observation can show."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fullmesh.model import plan
from fullmesh.roles import preflight

NOW = 1_800_000_000.0
PLAN = plan.derive(
    {
        "a": {"fullmesh_address": "10.0.0.11/24", "fullmesh_interface": "eth1"},
        "b": {"fullmesh_address": "10.0.0.12/24"},
    }
)


def facts(number: int, **changes: Any) -> dict[str, Any]:
    """A healthy node's facts; *changes* with two underscores reach into ``fullmesh``."""
    good: dict[str, Any] = {
        "distribution": "Rocky",
        "distribution_version": "9.4",
        "distribution_major_version": "9",
        "service_mgr": "systemd",
        "nodename": f"gpu{number}",
        "python": {"version": {"major": 3, "minor": 9}},
        "python_version": "3.9.18",
        "fullmesh": {
            "epoch": NOW + 1,
            "root": True,
            "free_bytes": {"/opt/fullmesh": 50_000_000_000},
            "interfaces": [
                {"name": "lo", "mac": "00:00:00:00:00:00", "addresses": ["127.0.0.1/8"]},
                {"name": "eth0", "mac": f"02:00:00:00:00:0{number}", "addresses": []},
                {
                    "name": "eth1",
                    "mac": f"02:00:00:00:01:0{number}",
                    "addresses": [f"10.0.0.1{number}/24"],
                },
            ],
        },
    }
    for name, value in changes.items():
        if name.startswith("seen__"):
            good["fullmesh"][name.removeprefix("seen__")] = value
        else:
            good[name] = value
    return good


def run(a: dict[str, Any], b: dict[str, Any] | None = None) -> list[str]:
    hostvars = {
        "a": {"__preflight": {"ansible_facts": a}},
        "b": {"__preflight": {"ansible_facts": b or facts(2)}},
    }
    return preflight.from_hostvars(PLAN, hostvars, ["a", "b"], NOW)


def test_healthy_nodes_have_no_fault() -> None:
    assert run(facts(1)) == []


def interfaces(**addresses: list[str]) -> list[dict[str, Any]]:
    return [
        {"name": name, "mac": f"02:00:00:00:02:0{at}", "addresses": held}
        for at, (name, held) in enumerate(addresses.items())
    ]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"distribution": "Gentoo"}, "PR-103"),
        ({"distribution_major_version": "8"}, "PR-103"),
        ({"seen__interfaces": interfaces(eth0=["10.0.0.11/24"])}, "PR-104"),
        ({"seen__interfaces": interfaces(eth1=[], eth0=["10.0.0.11/24"])}, "PR-106"),
        ({"seen__root": False}, "PR-107"),
        ({"seen__free_bytes": {"/opt/fullmesh": 10}}, "PR-109"),
        ({"seen__epoch": NOW - 90_000}, "PR-110"),
        ({"service_mgr": ""}, "PR-112"),
        ({"python": {"version": {"major": 3, "minor": 6}}}, "PR-113"),
        ({"nodename": "b"}, "PR-114"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_fault(changes: dict[str, Any], code: str) -> None:
    faults = run(facts(1, **changes))
    assert [fault[1:7] for fault in faults] == [code]
    assert "a: " in faults[0]


def test_an_interface_that_nobody_names() -> None:
    faults = run(facts(1), facts(2, seen__interfaces=interfaces(eth0=[], eth1=[])))
    assert [fault[1:7] for fault in faults] == ["PR-105"]


def test_one_machine_under_two_names() -> None:
    same = facts(1)
    twin = copy.deepcopy(same)
    twin["fullmesh"]["interfaces"][2]["addresses"] = ["10.0.0.12/24"]
    assert "PR-111" in "".join(run(same, twin))


def test_all_unreachable_nodes_are_in_one_fault() -> None:
    away = {"unreachable": True, "msg": "timed out\nsecond line"}
    hostvars = {"a": {"__preflight": away}, "b": {"__preflight": dict(away)}}
    faults = preflight.from_hostvars(PLAN, hostvars, ["a", "b"], NOW)
    assert len(faults) == 1
    assert faults[0].startswith("[PR-101] cannot reach 2 of 2 nodes (a: timed out; b: timed out)")


def test_a_node_that_answers_with_a_failure() -> None:
    hostvars = {
        "a": {"__preflight": {"failed": True, "msg": "Missing sudo password"}},
        "b": {"__preflight": {"ansible_facts": facts(2)}},
    }
    faults = preflight.from_hostvars(PLAN, hostvars, ["a", "b"], NOW)
    assert faults[0].startswith("[PR-102] a: cannot be observed: Missing sudo password")
