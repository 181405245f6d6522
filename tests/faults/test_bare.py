"""Unconfigured nodes: manual addresses, and nothing of Fullmesh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from causes.faults import BARE, Fault

from .bench import Bench
from .checks import (
    check_both_faults,
    check_fault,
    check_healthy_nodes,
    check_nothing_changes,
    find_fault,
    list_parameters,
    make_fault,
)
from .conftest import set_addresses


@pytest.mark.parametrize("fault", list_parameters(BARE))
def test_fault_is_found(bare: Bench, fault: Fault, check_every: int) -> None:
    check_fault(bare, fault, check_every)


@pytest.mark.rest
@pytest.mark.parametrize(
    ("one", "other"), [("range-drop", "range-drop-master"), ("range-reset", "own-unknown")]
)
def test_faults_on_two_nodes_are_both_found(bare: Bench, one: str, other: str) -> None:
    check_both_faults(bare, [find_fault(BARE, one), find_fault(BARE, other)])


@pytest.mark.parametrize(
    ("count", "family"),
    [
        pytest.param(count, family, marks=[] if (count, family) == (3, 6) else pytest.mark.rest)
        for family in (4, 6)
        for count in (2, 3, 4)
    ],
)
def test_healthy_nodes_have_no_finding(bare: Bench, count: int, family: int) -> None:
    set_addresses(bare, family)
    try:
        check_healthy_nodes(bare, count, family)
    finally:
        set_addresses(bare)


CREATE_ACCOUNT = """
useradd -m plain
mkdir -p -m 700 ~plain/.ssh && cp ~root/.ssh/authorized_keys ~plain/.ssh/ && chown -R plain: ~plain/.ssh
"""


@pytest.fixture
def without_root(bare: Bench) -> Iterator[Path]:
    """Write an inventory whose user has no root access."""
    names = list(bare.nodes)[:2]
    for node in names:
        bare.on(node, CREATE_ACCOUNT)
    yield bare.write_inventory(names, {node: {"ansible_user": "plain"} for node in names})
    for node in names:
        bare.on(node, "pkill -u plain || true; userdel -r plain 2>/dev/null || true")


@pytest.mark.rest
def test_link_is_reported_without_root(bare: Bench, without_root: Path) -> None:
    """Report the link without root, and the facts that could not be read."""
    diagnosis_without_root = bare.diagnose(inventory=without_root)
    assert not diagnosis_without_root.findings, diagnosis_without_root.describe_findings()
    missed = {(one["node"], one["why"]) for one in diagnosis_without_root.result["not_looked_at"]}
    assert {(node, "not root") for node in list(bare.nodes)[:2]} <= missed
    fault = find_fault(BARE, "range-reset")
    with make_fault(bare, fault) as (victim, peer):
        diagnosis = bare.diagnose(inventory=without_root)
    # The rule also stops answers. Without root, the diagnosis cannot read it, so it cannot know that both directions
    # have one cause: a reset on one node and dropped packets on the other would look the same.
    found = {(one["code"], one["direction"]) for one in diagnosis.findings}
    expected_links = {("VC-203", f"{peer} -> {victim}"), ("VC-201", f"{victim} -> {peer}")}
    assert found == expected_links, diagnosis.describe_findings()


RATE_LIMIT = "root tbf rate 10mbit burst 32kbit limit 4mb"


@pytest.mark.rest
@pytest.mark.parametrize("directions", ["out", "in", "both"])
def test_slow_node_of_four_is_found(bare: Bench, directions: str) -> None:
    slow = list(bare.nodes)[1]
    others = ", ".join(name for name in bare.nodes if name != slow)
    cable = bare.nodes[slow].cable
    try:
        if directions != "in":
            bare.on(slow, f"tc qdisc add dev eth1 {RATE_LIMIT}")
        if directions != "out":
            bare.run_outside(f"tc qdisc add dev {cable} {RATE_LIMIT}")
        diagnosis = bare.diagnose("--bandwidth", inventory=bare.write_inventory(list(bare.nodes)))
    finally:
        bare.on(slow, "tc qdisc del dev eth1 root", check=False)
        bare.run_outside(f"tc qdisc del dev {cable} root", check=False)
    list_expected_fields = {
        "out": ("DG-191", slow, f"{slow} -> {others}"),
        "in": ("DG-139", slow, f"{others} -> {slow}"),
        "both": ("DG-191", slow, f"{slow} -> {others}"),
    }
    found = [(one["code"], one["node"], one["direction"]) for one in diagnosis.findings]
    assert found == [list_expected_fields[directions]], diagnosis.describe_findings()


# Last: a diagnosis changes nothing, also on nodes that had all the faults and their repairs.
def test_diagnosis_changes_nothing(bare: Bench) -> None:
    check_nothing_changes(bare)
