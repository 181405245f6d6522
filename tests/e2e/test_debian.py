"""Debian 12 and 13 as Debian publishes them: bare nodes, the whole site, faults, and back.

Nothing of these nodes is a look-alike: package names, paths, units and versions are Debian's. The tests build on each
other: run the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from plays import Done, read_output, run

from devtools.lab import lifecycle
from devtools.lab.paths import find

from .conftest import ETC_DIGEST, green, latest, site

LAB = "e2e-debian"
NODES = ("debian12-1", "debian13-1")
BARE: dict[str, list[str]] = {}


def on(node: str, command: str) -> str:
    """Run a shell command on a node; its standard output."""
    return read_output(
        "./fullmesh", "lab", "exec", "--name", LAB, node, "--", "sh", "-c", command
    ).strip()


def etc(node: str) -> list[str]:
    """One line for each file under /etc of a node."""
    return on(node, ETC_DIGEST).splitlines()


def apply(inventory: str, *more: str) -> Done:
    """The whole site; what it prints has ended well."""
    done = site(*more, inventory=inventory)
    green(done)
    return done


@pytest.fixture(scope="module")
def inventory() -> Iterator[str]:
    """The inventory of a fresh lab with one node of each release."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert (
        run("./fullmesh", "lab", "up", "--name", LAB, "--families", "debian12,debian13").code == 0
    )
    yield str(Path(lifecycle.inventory_path(find(), LAB)).parent)
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_the_nodes_are_the_releases_that_debian_publishes(inventory: str) -> None:
    del inventory
    for node, release in zip(NODES, ("12", "13"), strict=True):
        assert on(node, ". /etc/os-release; echo $ID$VERSION_ID") == f"debian{release}"
        assert "InRelease" in on(node, "apt-get update 2>&1")
        assert on(node, "dpkg --audit") == ""


def test_check_mode_on_bare_debian_changes_nothing(inventory: str) -> None:
    BARE.update({node: etc(node) for node in NODES})
    apply(inventory, "--check", "--diff")
    assert {node: etc(node) for node in NODES} == BARE


def test_the_first_run_verifies_both_releases(inventory: str) -> None:
    apply(inventory)
    result = latest()
    assert {one["id"]: one["status"] for one in result["rungs"] if one["status"] != "passed"} == {
        "L7": "skipped"
    }
    for node in NODES:
        assert on(node, "firewall-cmd --state") == "running"
        assert on(node, "systemctl is-active chrony") == "active"


def test_the_second_run_changes_nothing(inventory: str) -> None:
    done = apply(inventory, "-e", "fullmesh_converge=always", "--skip-tags", "verify")
    assert done.changed() == dict.fromkeys(NODES, 0)


def test_healthy_nodes_give_no_finding(inventory: str) -> None:
    assert run("./fullmesh", "diagnose", "-i", inventory).code == 0


CHAIN = "type filter hook input priority 0; iifname eth1 tcp dport 50000-54095 drop;"
FAULTS = {
    "DG-113": (
        f"nft 'table inet beside {{ chain in {{ {CHAIN} }}; }}'",
        "nft delete table inet beside",
    ),
    "DG-124": (
        f"cp /etc/hosts /tmp/hosts; sed -i '1i 127.0.0.1 {NODES[0]}' /etc/hosts",
        "cp /tmp/hosts /etc/hosts",
    ),
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_found_on_its_node(inventory: str, code: str) -> None:
    node, (fault, repair) = NODES[1], FAULTS[code]
    on(node, fault)
    done = run("./fullmesh", "diagnose", "-i", inventory)
    on(node, repair)
    assert done.code == 1
    assert f"[{code}]" in done.output
    assert node in done.output


def test_undo_restores_bare_debian(inventory: str) -> None:
    green(run("ansible-playbook", "playbooks/undo.yml", "-i", inventory))
    assert {node: etc(node) for node in NODES} == BARE
    for node in NODES:
        assert on(node, "dpkg -l firewalld chrony 2>/dev/null | grep -c ^ii || :") == "0"
        assert on(node, "ip -4 -o address show dev eth1") == ""
