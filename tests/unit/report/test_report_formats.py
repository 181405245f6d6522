"""The report: JUnit and the terminal."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

from report_pages import Page, parse_xml, summary
from report_samples import build_result, large, make_dropped_link

from fullmesh.report import (
    junit,
    page,
)


def junit_of(result: dict[str, Any]) -> dict[str, ET.Element]:
    root = parse_xml(junit.render_junit(result))
    return {suite.attrib["name"]: suite for suite in root}


def test_junit_has_a_case_per_check_link_and_finding() -> None:
    result = make_dropped_link()
    suites = junit_of(result)
    sizes = {name: len(suite.findall("testcase")) for name, suite in suites.items()}
    assert sizes == {
        "fullmesh.ladder": 9,
        "fullmesh.links": 6,
        "fullmesh.findings": len(result["findings"]),
    }
    [bad] = [c for c in suites["fullmesh.links"] if c.find("failure") is not None]
    assert bad.attrib["name"] == "el1 -> ubuntu1"
    failed = suites["fullmesh.ladder"].findall("testcase/failure")
    assert "VC-201" in str(failed[0].text)
    skipped = suites["fullmesh.ladder"].findall("testcase/skipped")
    assert len(skipped) == sum(r["status"] in ("skipped", "not_run") for r in result["rungs"])


def test_junit_counts_its_cases() -> None:
    root = parse_xml(junit.render_junit(make_dropped_link()))
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    cases = root.findall(".//testcase")
    assert int(root.attrib["tests"]) == len(cases)
    assert int(root.attrib["failures"]) == len(root.findall(".//failure"))
    assert parse_xml(junit.render_junit(build_result())).attrib["failures"] == "0"


def test_a_warning_passes_and_is_shown() -> None:
    result = make_dropped_link()
    result["findings"] = [{**result["findings"][0], "severity": "warning"}]
    [case] = junit_of(result)["fullmesh.findings"].findall("testcase")
    assert case.find("failure") is None
    assert "VC-201" in str(case.findtext("system-out"))


def test_the_terminal_shows_the_matrix_and_next_steps() -> None:
    shown = summary(large(8))
    assert re.search(r"from \\ to +gpu-000 +gpu-001", shown)
    assert re.search(r"gpu-000 .*dropped", shown)
    assert re.search(r"follows  \[VC-301\]", shown)
    assert "from \\ to" not in summary(large(9))


def test_a_diagnosis_is_shown_without_a_ladder() -> None:
    made = make_dropped_link() | {"kind": "diagnose", "rungs": [], "failed_rungs": []}
    made["not_looked_at"] = [{"node": "el1", "what": "nftables", "why": "needs root"}]
    assert "not checked: el1: nftables: needs root" in summary(made)
    assert summary(made).startswith("FAILED: ")
    shown = Page(page.render_report_page(made)).text()
    assert "diagnosis" in shown
    assert "needs root" in shown
    assert "Proves" not in shown
