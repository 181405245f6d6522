"""A third node joins two that work, and leaves again: it is configured, the others get one small change.

What is watched on the others: which files changed, whether any role ran, whether the firewall lets the new one in and
takes its right back, and what the next run has to do (nothing).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from plays import Done, read_output, run

from devtools.lab import lifecycle
from devtools.lab.paths import find
from fullmesh.settings import ROOT

from .conftest import ETC_DIGEST, latest, site

LAB = "e2e-join"
# Of a node that learns of a peer; what firewalld keeps of its own files is not looked at one by one.
WRITTEN = {
    "/etc/hosts",
    "/etc/fullmesh/env",
    "/etc/fullmesh/nodes.json",
    "/etc/fullmesh/hostfile",
    "/etc/fullmesh/job.sbatch",
}
FIREWALL = "/etc/firewalld/ipsets/fullmesh-peers"
TIME = "chrony"  # of the node that gives the time
OLD, NEW = ["el1", "ubuntu1"], "el2"


class Lab:
    """Three nodes, of which an inventory has some."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB, "--nodes", "3").code == 0
        self.made = yaml.safe_load(lifecycle.inventory_path(find(), LAB).read_text())
        self.hosts: dict[str, Any] = self.made["all"]["children"]["torch_nodes"]["hosts"]

    def inventory(self, *names: str) -> str:
        """An inventory of some of the nodes."""
        folder = ROOT / ".fullmesh" / LAB / "-".join(names)
        folder.mkdir(parents=True, exist_ok=True)
        common = folder / "group_vars"
        if not common.is_symlink():
            common.symlink_to(ROOT / "inventory/lab/group_vars")
        hosts = {name: self.hosts[name] for name in names}
        made = {"all": {**self.made["all"], "children": {"torch_nodes": {"hosts": hosts}}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(made))
        return str(folder)

    def on(self, name: str, command: str) -> str:
        """Run a shell command on a node."""
        words = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--", "sh", "-c", command]
        return read_output(*words, seconds=240)

    def etc(self, name: str) -> dict[str, str]:
        """The files below /etc of a node."""
        lines = self.on(name, ETC_DIGEST).splitlines()
        return {"/etc" + line.split()[0][1:]: line for line in lines}

    def set_of(self, name: str) -> str:
        """The peers in the kernel's set of a node."""
        return self.on(name, "nft list set inet firewalld fullmesh-peers4")

    def address(self, name: str) -> str:
        """Where a node lies in the cluster's network."""
        return str(self.hosts[name]["fullmesh_address"].partition("/")[0])


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two of three nodes work."""
    made = Lab()
    assert site(inventory=made.inventory(*OLD)).code == 0
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


def only_what_is_told(lab: Lab, name: str, before: dict[str, str]) -> None:
    """On an old node nothing but the list of peers changed."""
    after = lab.etc(name)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    odd = {path for path in changed - WRITTEN if not path.startswith(FIREWALL) and TIME not in path}
    assert odd == set()
    assert changed >= {"/etc/hosts", "/etc/fullmesh/env", "/etc/fullmesh/nodes.json"}


def tasks_of(done: Done, name: str) -> int:
    """How many tasks ran on a node."""
    return done.recap()[name]["ok"]


@pytest.mark.lab
def test_a_limited_run_configures_the_new_node_and_lists_the_rest(lab: Lab) -> None:
    # el1 gives the others the time, so no run without it can end well
    before = lab.etc("el1")
    limited = ("--limit", f"{NEW},el1", "--skip-tags", "verify")
    done = site(*limited, inventory=lab.inventory(*OLD, NEW))
    assert done.code == 0
    assert done.says("[PR-180] this run leaves out ubuntu1, so they do not know el2")
    only_what_is_told(lab, "el1", before)
    assert lab.address(NEW) in lab.set_of("el1")
    assert lab.address(NEW) not in lab.set_of("ubuntu1")


@pytest.mark.lab
def test_other_nodes_learn_of_a_new_node_and_test_its_links(lab: Lab) -> None:
    before = lab.etc("ubuntu1")
    done = site(inventory=lab.inventory(*OLD, NEW))
    assert done.code == 0
    only_what_is_told(lab, "ubuntu1", before)
    result = latest()
    assert result["verdict"] == "ok"
    assert result["mesh"]["new"] == [NEW]
    assert result["mesh"]["wanted"] == result["mesh"]["tried"]
    for name in OLD:
        assert lab.address(NEW) in lab.set_of(name)
        assert NEW in lab.on(name, "cat /etc/fullmesh/nodes.json")
        assert "WORLD_SIZE=3" in lab.on(name, "cat /etc/fullmesh/env")
        assert lab.address(NEW) in lab.on(name, f"getent hosts {NEW}")
    # a run that configures a node has more than a hundred
    assert tasks_of(done, "ubuntu1") < 40
    again = site("--skip-tags", "verify", inventory=lab.inventory(*OLD, NEW))
    assert again.code == 0
    assert (again.code, set(again.changed().values())) == (0, {0})


@pytest.mark.lab
def test_other_nodes_learn_of_a_node_that_leaves(lab: Lab) -> None:
    before = {name: lab.etc(name) for name in OLD}
    done = site(inventory=lab.inventory(*OLD))
    assert done.code == 0
    for name in OLD:
        only_what_is_told(lab, name, before[name])
        assert lab.address(NEW) not in lab.set_of(name)
        assert (
            NEW not in json.loads(lab.on(name, "cat /etc/fullmesh/nodes.json"))["nodes"][-1]["name"]
        )
        assert tasks_of(done, name) < 40
    mesh = latest()["mesh"]
    assert (mesh["wanted"], mesh["tried"], mesh["new"]) == (2, 2, [])


@pytest.mark.lab
def test_undo_restores_the_state_before_the_first_run(lab: Lab) -> None:
    done = run("ansible-playbook", "playbooks/undo.yml", "-i", lab.inventory(*OLD), seconds=600)
    assert done.code == 0
    for name in OLD:
        assert "fullmesh-kept" not in lab.on(name, "find /etc -name '*fullmesh-kept*'")
        assert lab.address("el1") not in lab.on(name, "cat /etc/hosts")
