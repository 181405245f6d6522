"""Two controllers, each with its own copy of the checkout, configure half of a cluster each, at the same time.

What is watched: that each half knows the other half's nodes though no run touched both, that the results become one,
and that a run over all nodes from either controller then has nothing to do and is verified.
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
from checkout import copied
from plays import Done, read_output, run

from devtools.lab import lifecycle
from devtools.lab.paths import find
from fullmesh.settings import ROOT

from .conftest import green

LAB = "e2e-slices"
WORK = ROOT / ".fullmesh" / LAB
SLICES = ("torch_nodes[0:1]", "torch_nodes[2:3]")
SECONDS = 1800.0


@dataclass
class Controller:
    """A machine that runs Ansible: a copy of the checkout, connections of its own, results of its own."""

    name: str

    @property
    def folder(self) -> Path:
        """Its checkout."""
        return WORK / self.name / "checkout"

    def __post_init__(self) -> None:
        """Make it."""
        copied(self.folder)

    def start(self, *more: str) -> subprocess.Popen[str]:
        """The user's own command, on this controller."""
        sockets = WORK / self.name / "cp"
        sockets.mkdir(exist_ok=True)
        # all that it prints goes to a file: of two that run at once nobody reads the pipes
        with (WORK / f"{self.name}.log").open("w") as log:
            return subprocess.Popen(
                ["ansible-playbook", "site.yml", "-i", str(inventory()), *more],
                cwd=self.folder,
                env={**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def ended(self, started: subprocess.Popen[str]) -> Done:
        """How a command of this controller ended."""
        code = started.wait(SECONDS)
        said = (WORK / f"{self.name}.log").read_text()
        sys.stdout.write(f"\n{self.name}, exit {code}:\n{said[-30000:]}\n")
        return Done(code, said, 0.0)

    def newest(self) -> Path:
        """The folder of its last run."""
        return max((self.folder / "runs").glob("*/result.json")).parent


def inventory() -> Path:
    return lifecycle.inventory_path(find(), LAB).parent


def on(name: str, command: str) -> str:
    """Run a shell command on a node."""
    words = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--", "sh", "-c", command]
    return read_output(*words, seconds=240)


@pytest.fixture(scope="module")
def controllers() -> Iterator[tuple[Controller, Controller]]:
    shutil.rmtree(WORK, ignore_errors=True)
    run("./fullmesh", "lab", "down", "--name", LAB)
    green(run("./fullmesh", "lab", "up", "--name", LAB, "--nodes", "4"))
    yield Controller("one"), Controller("two")
    run("./fullmesh", "lab", "down", "--name", LAB)
    shutil.rmtree(WORK, ignore_errors=True)


@pytest.mark.lab
def test_two_controllers_configure_half_each_at_the_same_time(
    controllers: tuple[Controller, Controller],
) -> None:
    both = list(zip(controllers, SLICES, strict=True))
    running = [(who, who.start("--limit", part)) for who, part in both]
    done = [who.ended(started) for who, started in running]
    for one in done:
        green(one)
    hosts: dict[str, Any] = yaml.safe_load((inventory() / "hosts.yml").read_text())["all"][
        "children"
    ]["torch_nodes"]["hosts"]
    assert [set(one.changed()) for one in done] == [set(list(hosts)[:2]), set(list(hosts)[2:])]
    for name in hosts:
        peers = on(name, "nft list set inet firewalld fullmesh-peers4")
        names = on(name, "cat /etc/hosts")
        for other, held in hosts.items():
            address = held["fullmesh_address"].partition("/")[0]
            assert other == name or address in peers
            assert address in names
        assert "WORLD_SIZE=4" in on(name, "cat /etc/fullmesh/env")


@pytest.mark.lab
def test_their_results_become_one(controllers: tuple[Controller, Controller]) -> None:
    runs = [str(who.newest()) for who in controllers]
    done = run("./fullmesh", "report", "--merge", *runs)
    assert done.code == 0
    made = json.loads(max((ROOT / "runs").glob("*-merged/result.json")).read_text())
    rungs = {row["id"]: row["status"] for row in made["rungs"]}
    assert (rungs["L0"], rungs["L2"], rungs["L3"]) == ("passed", "not_run", "not_run")
    # each half tried its own pair, there and back
    assert len(made["links"]) == 4
    assert all(row["verdict"] == "open" for row in made["links"])
    assert all(node["kernel"] for node in made["nodes"].values())


@pytest.mark.lab
def test_either_controller_finds_nothing_to_change(
    controllers: tuple[Controller, Controller],
) -> None:
    for who in controllers:
        done = who.ended(who.start())
        green(done)
        assert set(done.changed().values()) == {0}
        result = json.loads((who.newest() / "result.json").read_text())
        assert {row["id"]: row["status"] for row in result["rungs"]}["L3"] == "passed"
        assert result["verdict"] == "ok"
