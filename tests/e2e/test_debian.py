"""Real Debian 12 and 13: bare nodes, the whole site, faults, and undo.

These nodes are no look-alikes: packages, paths, units and versions are Debian's. The tests build on each other: run
the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from plays import Done, read_output, run

from devtools.lab import lifecycle
from devtools.lab.paths import find

from .conftest import ETC_DIGEST, expect_success, load_latest_result, site

LAB = "e2e-debian"
NODES = ("debian12-1", "debian13-1")
BARE: dict[str, list[str]] = {}


def run_on_node(node: str, command: str) -> str:
    """Run a shell command on a node. Return its output."""
    return read_output(
        "./fullmesh", "lab", "exec", "--name", LAB, node, "--", "sh", "-c", command
    ).strip()


def digest_etc(node: str) -> list[str]:
    """Digest the files under /etc of a node, one line each."""
    return run_on_node(node, ETC_DIGEST).splitlines()


def run_site(inventory: str, *more: str) -> Done:
    """Run the whole site. It must succeed."""
    done = site(*more, inventory=inventory)
    expect_success(done)
    return done


@pytest.fixture(scope="module")
def inventory() -> Iterator[str]:
    """Start a new lab with one node of each release. Return its inventory."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert (
        run("./fullmesh", "lab", "up", "--name", LAB, "--families", "debian12,debian13").code == 0
    )
    yield str(Path(lifecycle.inventory_path(find(), LAB)).parent)
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_nodes_are_debian_releases(inventory: str) -> None:
    del inventory
    for node, release in zip(NODES, ("12", "13"), strict=True):
        assert run_on_node(node, ". /etc/os-release; echo $ID$VERSION_ID") == f"debian{release}"
        assert "InRelease" in run_on_node(node, "apt-get update 2>&1")
        assert run_on_node(node, "dpkg --audit") == ""


def test_check_mode_on_bare_debian_changes_nothing(inventory: str) -> None:
    BARE.update({node: digest_etc(node) for node in NODES})
    run_site(inventory, "--check", "--diff")
    assert {node: digest_etc(node) for node in NODES} == BARE


def test_the_first_run_verifies_both_releases(inventory: str) -> None:
    run_site(inventory)
    result = load_latest_result()
    assert {one["id"]: one["status"] for one in result["rungs"] if one["status"] != "passed"} == {
        "L7": "skipped"
    }
    for node in NODES:
        assert run_on_node(node, "firewall-cmd --state") == "running"
        assert run_on_node(node, "systemctl is-active chrony") == "active"


def test_the_second_run_changes_nothing(inventory: str) -> None:
    done = run_site(inventory, "-e", "fullmesh_converge=always", "--skip-tags", "verify")
    assert done.changed() == dict.fromkeys(NODES, 0)


def test_healthy_nodes_give_no_finding(inventory: str) -> None:
    assert run("./fullmesh", "diagnose", "-i", inventory).code == 0


CHAIN = "type filter hook input priority 0; iifname eth1 tcp dport 50000-54095 drop;"
FAULTS = {
    "DG-113": (
        f"nft 'table inet lab_test {{ chain in {{ {CHAIN} }}; }}'",
        "nft delete table inet lab_test",
    ),
    "DG-124": (
        f"cp /etc/hosts /tmp/hosts; sed -i '1i 127.0.0.1 {NODES[0]}' /etc/hosts",
        "cp /tmp/hosts /etc/hosts",
    ),
}


@pytest.mark.parametrize("code", FAULTS)
def test_fault_is_found_on_its_node(inventory: str, code: str) -> None:
    node, (fault, repair) = NODES[1], FAULTS[code]
    run_on_node(node, fault)
    done = run("./fullmesh", "diagnose", "-i", inventory)
    run_on_node(node, repair)
    assert done.code == 1
    assert f"[{code}]" in done.output
    assert node in done.output


def test_undo_restores_bare_debian(inventory: str) -> None:
    expect_success(run("ansible-playbook", "playbooks/undo.yml", "-i", inventory))
    assert {node: digest_etc(node) for node in NODES} == BARE
    for node in NODES:
        assert run_on_node(node, "dpkg -l firewalld chrony 2>/dev/null | grep -c ^ii || :") == "0"
        assert run_on_node(node, "ip -4 -o address show dev eth1") == ""
