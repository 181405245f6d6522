"""``diagnose`` on nodes with a real Slurm: the first second of a job that srun starts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_nodes import Node, list_lab_nodes
from plays import run
from slurm_site import SERVICES, install_slurm, write_slurm_conf

from devtools.lab import lifecycle
from devtools.lab.paths import find

from .conftest import load_latest_result, site

LAB = "e2e-slurm"
ACCOUNT = "trainer"
PORTS = (50000, 54094)  # of the plan, without its last port
PROLOG = "/etc/slurm/task-prolog"
DROP_IN = "/etc/systemd/system/slurmd.service.d"
Cluster = tuple[list[Node], str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Make two nodes that ``site.yml`` configured, with Slurm and an account of jobs."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
    nodes = list(list_lab_nodes(LAB).values())
    for one in nodes:
        one.on(f"useradd --create-home --shell /bin/bash {ACCOUNT}")
    inventory = str(Path(lifecycle.inventory_path(find(), LAB)).parent)
    options = ("--skip-tags", "verify", "-e", SERVICES, "-e", f"launchers_job_user={ACCOUNT}")
    done = site(*options, inventory=inventory)
    assert done.code == 0, done.output[-3000:]
    install_slurm(nodes, PORTS)
    yield nodes, inventory
    run("./fullmesh", "lab", "down", "--name", LAB)


def run_diagnosis(inventory: str) -> dict[str, Any]:
    """Run the user's command, and return its result."""
    more = ("-e", SERVICES, "-e", f"launchers_job_user={ACCOUNT}")
    run("./fullmesh", "diagnose", "-i", inventory, "--progress", "plain", "--", *more)
    return load_latest_result()


@contextmanager
def break_node(node: Node, do: str, undo: str) -> Iterator[None]:
    """Make a change, and undo it."""
    node.on(do)
    try:
        yield
    finally:
        node.on(undo)


def count_jobs(node: Node) -> int:
    """Return the number of jobs that Slurm still has."""
    return len(node.on("squeue -h").splitlines())


def test_healthy_nodes_with_slurm_have_no_finding_and_leave_no_job(cluster: Cluster) -> None:
    nodes, inventory = cluster
    result = run_diagnosis(inventory)
    assert result["findings"] == []
    assert "srun" not in json.dumps(result["not_looked_at"])
    assert count_jobs(nodes[0]) == 0


WRITE = f"cat > {PROLOG} <<'END'\n#!/bin/sh\n{{line}}\nEND\nchmod 755 {PROLOG}"
FAULTS = {
    "a variable of the plan": ("echo export GLOO_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth0"),
    "a value that torch rejects": (
        "echo export TORCH_DISTRIBUTED_DEBUG=LOUD",
        "TORCH_DISTRIBUTED_DEBUG is not one of",
    ),
    "a Python that does not start": ("echo export PYTHONHOME=/nosuch", "encodings"),
    "a prolog that fails": ("exit 1", "TaskProlog failed status=1"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_task_prolog_is_named(cluster: Cluster, name: str) -> None:
    nodes, inventory = cluster
    line, told = FAULTS[name]
    write_slurm_conf(nodes, PORTS, f"TaskProlog={PROLOG}")
    for one in nodes:
        one.on(WRITE.format(line="true"))
    with break_node(nodes[1], WRITE.format(line=line), f"rm {PROLOG}"):
        found = run_diagnosis(inventory)["findings"]
    write_slurm_conf(nodes, PORTS)
    assert [(one["code"], one["node"]) for one in found] == [("VC-329", nodes[1].name)], found
    assert told in found[0]["cause"] + found[0]["seen"]
    assert PROLOG in found[0]["seen"] + found[0]["fix"]


def test_limits_of_slurmd_are_named(cluster: Cluster) -> None:
    nodes, inventory = cluster
    write_slurm_conf(nodes, PORTS, "PropagateResourceLimits=NONE")
    lines = f"mkdir -p {DROP_IN}; printf '[Service]\\nLimitNOFILE=64\\n' > {DROP_IN}/low.conf"
    restart = "systemctl daemon-reload; systemctl restart slurmd; sleep 2"
    with break_node(nodes[0], f"{lines}; {restart}", f"rm -r {DROP_IN}; {restart}"):
        found = run_diagnosis(inventory)["findings"]
    write_slurm_conf(nodes, PORTS)
    assert [(one["code"], one["node"]) for one in found] == [("VC-329", nodes[0].name)], found
    assert "the limit NOFILE is 64" in found[0]["cause"]


def test_a_node_that_another_job_uses_is_left_alone(cluster: Cluster) -> None:
    nodes, inventory = cluster
    begin = (
        f"cd /; su {ACCOUNT} -c 'setsid srun -Q -w {nodes[1].name} sleep 600 >/dev/null 2>&1 &'; "
        'for _ in $(seq 40); do [ -z "$(squeue -h -t R)" ] || break; sleep 0.5; done'
    )
    with break_node(nodes[0], begin, f"scancel -u {ACCOUNT}; sleep 1"):
        result = run_diagnosis(inventory)
        assert count_jobs(nodes[0]) == 1
    assert result["findings"] == []
    (line,) = [one for one in result["not_looked_at"] if "slurm start" in json.dumps(one)]
    assert "Slurm did not start a job" in json.dumps(line)
