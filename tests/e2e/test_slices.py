"""Two controllers, each with its own checkout, each configure half of a cluster at the same time.

The tests check that each half knows the other half's nodes, that the results can be merged, and that a run over all
nodes from either controller changes nothing and verifies the cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkout import copy_checkout
from plays import Done, read_output, run

from devtools.lab import lifecycle
from devtools.lab.paths import find
from fullmesh.settings import ROOT

from .conftest import expect_success

LAB = "e2e-slices"
WORK = ROOT / ".fullmesh" / LAB
SLICES = ("torch_nodes[0:1]", "torch_nodes[2:3]")
SECONDS = 1800.0


@dataclass
class Controller:
    """A machine that runs Ansible, with its own checkout, connections and results."""

    name: str

    @property
    def folder(self) -> Path:
        """Return its checkout."""
        return WORK / self.name / "checkout"

    def __post_init__(self) -> None:
        """Copy the checkout."""
        copy_checkout(self.folder)

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Start the user's command on this controller."""
        sockets = WORK / self.name / "cp"
        sockets.mkdir(exist_ok=True)
        # print into a file, because nothing reads the pipes of two concurrent commands
        with (WORK / f"{self.name}.log").open("w") as log:
            return subprocess.Popen(
                ["ansible-playbook", "site.yml", "-i", str(find_inventory()), *more],
                cwd=self.folder,
                env={**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def wait_for(self, started: subprocess.Popen[str]) -> Done:
        """Wait for a command of this controller, and return its result."""
        code = started.wait(SECONDS)
        output = (WORK / f"{self.name}.log").read_text()
        sys.stdout.write(f"\n{self.name}, exit {code}:\n{output[-30000:]}\n")
        return Done(code, output, 0.0)

    def find_newest_run(self) -> Path:
        """Return the folder of its last run."""
        return max((self.folder / "runs").glob("*/result.json")).parent


def find_inventory() -> Path:
    return lifecycle.inventory_path(find(), LAB).parent


def run_on_node(name: str, command: str) -> str:
    """Run a shell command on a node."""
    argv = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--", "sh", "-c", command]
    return read_output(*argv, seconds=240)


@pytest.fixture(scope="module")
def controllers() -> Iterator[tuple[Controller, Controller]]:
    shutil.rmtree(WORK, ignore_errors=True)
    run("./fullmesh", "lab", "down", "--name", LAB)
    expect_success(run("./fullmesh", "lab", "up", "--name", LAB, "--nodes", "4"))
    yield Controller("one"), Controller("two")
    run("./fullmesh", "lab", "down", "--name", LAB)
    shutil.rmtree(WORK, ignore_errors=True)


@pytest.mark.lab
def test_two_controllers_configure_half_each(
    controllers: tuple[Controller, Controller],
) -> None:
    both = list(zip(controllers, SLICES, strict=True))
    running = [(controller, controller.start("--limit", part)) for controller, part in both]
    done = [controller.wait_for(started) for controller, started in running]
    for one in done:
        expect_success(one)
    hosts: dict[str, Any] = yaml.safe_load((find_inventory() / "hosts.yml").read_text())["all"][
        "children"
    ]["torch_nodes"]["hosts"]
    assert [set(one.changed()) for one in done] == [set(list(hosts)[:2]), set(list(hosts)[2:])]
    for name in hosts:
        peers = run_on_node(name, "nft list set inet firewalld fullmesh-peers4")
        names = run_on_node(name, "cat /etc/hosts")
        for other, settings in hosts.items():
            address = settings["fullmesh_address"].partition("/")[0]
            assert other == name or address in peers
            assert address in names
        assert "WORLD_SIZE=4" in run_on_node(name, "cat /etc/fullmesh/env")


@pytest.mark.lab
def test_results_of_both_controllers_are_merged(controllers: tuple[Controller, Controller]) -> None:
    runs = [str(controller.find_newest_run()) for controller in controllers]
    done = run("./fullmesh", "report", "--merge", *runs)
    assert done.code == 0
    merged = json.loads(max((ROOT / "runs").glob("*-merged/result.json")).read_text())
    checks = {row["id"]: row["status"] for row in merged["rungs"]}
    assert (checks["L0"], checks["L2"], checks["L3"]) == ("passed", "not_run", "not_run")
    # each half tested its own pair in both directions
    assert len(merged["links"]) == 4
    assert all(row["verdict"] == "open" for row in merged["links"])
    assert all(node["kernel"] for node in merged["nodes"].values())


@pytest.mark.lab
def test_run_over_all_nodes_changes_nothing(
    controllers: tuple[Controller, Controller],
) -> None:
    for controller in controllers:
        done = controller.wait_for(controller.start())
        expect_success(done)
        assert set(done.changed().values()) == {0}
        result = json.loads((controller.find_newest_run() / "result.json").read_text())
        assert {row["id"]: row["status"] for row in result["rungs"]}["L3"] == "passed"
        assert result["verdict"] == "ok"
