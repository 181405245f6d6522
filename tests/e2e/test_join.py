"""Add a third node to two configured ones, and remove it: the others only get a small change.

The tests check which files changed on the others, whether any role ran, whether the firewall accepts the new node and
blocks the removed one, and that the next run changes nothing.
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

from .conftest import ETC_DIGEST, load_latest_result, site

LAB = "e2e-join"
# Files that change on a node when a peer is added, except firewalld's own.
CHANGED_FILES = {
    "/etc/hosts",
    "/etc/fullmesh/env",
    "/etc/fullmesh/nodes.json",
    "/etc/fullmesh/hostfile",
    "/etc/fullmesh/job.sbatch",
}
FIREWALL = "/etc/firewalld/ipsets/fullmesh-peers"
TIME_SERVICE = "chrony"  # of the time server
OLD, NEW = ["el1", "ubuntu1"], "el2"


class Lab:
    """Three nodes, and inventories of some of them."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB, "--nodes", "3").code == 0
        self.lab_inventory = yaml.safe_load(lifecycle.inventory_path(find(), LAB).read_text())
        self.hosts: dict[str, Any] = self.lab_inventory["all"]["children"]["torch_nodes"]["hosts"]

    def write_inventory(self, *names: str) -> str:
        """Write an inventory of some of the nodes."""
        folder = ROOT / ".fullmesh" / LAB / "-".join(names)
        folder.mkdir(parents=True, exist_ok=True)
        common = folder / "group_vars"
        if not common.is_symlink():
            common.symlink_to(ROOT / "inventory/lab/group_vars")
        hosts = {name: self.hosts[name] for name in names}
        made = {"all": {**self.lab_inventory["all"], "children": {"torch_nodes": {"hosts": hosts}}}}
        (folder / "hosts.yml").write_text(yaml.safe_dump(made))
        return str(folder)

    def on(self, name: str, command: str) -> str:
        """Run a shell command on a node."""
        argv = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--", "sh", "-c", command]
        return read_output(*argv, seconds=240)

    def digest_etc(self, name: str) -> dict[str, str]:
        """Digest the files below /etc of a node."""
        lines = self.on(name, ETC_DIGEST).splitlines()
        return {"/etc" + line.split()[0][1:]: line for line in lines}

    def list_peer_set(self, name: str) -> str:
        """Return the peers in the kernel's set of a node."""
        return self.on(name, "nft list set inet firewalld fullmesh-peers4")

    def get_address(self, name: str) -> str:
        """Return a node's cluster address."""
        return str(self.hosts[name]["fullmesh_address"].partition("/")[0])


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Configure two of three nodes."""
    made = Lab()
    assert site(inventory=made.write_inventory(*OLD)).code == 0
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


def check_only_peers_changed(lab: Lab, name: str, before: dict[str, str]) -> None:
    """Check that only the list of peers changed on a node."""
    after = lab.digest_etc(name)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    unexpected = {
        path
        for path in changed - CHANGED_FILES
        if not path.startswith(FIREWALL) and TIME_SERVICE not in path
    }
    assert unexpected == set()
    assert changed >= {"/etc/hosts", "/etc/fullmesh/env", "/etc/fullmesh/nodes.json"}


def count_tasks(done: Done, name: str) -> int:
    """Return the number of tasks that ran on a node."""
    return done.recap()[name]["ok"]


@pytest.mark.lab
def test_limited_run_configures_the_new_node(lab: Lab) -> None:
    # el1 is the time server, so a run without it cannot succeed
    before = lab.digest_etc("el1")
    limited = ("--limit", f"{NEW},el1", "--skip-tags", "verify")
    done = site(*limited, inventory=lab.write_inventory(*OLD, NEW))
    assert done.code == 0
    assert done.says("[PR-180] This run leaves out ubuntu1, so they do not know el2")
    check_only_peers_changed(lab, "el1", before)
    assert lab.get_address(NEW) in lab.list_peer_set("el1")
    assert lab.get_address(NEW) not in lab.list_peer_set("ubuntu1")


@pytest.mark.lab
def test_other_nodes_get_the_new_node_and_test_its_links(lab: Lab) -> None:
    before = lab.digest_etc("ubuntu1")
    done = site(inventory=lab.write_inventory(*OLD, NEW))
    assert done.code == 0
    check_only_peers_changed(lab, "ubuntu1", before)
    result = load_latest_result()
    assert result["verdict"] == "ok"
    assert result["mesh"]["new"] == [NEW]
    assert result["mesh"]["wanted"] == result["mesh"]["tried"]
    for name in OLD:
        assert lab.get_address(NEW) in lab.list_peer_set(name)
        assert NEW in lab.on(name, "cat /etc/fullmesh/nodes.json")
        assert "WORLD_SIZE=3" in lab.on(name, "cat /etc/fullmesh/env")
        assert lab.get_address(NEW) in lab.on(name, f"getent hosts {NEW}")
    # a run that configures a node has more than 100 tasks
    assert count_tasks(done, "ubuntu1") < 40
    second = site("--skip-tags", "verify", inventory=lab.write_inventory(*OLD, NEW))
    assert second.code == 0
    assert (second.code, set(second.changed().values())) == (0, {0})


@pytest.mark.lab
def test_other_nodes_remove_a_node(lab: Lab) -> None:
    before = {name: lab.digest_etc(name) for name in OLD}
    done = site(inventory=lab.write_inventory(*OLD))
    assert done.code == 0
    for name in OLD:
        check_only_peers_changed(lab, name, before[name])
        assert lab.get_address(NEW) not in lab.list_peer_set(name)
        assert (
            NEW not in json.loads(lab.on(name, "cat /etc/fullmesh/nodes.json"))["nodes"][-1]["name"]
        )
        assert count_tasks(done, name) < 40
    mesh = load_latest_result()["mesh"]
    assert (mesh["wanted"], mesh["tried"], mesh["new"]) == (2, 2, [])


@pytest.mark.lab
def test_undo_restores_the_state_before_the_first_run(lab: Lab) -> None:
    done = run(
        "ansible-playbook", "playbooks/undo.yml", "-i", lab.write_inventory(*OLD), seconds=600
    )
    assert done.code == 0
    for name in OLD:
        assert "fullmesh-kept" not in lab.on(name, "find /etc -name '*fullmesh-kept*'")
        assert lab.get_address("el1") not in lab.on(name, "cat /etc/hosts")
