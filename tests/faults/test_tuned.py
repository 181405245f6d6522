"""Nodes as ``site.yml`` leaves them."""

from __future__ import annotations

import json
import statistics
import subprocess
import time

import pytest
from causes.faults import TUNED, Fault

from fullmesh.settings import ROOT

from . import table
from .bench import Bench, fullmesh
from .checks import (
    ROUNDS,
    both_are_named,
    broken,
    fault_is_named,
    healthy_is_silent,
    named,
    nothing_changes,
    parameters,
)
from .conftest import configure


@pytest.mark.parametrize("fault", parameters(TUNED))
def test_named(tuned: Bench, fault: Fault, silence_every: int) -> None:
    fault_is_named(tuned, fault, silence_every)


@pytest.mark.rest
def test_two_faults_on_different_nodes_are_both_named(tuned: Bench) -> None:
    both_are_named(tuned, [named(TUNED, "second-table"), named(TUNED, "port-taken")])


def test_healthy_nodes_are_silent(tuned: Bench) -> None:
    healthy_is_silent(tuned, 2, 4)


def seconds_of_ping(inventory: str) -> float:
    """What a round trip of Ansible costs on these nodes."""
    command = ["ansible", "-i", inventory, "torch_nodes", "-m", "ping"]
    begun = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.monotonic() - begun


@pytest.mark.rest
def test_the_command_as_a_user_types_it(tuned: Bench) -> None:
    """Exit code, JSON, words on the terminal; and how much of the time is our own."""
    inventory = str(tuned.chosen(list(tuned.nodes)[:2]))
    assert fullmesh("diagnose", "-i", inventory).returncode == 0
    took, pings = [], []
    with broken(tuned, named(TUNED, "second-table")) as (victim, peer):
        for _ in range(ROUNDS):
            pings.append(seconds_of_ping(inventory))
            begun = time.monotonic()
            done = fullmesh("diagnose", "-i", inventory, "--json")
            took.append(time.monotonic() - begun)
            assert done.returncode == 1, done.stderr
            assert [f["code"] for f in json.loads(done.stdout)["findings"]] == ["DG-113"]
        shown = fullmesh("diagnose", "-i", inventory)
    assert shown.returncode == 1
    for word in ("[DG-113]", victim, peer, "fault", "fix:"):
        assert word in shown.stdout
    whole, ping = statistics.median(took), statistics.median(pings)
    table.row(
        "time",
        said=f"`./fullmesh diagnose` on two nodes: median {whole:.1f} s; `ansible -m ping` on them: {ping:.1f} s",
    )


# After all faults and their repairs, on the nodes that have seen them.
def test_a_diagnosis_changes_nothing(tuned: Bench) -> None:
    nothing_changes(tuned)


# Last: the cluster of two grows.
@pytest.mark.rest
@pytest.mark.parametrize("count", [3, 4])
def test_a_larger_cluster_is_silent(tuned: Bench, count: int) -> None:
    configure(tuned, count)
    healthy_is_silent(tuned, count, 4)
