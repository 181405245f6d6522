"""Make collectives slow or wrong on one of four nodes.

``verify --bisect`` names it in three runs of Gloo jobs.

The slow node has a rate limit on its own interface. The wrong node is a stand-in for broken memory
or a broken NIC: its torch adds one to the input of all_reduce.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_nodes import Node, list_lab_nodes
from plays import Done, run

from devtools.lab import lifecycle
from devtools.lab.paths import find

from .conftest import load_latest_result, site

LAB = "e2e-bisect"
MOST = 3  # log2 of four nodes, plus one
RATE = "root tbf rate 100mbit burst 64kbit limit 8mb"
TORCH = "/opt/fullmesh/venv/lib/python3.*/site-packages/torch/distributed/distributed_c10d.py"
STAND_IN = """
_whole = all_reduce
def all_reduce(tensor, *given, **named):
    tensor.flatten()[:1].add_(1)
    return _whole(tensor, *given, **named)
"""
BREAK_TORCH = f"""
file=$(echo {TORCH}); cp -p "$file" "$file.whole"; cp -p "$file" "$file.bent"
cat >> "$file.bent" <<'END'
{STAND_IN}
END
mv "$file.bent" "$file"
"""
RESTORE_TORCH = f'file=$(echo {TORCH}); mv "$file.whole" "$file"'


@pytest.fixture(scope="module")
def lab() -> Iterator[tuple[dict[str, Node], str]]:
    """Make four nodes that ``site.yml`` configured."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB, "--nodes", "4").code == 0
    inventory = str(Path(lifecycle.inventory_path(find(), LAB)).parent)
    assert site("--skip-tags", "verify", inventory=inventory).code == 0
    yield list_lab_nodes(LAB), inventory
    run("./fullmesh", "lab", "down", "--name", LAB)


def run_bisect(inventory: str, *more: str) -> tuple[Done, dict[str, Any]]:
    """Run the user's command with 16 MiB, because four nodes share two CPUs."""
    words = ["--", "-e", json.dumps({"verify_cluster_bandwidth_mib": 16}), *more]
    done = run("./fullmesh", "verify", "-i", inventory, "--progress", "plain", "--bisect", *words)
    return done, load_latest_result()


def list_errors(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the code and node of each error."""
    return [(f["code"], f["node"]) for f in result["findings"] if f["severity"] == "error"]


@pytest.mark.lab
def test_healthy_nodes_have_no_finding_after_two_runs(lab: tuple[dict[str, Node], str]) -> None:
    done, result = run_bisect(lab[1])
    assert (done.code, list_errors(result)) == (0, [])
    assert len(result["bisect"]) == MOST - 1


@pytest.mark.lab
def test_the_slow_node_is_named(lab: tuple[dict[str, Node], str]) -> None:
    nodes, inventory = lab
    slow = list(nodes)[2]
    nodes[slow].on(f"tc qdisc add dev eth1 {RATE}")
    try:
        done, result = run_bisect(inventory)
        checked, result_of_check = run_bisect(inventory, "--check")
    finally:
        nodes[slow].on("tc qdisc del dev eth1 root", check=False)
    assert (done.code, list_errors(result)) == (1, [("VC-880", slow)])
    assert len(result["bisect"]) <= MOST
    assert done.says(f"bisect, run {MOST} of at most {MOST}: ")
    # --check runs the same measurement without an error code
    assert (checked.code, list_errors(result_of_check)) == (0, [])
    assert ("VC-880", slow) in [(f["code"], f["node"]) for f in result_of_check["findings"]]


@pytest.mark.lab
def test_the_node_with_wrong_numbers_is_named(lab: tuple[dict[str, Node], str]) -> None:
    nodes, inventory = lab
    wrong_node = list(nodes)[1]
    nodes[wrong_node].on(BREAK_TORCH)
    try:
        done, result = run_bisect(inventory)
    finally:
        nodes[wrong_node].on(RESTORE_TORCH, check=False)
    assert (done.code, list_errors(result)) == (1, [("VC-881", wrong_node)])
    assert len(result["bisect"]) <= MOST
