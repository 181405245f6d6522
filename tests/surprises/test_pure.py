"""The generator is one of its seed, and the score takes nothing for a find that is none."""

from __future__ import annotations

from typing import Any

import pytest

from .generate import MAKERS, draw_surprise
from .score import Score, is_flawless, is_port_right, list_doubted_ports, score_diagnosis
from .starts import BY_UNIT, LOGIN, SSH, judge_start, make_start_fault
from .table import render_page

ABOUT = {"seed": 1, "kind": "nft", "script": "nft …", "victim": "b"}
SHUT = {("a", "b", 40000): "110"}


def make_finding(**change: Any) -> dict[str, Any]:
    plain = {
        "code": "VC-201",
        "severity": "error",
        "node": "b",
        "peer": "a",
        "port": "32768-60999/tcp",
        "cause": "the rule is in table surprise",
        "pairs": [["a", "b"]],
    }
    return {**plain, **change}


def score_findings(failed: dict[tuple[str, str, int], str], *found: dict[str, Any]) -> Score:
    return score_diagnosis(ABOUT, ("surprise",), failed, 15, found)


def test_a_seed_makes_one_fault() -> None:
    made = [draw_surprise(seed) for seed in range(300)]
    assert made == [draw_surprise(seed) for seed in range(300)]
    assert len({one.script for one in made}) > 150
    assert {one.victim for one in made} == {0, 1}
    assert len({one.kind for one in made}) >= len(MAKERS) - 3  # a policy, nat and marks are rules


def test_a_smaller_fault_has_one_condition_less() -> None:
    fault = next(one for seed in range(99) if len((one := draw_surprise(seed)).parts) > 1)
    assert {len(one.parts) for one in fault.smaller()} == {len(fault.parts) - 1}
    assert all(one.script != fault.script for one in fault.smaller())


def test_a_right_finding_is_right_in_all() -> None:
    row = score_findings(SHUT, make_finding())
    assert (row.found, row.node, row.direction, row.port, row.one, row.named) == (True,) * 6
    assert is_flawless(row)


def test_the_ports_that_findings_doubt_are_tried() -> None:
    seen = "32768-38414 open, 39167-40000 shut; 60999: dropped, 41000: open; table inet x"
    ruled = "table netdev x chain way: ip saddr 10.78.1.14 tcp sport { 29500, 58660-60000 } drop"
    assert list_doubted_ports([make_finding(seen=seen), make_finding()]) == [39167, 40000, 60999]
    assert list_doubted_ports([make_finding(seen=ruled)]) == [29500, 58660, 60000]


@pytest.mark.parametrize(
    "found",
    [
        [],
        [make_finding(pairs=[["b", "a"]])],  # the other direction
        [make_finding(node="a")],
        [make_finding(pairs=[], node="c", peer="d")],
    ],
)
def test_an_unrelated_finding_is_not_counted_as_right(found: list[dict[str, Any]]) -> None:
    assert not is_flawless(score_findings(SHUT, *found))


def test_a_finding_on_a_healthy_cluster_is_a_false_alarm() -> None:
    assert score_findings({}, make_finding()).false
    assert not score_findings({}, make_finding(severity="warning")).false
    assert not score_findings({}).false


def test_a_fault_of_some_accounts_may_be_a_warning() -> None:
    assert is_flawless(score_findings(SHUT, make_finding(severity="warning")))


@pytest.mark.parametrize(
    ("port", "right"),
    [
        ("29500/tcp (master)", False),
        ("40000/tcp", True),
        ("32768-60999/tcp (3 of 19 tried)", True),
        ("all", False),  # one of fifteen
        ("", True),
    ],
)
def test_ports(port: str, right: bool) -> None:
    assert is_port_right({"port": port}, SHUT, 15) is right


def test_the_page_lists_missed_faults() -> None:
    page = render_page([score_findings(SHUT, make_finding()), score_findings(SHUT)])
    assert "| **all** | 2 | 2 | 1 | 1 | 1 | 1 | 1 | 1 | 0 of 0 |" in page
    assert "| 1 | not found | nothing |" in page


def test_a_seed_makes_one_fault_of_a_start() -> None:
    made = [make_start_fault(seed) for seed in range(300)]
    assert made == [make_start_fault(seed) for seed in range(300)]
    assert {one.entry for one in made} == {SSH, LOGIN, BY_UNIT}
    assert {one.fault.victim for one in made} == {0, 1}
    assert len({one.fault.script for one in made}) > 150


@pytest.mark.parametrize(
    ("why", "change", "fine"),
    [
        ("failed", {}, True),
        ("failed", {"node": "a", "peer": ""}, False),
        ("failed", {"cause": "something else"}, False),
        ("", {}, False),
        ("", {"severity": "warning"}, True),
    ],
)
def test_a_start_is_judged_by_the_job(why: str, change: dict[str, Any], fine: bool) -> None:
    about = {**ABOUT, "entry": SSH, "seconds": 1.0}
    assert judge_start(about, ("surprise",), why, [make_finding(**change)]).fine is fine
