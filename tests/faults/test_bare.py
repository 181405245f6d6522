"""Nodes that nobody ever configured: addresses, typed in, and nothing else of Fullmesh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from causes.faults import BARE, Fault

from .bench import Bench
from .checks import (
    both_are_named,
    broken,
    fault_is_named,
    healthy_is_silent,
    named,
    nothing_changes,
    parameters,
)
from .conftest import address_by_hand


@pytest.mark.parametrize("fault", parameters(BARE))
def test_named(bare: Bench, fault: Fault, silence_every: int) -> None:
    fault_is_named(bare, fault, silence_every)


@pytest.mark.rest
@pytest.mark.parametrize(
    ("one", "other"), [("range-drop", "range-drop-master"), ("range-reset", "own-unknown")]
)
def test_two_faults_on_different_nodes_are_both_named(bare: Bench, one: str, other: str) -> None:
    both_are_named(bare, [named(BARE, one), named(BARE, other)])


@pytest.mark.parametrize(
    ("count", "family"),
    [
        pytest.param(count, family, marks=[] if (count, family) == (3, 6) else pytest.mark.rest)
        for family in (4, 6)
        for count in (2, 3, 4)
    ],
)
def test_healthy_nodes_are_silent(bare: Bench, count: int, family: int) -> None:
    address_by_hand(bare, family)
    try:
        healthy_is_silent(bare, count, family)
    finally:
        address_by_hand(bare)


PLAIN = """
useradd -m plain
mkdir -p -m 700 ~plain/.ssh && cp ~root/.ssh/authorized_keys ~plain/.ssh/ && chown -R plain: ~plain/.ssh
"""


@pytest.fixture
def without_root(bare: Bench) -> Iterator[Path]:
    """An inventory whose user may not become root."""
    names = list(bare.nodes)[:2]
    for node in names:
        bare.on(node, PLAIN)
    yield bare.chosen(names, {node: {"ansible_user": "plain"} for node in names})
    for node in names:
        bare.on(node, "pkill -u plain || true; userdel -r plain 2>/dev/null || true")


@pytest.mark.rest
def test_without_root(bare: Bench, without_root: Path) -> None:
    """The link is named all the same, and what could not be looked at is said."""
    quiet = bare.diagnose(inventory=without_root)
    assert not quiet.findings, quiet.told()
    missed = {(one["node"], one["why"]) for one in quiet.result["not_looked_at"]}
    assert {(node, "not root") for node in list(bare.nodes)[:2]} <= missed
    fault = named(BARE, "range-reset")
    with broken(bare, fault) as (victim, peer):
        said = bare.diagnose(inventory=without_root)
    # The rule stops answers, too. Who may not read it cannot know that both directions have one cause: a reset at one
    # node and a silent drop at the other look the same, and folding one under the other would hide it.
    found = {(one["code"], one["direction"]) for one in said.findings}
    both = {("VC-203", f"{peer} -> {victim}"), ("VC-201", f"{victim} -> {peer}")}
    assert found == both, said.told()


CUT = "root tbf rate 10mbit burst 32kbit limit 4mb"


@pytest.mark.rest
@pytest.mark.parametrize("ways", ["out", "in", "both"])
def test_the_slow_one_of_four_nodes_is_named(bare: Bench, ways: str) -> None:
    slow = list(bare.nodes)[1]
    others = ", ".join(name for name in bare.nodes if name != slow)
    cable = bare.nodes[slow].cable
    try:
        if ways != "in":
            bare.on(slow, f"tc qdisc add dev eth1 {CUT}")
        if ways != "out":
            bare.outside(f"tc qdisc add dev {cable} {CUT}")
        said = bare.diagnose("--bandwidth", inventory=bare.chosen(list(bare.nodes)))
    finally:
        bare.on(slow, "tc qdisc del dev eth1 root", check=False)
        bare.outside(f"tc qdisc del dev {cable} root", check=False)
    expected = {
        "out": ("DG-191", slow, f"{slow} -> {others}"),
        "in": ("DG-139", slow, f"{others} -> {slow}"),
        "both": ("DG-191", slow, f"{slow} -> {others}"),
    }
    found = [(one["code"], one["node"], one["direction"]) for one in said.findings]
    assert found == [expected[ways]], said.told()


# Last: a diagnosis changes nothing, also on nodes that have seen all the faults and their repairs.
def test_a_diagnosis_changes_nothing(bare: Bench) -> None:
    nothing_changes(bare)
