"""The Ansible filters of plan and preflight: results of tasks, and the hosts of a play."""

from __future__ import annotations

from typing import Any

import pytest

from fullmesh.filters.cluster_plan import plan_made, preflight_unasked
from fullmesh.filters.pattern import NO_HOSTS

HOSTS = ["a", "b", "c"]
CORE = "2.19.4"


def hostvars(**own: Any) -> dict[str, dict[str, Any]]:
    return {
        host: {
            "ansible_host": f"192.0.2.{number}",
            "fullmesh_address": f"10.78.0.{number}/24",
            **own,
        }
        for number, host in enumerate(HOSTS, 1)
    }


def test_a_plan_is_a_plan_without_faults() -> None:
    made = plan_made(hostvars(), {"torch_nodes": HOSTS}, CORE)
    assert "faults" not in made
    assert list(made["nodes"]) == HOSTS


@pytest.mark.parametrize(
    ("own", "groups", "core", "code"),
    [
        ({}, {"torch_nodes": HOSTS}, "2.10.0", "PL-121"),
        ({}, {"torch_nodes": []}, CORE, "PL-100"),
        ({"fullmesh_master_port": "x"}, {"torch_nodes": HOSTS}, CORE, "[PL-"),
    ],
)
def test_an_impossible_plan_is_refused_with_all_faults(
    own: dict[str, Any], groups: dict[str, list[str]], core: str, code: str
) -> None:
    made = plan_made(hostvars(**own), groups, core)
    assert list(made) == ["faults"]
    assert code in " ".join(made["faults"])


def test_no_node_is_surveyed_before_any_was_queried() -> None:
    assert preflight_unasked({}, HOSTS) == NO_HOSTS
    assert preflight_unasked(hostvars(), HOSTS) == NO_HOSTS


@pytest.mark.parametrize(
    ("ordinary", "silent", "pattern"),
    [([], [], NO_HOSTS), (["c"], [], "c"), ([], ["a"], "a"), (["c"], ["a"], "c,a")],
)
def test_nodes_without_answer_are_surveyed(
    ordinary: list[str], silent: list[str], pattern: str
) -> None:
    answers = {host: {"unreachable": True} if host in silent else {} for host in HOSTS}
    asked = {"answers": answers, "ordinary": ordinary}
    assert preflight_unasked(hostvars(__preflight_asked=asked), HOSTS) == pattern
    # --limit may leave out hosts that come first: nothing was registered for them
    limited = {**hostvars(__preflight_asked=asked), "a": {}}
    assert preflight_unasked(limited, HOSTS) == pattern
