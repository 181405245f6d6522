"""The report: two runs compared."""

from __future__ import annotations

from typing import Any

import pytest
from report_pages import Page
from report_samples import build_result, large, make_dropped_link

from fullmesh.report import (
    compare,
    page,
)


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c.kind, c.area, c.what) for c in compare.compare_results(old, new).changes]


def test_two_runs_of_a_healthy_cluster_do_not_differ() -> None:
    old, new = large(12, broken=False), large(12, broken=False)
    for row in new["links"]:
        row["rtt_ms"] = round(row["rtt_ms"] * 1.4, 3)
    found = compare.compare_results(old, new)
    assert (list(found.changes), found.worse) == ([], False)
    assert "nothing changed" in compare.format_comparison(found)[0]
    assert "Nothing changed" in page.render_report_page(new, found)


def test_improvements_and_regressions_are_named() -> None:
    old, new = build_result(), make_dropped_link()
    names = [held["id"] for held in new["rungs"] if held["status"] != "passed"]
    found = changes(old, new)
    assert ("worse", "link", "el1 → ubuntu1") in found
    assert [kind for kind, area, _ in found if area == "check"] == ["worse"] * len(names)
    assert any(
        "VC-201" in what for kind, area, what in found if (kind, area) == ("worse", "finding")
    )
    back = changes(new, old)
    assert ("better", "link", "el1 → ubuntu1") in back
    assert not [kind for kind, _, _ in back if kind == "worse"]
    shown = Page(page.render_report_page(new, compare.compare_results(old, new))).text()
    assert "worse check L2" in shown


@pytest.mark.parametrize(
    ("key", "value", "area"), [("rtt_ms", 1.5, "round trip"), ("mbit_s", 900.0, "bandwidth")]
)
def test_a_figure_beyond_the_noise_is_named(key: str, value: float, area: str) -> None:
    old, new = large(10, broken=False), large(10, broken=False)
    new["links"][5][key] = value
    pair = f"{new['links'][5]['from']} → {new['links'][5]['to']}"
    assert changes(old, new) == [("worse", area, pair)]
    assert changes(new, old) == [("better", area, pair)]


def test_a_noisy_cluster_has_a_wider_noise() -> None:
    old, new = large(10, broken=False), large(10, broken=False)
    for index, row in enumerate(new["links"]):
        old["links"][index]["rtt_ms"] = 1.0
        row["rtt_ms"] = 2.0 if index % 2 else 0.5
    assert changes(old, new) == []


def test_versions_and_nodes_are_compared() -> None:
    old, new = large(9, broken=False), large(9, broken=False)
    for name in ("gpu-001", "gpu-002"):
        new["nodes"][name]["torch"] = "2.14.0"
    assert changes(old, new) == [("other", "version", "torch on gpu-001, gpu-002")]
    smaller = large(8, broken=False)
    found = compare.compare_results(smaller, old)
    assert ("other", "node", "gpu-008") in [(c.kind, c.area, c.what) for c in found.changes]
    assert found.notes


def test_a_diagnosis_is_not_worse_for_facts_that_it_does_not_have() -> None:
    old, new = build_result(), build_result()
    new["kind"] = "diagnose"
    for check in new["rungs"][3:]:
        check["status"], check["reason"] = "skipped", "not part of a diagnosis"
    next(iter(new["nodes"].values()))["torch"] = None
    assert (changes(old, new), changes(new, old)) == ([], [])
    new["rungs"][2]["status"] = "failed"
    assert [kind for kind, _, _ in changes(old, new)] == ["worse"]


def test_collectives_are_compared() -> None:
    old, new = build_result(), build_result()
    new["collectives"]["bus_gbit_s"] = old["collectives"]["bus_gbit_s"] / 3
    assert changes(old, new) == [("worse", "collective", "all_reduce, bus bandwidth")]
