"""Run jobs on four nodes with one rank each: the finding names the right rank.

`fullmesh-check burn` on three of them names the slow one.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from causes.cases import JOB_FAULTS
from causes.job_faults import CPU, MAKE_GROUPS, REMOVE_GROUPS, JobFault
from lab_nodes import ENVIRONMENT, Node

from .bench import POLL, Bench
from .test_hang import find_difference, run_hung_job

# a sleeping rank, a chain of groups, two causes, a different collective, a group without its caller
CHOSEN = tuple(one for one in JOB_FAULTS if one.world == 4)


@pytest.mark.rest
@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in CHOSEN])
def test_hung_job_on_four_nodes_has_the_right_cause(four_nodes: Bench, fault: JobFault) -> None:
    with run_hung_job(four_nodes, fault) as job:
        answer = four_nodes.query_job(*fault.options)
        difference = find_difference(job, fault, answer)
    assert not difference, f"{difference}\n{answer.describe_findings()}\n{job.read_output()}"


BURN = "/opt/fullmesh/bin/fullmesh-check burn --with-peers --hosts /run/three --json"
BURN_SECONDS = 150  # of all, on a busy machine
# a process of torch has connected to the store of the first node
JOINED = "ss -Htn state established 'dport = :29500 or sport = :29500' | grep -q ."


def run_burn(nodes: list[Node], change: Callable[[], object] = bool) -> dict[str, dict[str, Any]]:
    """Run `burn` on some nodes at the same time. Return the document of each node.

    Args:
        nodes: that take part.
        change: is called when the last node has joined, because torch starts slowly on a slow node.
    """
    hosts = "\n".join(one.address for one in nodes)
    for one in nodes:
        one.on(f"echo '{hosts}' > /run/three")
    started = {
        one.name: subprocess.Popen(
            [*one.enter, "sh", "-c", BURN],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for one in nodes
    }
    while any(one.poll() is None for one in started.values()):
        if nodes[-1].on(f"{JOINED} && echo yes || true"):
            change()
            break
        time.sleep(POLL)
    return {
        name: json.loads(one.communicate(timeout=BURN_SECONDS)[0]) for name, one in started.items()
    }


def expect_states(documents: dict[str, dict[str, Any]], *expected: int) -> None:
    """Compare the status of each node."""
    texts = [one["text"] for one in documents.values()]
    assert tuple(one["status"] for one in documents.values()) == expected, "\n".join(texts)


def list_findings(document: dict[str, Any]) -> list[str]:
    """Return the codes of the level."""
    return [one["code"] for one in document["checks"]["burn"]["findings"]]


@pytest.mark.rest
def test_equal_nodes_burn_without_a_finding(four_nodes: Bench) -> None:
    nodes = four_nodes.nodes[:3]
    documents = run_burn(nodes)
    expect_states(documents, 0, 0, 0)
    for node in nodes:
        figures = documents[node.name]["checks"]["burn"]["figures"]
        assert figures["tflops"][0] > 0
        assert figures["reduction"] > 0
        assert len(json.loads(node.on("cat /var/lib/fullmesh/burn.json"))["runs"]) >= 1


@pytest.mark.rest
def test_burn_names_the_node_with_slow_cpus(four_nodes: Bench) -> None:
    nodes = four_nodes.nodes[:3]
    slow = nodes[2]
    slow.on(MAKE_GROUPS)
    throttle = (
        f"cd {CPU}/fullmesh-hang; echo 100000 > cpu.cfs_period_us; echo 2000 > cpu.cfs_quota_us; "
        "for pid in $(pgrep -f '[f]ullmesh_burn_rank'); do echo $pid > cgroup.procs; done"
    )
    try:
        documents = run_burn(nodes, lambda: slow.on(throttle))
    finally:
        slow.on(REMOVE_GROUPS)
    expect_states(documents, 0, 0, 1)
    assert list_findings(documents[nodes[2].name]) == ["HC-171"]
    assert " of its peers. Fix: " in documents[nodes[2].name]["text"]


@pytest.mark.rest
def test_burn_names_the_node_with_a_slow_link(four_nodes: Bench) -> None:
    nodes = four_nodes.nodes[:3]
    shape = "tc qdisc add dev eth1 root tbf rate 40mbit burst 64kb latency 400ms"
    nodes[2].on(shape)
    try:
        documents = run_burn(nodes)
    finally:
        nodes[2].on("tc qdisc del dev eth1 root")
    expect_states(documents, 0, 0, 1)
    assert list_findings(documents[nodes[2].name]) == ["HC-172"]


@pytest.mark.rest
def test_burn_alone_names_the_nodes_that_do_not_take_part(four_nodes: Bench) -> None:
    nodes = four_nodes.nodes[:3]
    nodes[0].on("printf '%s\\n' " + " ".join(one.address for one in nodes) + " > /run/three")
    said = subprocess.run(
        [*nodes[0].enter, "sh", "-c", BURN],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=BURN_SECONDS,
    )
    assert said.returncode == 2, said
    assert "burn: not all nodes took part: start it on " in json.loads(said.stdout)["text"]
