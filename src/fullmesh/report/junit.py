"""Render junit.xml: one test case for each check, link and finding, for CI systems."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Literal

from fullmesh.report import blocks, model
from fullmesh.report.model import scrub_texts
from fullmesh.result.types import FindingRow, Result

PROPERTIES: tuple[Literal["fullmesh", "run", "verdict", "firewall_mode", "lab"], ...] = (
    "fullmesh",
    "run",
    "verdict",
    "firewall_mode",
    "lab",
)


def add_test_case(suite: ET.Element, group: str, name: str, seconds: float = 0.0) -> ET.Element:
    """Add a test case."""
    about = {"classname": f"fullmesh.{group}", "name": name, "time": f"{seconds:.3f}"}
    return ET.SubElement(suite, "testcase", about)


def add_failure(parent: ET.Element, kind: str, message: str, text: str = "") -> None:
    """Mark a test case as failed."""
    ET.SubElement(parent, "failure", {"type": kind, "message": message}).text = text or message


def render_check_findings(result: Result, check: str) -> str:
    """Render the findings of a check as text."""
    return "\n".join(_render_finding(f) for f in result["findings"] if f["rung"] == check)


def _render_finding(finding: FindingRow) -> str:
    lines = [model.format_finding(finding)]
    lines += [f"{label}: {value}" for label, value in model.list_evidence(finding)]
    lines += [f"follows: {model.format_finding(child)}" for child in finding.get("follows", [])]
    return "\n".join(lines)


def add_check_cases(suite: ET.Element, result: Result) -> None:
    """Add a case for each check."""
    for check in result["rungs"]:
        made = add_test_case(suite, "ladder", f"{check['id']} {check['name']}", check["seconds"])
        if check["status"] == "failed":
            add_failure(made, "failed", check["reason"], render_check_findings(result, check["id"]))
        elif check["status"] != "passed":
            message = f"{check['status'].replace('_', ' ')}: {check['reason']}"
            ET.SubElement(made, "skipped", {"message": message})


def add_link_cases(suite: ET.Element, result: Result) -> None:
    """Add a case for each ordered pair of nodes. For many nodes, add one per deviating link and one for all others."""
    if blocks.get_block_mesh(result):
        good, tried, pairs = blocks.count_links(result)
        add_test_case(suite, "links", f"{good} of {tried} links are open ({pairs} in total)")
    for link in result["links"]:
        name = f"{link['from']} -> {link['to']}"
        made = add_test_case(suite, "links", name, (link["ms"] or 0.0) / 1000)
        if link["verdict"] != model.OPEN:
            ports = ", ".join(f"{p['port']} ({p['kind']}): {p['verdict']}" for p in link["ports"])
            add_failure(
                made, link["verdict"], f"{name} is {link['verdict'].replace('_', ' ')}", ports
            )


def add_finding_cases(suite: ET.Element, result: Result) -> None:
    """Add a case for each finding. A warning passes, with its text as output."""
    for finding in result["findings"]:
        place = finding["direction"] or finding["node"] or "cluster"
        made = add_test_case(suite, "findings", f"{finding['code']} {place}")
        if finding["severity"] == "warning":
            ET.SubElement(made, "system-out").text = _render_finding(finding)
        else:
            add_failure(
                made, finding["code"], model.format_finding(finding), _render_finding(finding)
            )


def add_test_suite(root: ET.Element, name: str, result: Result) -> ET.Element:
    """Add an empty suite."""
    about = {
        "name": f"fullmesh.{name}",
        "timestamp": result["started"][:19],
        "hostname": "controller",
    }
    made = ET.SubElement(root, "testsuite", about)
    properties = ET.SubElement(made, "properties")
    for key in PROPERTIES:
        ET.SubElement(properties, "property", {"name": key, "value": result[key]})
    return made


def write_suite_counts(made: ET.Element, seconds: float) -> dict[str, int]:
    """Write the counts of a suite into it, and return them."""
    cases: Sequence[ET.Element] = made.findall("testcase")
    numbers = {
        "tests": len(cases),
        "failures": sum(one.find("failure") is not None for one in cases),
        "errors": 0,
        "skipped": sum(one.find("skipped") is not None for one in cases),
    }
    for key, value in numbers.items():
        made.set(key, str(value))
    made.set("time", f"{seconds:.3f}")
    return numbers


def render_junit(raw: Result) -> str:
    """Render the whole file."""
    result = scrub_texts(raw)
    root = ET.Element("testsuites", {"name": f"fullmesh {result['run']}"})
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for name, fill in (
        ("ladder", add_check_cases),
        ("links", add_link_cases),
        ("findings", add_finding_cases),
    ):
        made = add_test_suite(root, name, result)
        fill(made, result)
        numbers = write_suite_counts(made, result["seconds"] if name == "ladder" else 0.0)
        totals = {key: totals[key] + numbers[key] for key in totals}
    for key, value in totals.items():
        root.set(key, str(value))
    root.set("time", f"{result['seconds']:.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
