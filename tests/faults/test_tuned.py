"""Nodes that ``site.yml`` has configured."""

from __future__ import annotations

import json
import statistics
import subprocess
import time

import pytest
from causes.faults import TUNED, Fault

from fullmesh.settings import ROOT

from . import table
from .bench import Bench, run_fullmesh
from .checks import (
    ROUNDS,
    check_both_faults,
    check_fault,
    check_healthy_nodes,
    check_nothing_changes,
    find_fault,
    list_parameters,
    make_fault,
)
from .conftest import configure_cluster


@pytest.mark.parametrize("fault", list_parameters(TUNED))
def test_fault_is_found(tuned: Bench, fault: Fault, check_every: int) -> None:
    check_fault(tuned, fault, check_every)


@pytest.mark.rest
def test_faults_on_two_nodes_are_both_found(tuned: Bench) -> None:
    check_both_faults(tuned, [find_fault(TUNED, "second-table"), find_fault(TUNED, "port-taken")])


def test_healthy_nodes_have_no_finding(tuned: Bench) -> None:
    check_healthy_nodes(tuned, 2, 4)


def measure_ping(inventory: str) -> float:
    """Measure the duration of an Ansible ping on these nodes."""
    command = ["ansible", "-i", inventory, "torch_nodes", "-m", "ping"]
    begun = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.monotonic() - begun


@pytest.mark.rest
def test_diagnose_command_and_its_time(tuned: Bench) -> None:
    """Check exit code, JSON and terminal output, and measure the time."""
    inventory = str(tuned.write_inventory(list(tuned.nodes)[:2]))
    assert run_fullmesh("diagnose", "-i", inventory).returncode == 0
    diagnose_seconds, ping_seconds = [], []
    with make_fault(tuned, find_fault(TUNED, "second-table")) as (victim, peer):
        for _ in range(ROUNDS):
            ping_seconds.append(measure_ping(inventory))
            begun = time.monotonic()
            done = run_fullmesh("diagnose", "-i", inventory, "--json")
            diagnose_seconds.append(time.monotonic() - begun)
            assert done.returncode == 1, done.stderr
            assert [f["code"] for f in json.loads(done.stdout)["findings"]] == ["DG-113"]
        output = run_fullmesh("diagnose", "-i", inventory)
    assert output.returncode == 1
    for text in ("[DG-113]", victim, peer, "fault", "fix:"):
        assert text in output.stdout
    diagnose_median, ping_median = (
        statistics.median(diagnose_seconds),
        statistics.median(ping_seconds),
    )
    table.save_row(
        "time",
        said=f"`./fullmesh diagnose` on two nodes: median {diagnose_median:.1f} s. "
        f"`ansible -m ping` on them: {ping_median:.1f} s",
    )


# After all faults and their repairs, on the same nodes.
def test_diagnosis_changes_nothing(tuned: Bench) -> None:
    check_nothing_changes(tuned)


# Last: the cluster grows from two nodes.
@pytest.mark.rest
@pytest.mark.parametrize("count", [3, 4])
def test_larger_cluster_has_no_finding(tuned: Bench, count: int) -> None:
    configure_cluster(tuned, count)
    check_healthy_nodes(tuned, count, 4)
