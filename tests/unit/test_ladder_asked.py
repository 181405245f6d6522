"""The queries of a verification to each node, as its filters pass them to ask_nodes."""

from __future__ import annotations

from typing import Any

import simulated_nodes

from fullmesh.ask.each import read_arguments
from fullmesh.filters.observe import verify_cluster
from fullmesh.observed.ladder_arguments import LADDER_GLOO, LADDER_LINKS, LADDER_NODE, Arguments
from fullmesh.verify import schedule

PYTHON = "/opt/fullmesh/venv/bin/python"


def takes_arguments(each: Any, arguments: Arguments) -> bool:
    """Return whether the module takes all of it."""
    return set(each) <= set(arguments)


def test_each_node_is_queried_about_itself_by_its_own_interpreter() -> None:
    plan, held = simulated_nodes.make_hostvars(3)
    first, second, third = plan["nodes"]
    held[second]["torch_runtime_path"] = "/data/venv"
    held[third]["verify_cluster_python"] = "/usr/bin/python3.11"
    each = verify_cluster.ladder_wants(plan, held, "peers_range", PYTHON)
    assert takes_arguments(each, LADDER_NODE)
    assert each["node"] == {name: name for name in plan["nodes"]}
    assert each["address"][second] == plan["nodes"][second]["address"]
    assert [each["python"][name] for name in (second, third)] == [
        "/data/venv/bin/python",
        "/usr/bin/python3.11",
    ]
    assert each["python"][first] == PYTHON
    assert {kind["kind"] for kind in each["named"][plan["master"]["node"]]} == {
        "master",
        "rendezvous",
    }


def test_one_nodes_environment_is_not_that_of_the_others() -> None:
    plan, held = simulated_nodes.make_hostvars(3)
    first, second, _ = plan["nodes"]
    held[first]["torch_runtime_path"] = "/data/venv"
    # the task that asks for all of them runs for the first one, and has its value
    asked = verify_cluster.choose_interpreters(plan, held, "/data/venv/bin/python")
    assert asked[first] == "/data/venv/bin/python"
    assert asked[second] == PYTHON


def test_ranks_get_the_card_that_has_the_cluster_address() -> None:
    plan, held = simulated_nodes.make_hostvars(3)
    looked = simulated_nodes.group_answers(held)["__verify_cluster_node"]["answers"]
    name = simulated_nodes.make_node_name(1)
    looked[name]["facts"]["interface"]["name"] = "ens5"
    jobs = verify_cluster.ladder_jobs(plan, held, looked, {"WORLD_SIZE": 3}, PYTHON)
    assert takes_arguments(jobs, LADDER_GLOO)
    assert jobs["ranks"][name] == plan["nodes"][name]["ranks"]
    assert jobs["environment"][name] == {
        "WORLD_SIZE": 3,
        "LOCAL_WORLD_SIZE": 1,
        "GLOO_SOCKET_IFNAME": "ens5",
        "NCCL_SOCKET_IFNAME": "=ens5",
    }


def test_ranks_get_the_library_settings_of_a_login() -> None:
    plan, held = simulated_nodes.make_hostvars(2)
    looked = simulated_nodes.group_answers(held)["__verify_cluster_node"]["answers"]
    name, other = plan["nodes"]
    login = {
        "GLOO_DEVICE_TRANSPORT": "UV",
        "WORLD_SIZE": "9",
        "NCCL_X": "http://...@a",
        "LD_A": "1",
    }
    start = {"known": True, "command": {"TORCH_LOGS": "all"}, "login": login}
    looked[name]["facts"]["survey"] = {"job_start": {**start, "login": login}}
    looked[other]["facts"]["survey"] = {"job_start": {**start, "known": False}}
    jobs = verify_cluster.ladder_jobs(plan, held, looked, {"WORLD_SIZE": 2}, PYTHON)
    got = {one: jobs["environment"][one] for one in plan["nodes"]}
    assert set(got[name]) - set(got[other]) == {"GLOO_DEVICE_TRANSPORT", "TORCH_LOGS"}
    assert got[name]["WORLD_SIZE"] == 2


def test_nodes_outside_the_limit_are_not_queried() -> None:
    plan, held = simulated_nodes.make_hostvars(3)
    looked = simulated_nodes.group_answers(held)["__verify_cluster_node"]["answers"]
    out = simulated_nodes.make_node_name(2)
    del looked[out]
    opened = verify_cluster.ladder_opened(looked)
    scope = schedule.build_probe_scope(plan, "auto", [], False, simulated_nodes.RUN)
    assert (
        out not in read_arguments(verify_cluster.ladder_probes(plan, opened, scope, looked))["node"]
    )
    assert out not in verify_cluster.ladder_jobs(plan, held, looked, {}, PYTHON)["ranks"]
    about = verify_cluster.ladder_about(plan, {}, plan["nodes"])
    assert about == {name: {} for name in plan["nodes"]}


def test_every_node_connects_to_all_others() -> None:
    plan, held = simulated_nodes.make_hostvars(3)
    told = simulated_nodes.group_answers(held)
    looked = told["__verify_cluster_node"]["answers"]
    opened = verify_cluster.ladder_opened(looked)
    scope = schedule.build_probe_scope(plan, "auto", [], False, simulated_nodes.RUN)
    each = read_arguments(verify_cluster.ladder_probes(plan, opened, scope, looked))
    assert takes_arguments(each, LADDER_LINKS)
    for name in plan["nodes"]:
        assert {target["node"] for target in each["targets"][name]} == set(plan["nodes"]) - {name}
        assert each["sweep"][name] == []
