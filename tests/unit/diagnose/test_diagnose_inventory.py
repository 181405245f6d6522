"""Diagnosis: inventories with and without a plan."""

from __future__ import annotations

import copy
from typing import Any

from diagnosis_cases import HEALTHY
from hypothesis import given, settings
from hypothesis import strategies as st
from records import EL1 as EL
from records import UBUNTU1 as UB
from records import diagnose_answers as judged

from fullmesh import contract
from fullmesh.diagnose import inventory
from fullmesh.model.types import ClusterPlan


def test_an_inventory_with_addresses_is_enough() -> None:
    made = inventory.build_tolerant_plan(
        {"a": {"ansible_host": "10.0.0.1"}, "b": {"ansible_host": "10.0.0.2"}}, ["a", "b"]
    )
    assert [n["address"] for n in made["nodes"].values()] == ["10.0.0.1", "10.0.0.2"]
    assert made["assumed"] is True
    assert made["faults"] == []
    assert contract.convert_value(ClusterPlan, made) == made


def test_a_planned_inventory_keeps_its_plan() -> None:
    hosts = {
        n: {"fullmesh_address": f"10.0.0.{i}/24", "fullmesh_data_ports": "40000-44095"}
        for i, n in enumerate("ab", 1)
    }
    made = inventory.build_tolerant_plan(hosts, ["a", "b"])
    assert made["assumed"] is False
    assert made["data_ports"]["firewalld"] == "40000-44095"


def test_a_wrong_inventory_is_diagnosed_and_reported() -> None:
    hosts = {n: {"fullmesh_address": "10.0.0.1/24"} for n in "ab"}
    made = inventory.build_tolerant_plan(hosts, ["a", "b"])
    assert [fault["code"] for fault in made["faults"]] == ["PL-105"]
    assert made["world_size"] == 2


def test_configured_nodes_are_not_held_to_a_guessed_plan() -> None:
    world = copy.deepcopy(HEALTHY)
    hosts = {n: {"ansible_host": world["plan"]["nodes"][n]["address"]} for n in (EL, UB)}
    world["plan"] = inventory.build_tolerant_plan(hosts, [EL, UB])
    assert inventory.build_node_request(world["plan"], EL, {})["range"] == []
    assert judged(world)["findings"] == []


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "fullmesh_address",
                "ansible_host",
                "fullmesh_links",
                "fullmesh_local_ranks",
                "fullmesh_master_port",
            ]
        ),
        st.one_of(
            st.text(max_size=8), st.integers(), st.none(), st.lists(st.text(max_size=5), max_size=2)
        ),
    )
)
@settings(max_examples=60, deadline=None)
def test_no_inventory_is_too_odd(variables: dict[str, Any]) -> None:
    made = inventory.build_tolerant_plan({"10.0.0.9": variables}, ["10.0.0.9"])
    assert made["nodes"]["10.0.0.9"]["local_ranks"] >= 1
