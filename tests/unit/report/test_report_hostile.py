"""The report: hostile text stays text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from report_pages import Page, parse_xml, summary
from report_samples import HOSTILE, hostile, make_dropped_link

from fullmesh.printed import CONTROL
from fullmesh.report import (
    junit,
    page,
    terminal,
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("count", [3, 9])
def test_hostile_text_stays_text(text: str, count: int) -> None:
    made, tame = hostile(text, count), hostile("tame", count)
    shown = page.render_report_page(made)
    assert Page(shown).shape() == Page(page.render_report_page(tame)).shape()
    assert not CONTROL.search(re.sub(r"\n", "", shown))
    assert "owned'</script>" not in shown
    root = parse_xml(junit.render_junit(made))
    expected = parse_xml(junit.render_junit(tame))
    assert [e.tag for e in root.iter()] == [e.tag for e in expected.iter()]
    printed = summary(made)
    assert not CONTROL.search(printed.replace("\n", ""))
    assert "\nOK: 2 nodes" not in printed
    assert not CONTROL.search("".join(terminal.format_summary(made)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60))
def test_any_text_stays_text(text: str) -> None:
    made, tame = hostile("x" + text), hostile("tame")
    read = Page(page.render_report_page(made))
    shape = Page(page.render_report_page(tame)).shape()

    assert read.shape() == shape
    assert [e.tag for e in parse_xml(junit.render_junit(made)).iter()] == [
        e.tag for e in parse_xml(junit.render_junit(tame)).iter()
    ]
    assert not CONTROL.search(summary(made).replace("\n", ""))


def test_the_figures_for_the_pointer_cannot_end_their_element() -> None:
    text = page.render_report_page(hostile("</script><!--<script>", 9))
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert held is not None
    assert "<" not in held[1]
    data = json.loads(held[1])
    assert data["nodes"][0].endswith("</script><!--<script>")
    assert len(data["rows"]) == 9


def test_the_content_policy_allows_our_script_and_style_only() -> None:
    text = page.render_report_page(make_dropped_link())
    policy = next(a["content"] for t, a in Page(text).elements if a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy
    assert " style=" not in text
    assert not re.search(r"\son\w+=", text)
