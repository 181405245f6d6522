"""report.html in Chromium: light and dark, wide and narrow, with and without scripts, on paper, hostile content."""

from __future__ import annotations

import itertools
import json
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
import simulated_nodes
from report_samples import HOSTILE, build_result, hostile, large, make_dropped_link
from selenium.webdriver.common.keys import Keys

from fullmesh.report import compare, page, write

from .chromium import Browser

SAMPLES: dict[str, dict[str, Any]] = {
    "healthy": build_result(),
    "dropped": make_dropped_link(),
    "eight": large(8),
    "thirty": large(30),
    "two-hundred": large(200),
    # above 32 nodes the probe and the picture use blocks, so this is a verification of that many
    # nodes
    "sixty-four": dict(simulated_nodes.make_result(64)),
    "sixty-four-broken": dict(simulated_nodes.make_result(64, simulated_nodes.make_node_name(41))),
    "hostile": hostile("".join(HOSTILE), 9),
}
WIDTHS = (1280, 400)
# Milliseconds from the command to the picture, about 250 here. An overly complex page takes tens of
# seconds.
PATIENCE_MS = 15_000


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the samples to files."""
    folder = tmp_path_factory.mktemp("pages")
    made = {}
    for name, result in SAMPLES.items():
        made[name] = folder / f"{name}.html"
        found = compare.compare_results(build_result(), result) if name == "dropped" else None
        made[name].write_text(page.render_report_page(result, found), encoding="utf-8")
    return made


def pixels(png: bytes) -> tuple[int, int, bytes]:
    """Return width, height and unpacked bytes of a PNG (still filtered, which suffices to compare and to sample)."""
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    data, at = b"", 8
    while at < len(png):
        size, kind = int.from_bytes(png[at : at + 4], "big"), png[at + 4 : at + 8]
        if kind == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    return width, height, zlib.decompress(data)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_fits_runs_no_script_and_loads_nothing(
    browser: Browser, pages: dict[str, Path], pictures: Path, name: str, width: int
) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        browser.look(width, 900, scheme)
        spent = browser.open(pages[name])
        assert browser.complaints() == []
        assert browser.requests() == [pages[name].as_uri()]
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert spent < PATIENCE_MS
        # axe takes 5 s for its 40,000 elements, which are those of "thirty" in a larger number
        assert name == "two-hundred" or browser.find_barriers() == ""
        seen[scheme] = browser.picture(pictures / f"{name}-{width}-{scheme}.png")
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(245, 246, 248)", "dark": "rgb(16, 20, 27)"}[scheme]
    assert pixels(seen["light"])[:2] == pixels(seen["dark"])[:2]
    assert seen["light"] != seen["dark"]


def test_hostile_content_does_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look(1280, 900, "light")
    browser.open(pages["hostile"])
    assert browser.run("document.title").startswith("FAILED")
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelectorAll('img, iframe, object, link').length") == 0
    assert browser.run("document.querySelectorAll('[onerror], [onmouseover], [style]').length") == 0
    assert browser.complaints() == []
    # injected content does not run, which proves the page's policy even without escaping
    browser.run(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')"
    )
    browser.run(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        " document.body.append(s); })()"
    )
    assert browser.run("typeof window.ran") == "undefined"


def test_everything_is_there_without_scripts(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look(1280, 900, "light")
    for name in ("eight", "two-hundred"):
        with_scripts = without = ""
        for scripts in (True, False):
            browser.open(pages[name], scripts=scripts)
            browser.ask("Emulation.setScriptExecutionDisabled", value=False)
            text = browser.run("document.querySelector('main').innerText")
            if scripts:
                with_scripts = text
            else:
                without = text
                shown = "getComputedStyle(document.querySelector('.copy')).display"
                assert browser.run(shown) == "none"
        missing = {
            line
            for line in with_scripts.splitlines()
            if line and line not in without and not line.startswith(("Copy", "Point at"))
        }
        assert missing == set()


def test_a_command_is_copied_completely(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look(1280, 900, "light")
    browser.open(pages["dropped"])
    first = make_dropped_link()["findings"][0]
    wanted = first["check"] or first["fix"]
    browser.run(
        "window.copied = '';"
        "document.addEventListener('copy', () => { window.copied = String(getSelection()); });"
        "Object.defineProperty(navigator, 'clipboard',"
        " {value: {writeText: (text) => { window.copied = text; return Promise.resolve(); }}});"
        "document.querySelector('.copy').click()"
    )
    assert browser.run("window.copied") == wanted
    assert browser.run("document.querySelector('.copy').textContent") == "Copied"


def test_links_are_found_with_the_keyboard_and_the_pointer(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.look(1280, 900, "light")
    browser.open(pages["two-hundred"])
    detail = "document.querySelector('.detail').textContent"
    assert "Point at a link" in browser.run(detail)
    browser.run("document.querySelector('.heat-state .frame').focus()")
    browser.key(Keys.ARROW_DOWN)
    assert browser.run(detail) == "gpu-001: itself"
    browser.key("n")
    assert browser.run(detail) == "gpu-001 → gpu-002: dropped · ports 50011"
    browser.key(Keys.END)
    assert browser.run(detail).startswith("gpu-001 → gpu-199: open · round trip 0.0")
    box = browser.run(
        "(() => { const e = document.querySelector('.heat-state .f-self, .heat-state .under');"
        " e.scrollIntoView({block: 'start', behavior: 'instant'});"
        " const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()"
    )
    x, y = box[0] + box[2] * 2.5 / 200, box[1] + box[3] * 10.5 / 200
    browser.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert browser.run(detail).startswith("gpu-010 → gpu-002: dropped")


def test_blocks_of_nodes_have_names_and_both_ends(browser: Browser, pages: dict[str, Path]) -> None:
    browser.look(1280, 900, "light")
    browser.open(pages["sixty-four-broken"])
    detail = "document.querySelector('.detail').textContent"
    browser.run("document.querySelector('.heat-state .frame').focus()")
    browser.key(Keys.ARROW_DOWN)
    browser.key("n")
    assert browser.run(detail).startswith("gpu-0002 → gpu-0041 to gpu-0042: dropped (1)")
    # whole names next to the rows, and the text of a link below the picture, over its whole
    # width
    names = "[...document.querySelectorAll('.heat-state text')].map((e) => e.textContent)"
    assert browser.run(f"{names}.every((name) => /^gpu-\\d{{4}}$/.test(name))")
    below = "document.querySelector('.detail').getBoundingClientRect()"
    picture = "document.querySelector('.heat-state').getBoundingClientRect()"
    assert browser.run(f"{below}.top >= {picture}.bottom && {below}.width === {picture}.width")


def test_the_three_pictures_take_turns_without_scripts_too(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.look(1280, 900, "light")
    browser.open(pages["thirty"])
    shown = (
        "[...document.querySelectorAll('.heat')].filter((e) => e.getBoundingClientRect().height)"
        ".map((e) => e.classList[1]).join()"
    )
    for name in ("state", "latency", "bandwidth"):
        browser.run(f"document.querySelector('label[for=h-{name}]').click()")
        assert browser.run(shown) == f"heat-{name}"


@pytest.mark.parametrize("name", ["eight", "thirty", "sixty-four-broken"])
def test_paper_has_everything(
    browser: Browser, pages: dict[str, Path], pictures: Path, name: str
) -> None:
    browser.look(740, 1000, "dark", "print")
    browser.open(pages[name], scripts=False)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    # dark text on white paper, with any screen setting
    ink = browser.run("getComputedStyle(document.querySelector('section h2')).color")
    assert ink == "rgb(27, 35, 48)"
    # collapsed parts are open on paper, also without scripts
    folded = (
        "[...document.querySelectorAll('details:not([open]) > table, details:not([open]) > div')]"
    )
    assert browser.run(f"{folded}.length") > 0
    assert browser.run(f"{folded}.every((e) => e.checkVisibility({{contentVisibilityAuto: true}}))")
    browser.picture(pictures / f"{name}-paper.png")
    # A4 without its margins, plus a pixel for rounding
    assert browser.run("document.documentElement.scrollWidth") <= 741
    hidden = "[...document.querySelectorAll('nav, .copy')].every((e) => !e.getBoundingClientRect().height)"
    assert browser.run(hidden)
    if name != "eight":
        shown = "[...document.querySelectorAll('.heat')].every((e) => e.getBoundingClientRect().height > 300)"
        assert browser.run(shown)
    made = browser.pdf()
    assert made.startswith(b"%PDF-")
    assert made.rstrip().endswith(b"%%EOF")
    assert made.count(b"/Type /Page\n") + made.count(b"/Type /Page ") >= 2


def test_tables_and_headings_have_accessible_names(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.look(1280, 900, "light")
    browser.open(pages["eight"])
    levels = browser.run("[...document.querySelectorAll('h1,h2,h3')].map((e) => +e.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert browser.run("[...document.querySelectorAll('th')].every((e) => e.scope)")
    # scrolling parts have a name and can be reached with the keyboard
    assert browser.run(
        "[...document.querySelectorAll('.scroll')].every((e) => e.tabIndex === 0 && e.ariaLabel)"
    )
    tree = browser.ask("Accessibility.getFullAXTree")["nodes"]
    roles = {node.get("role", {}).get("value") for node in tree}
    assert {"main", "table", "columnheader", "rowheader", "heading", "navigation"} <= roles
    buttons = [n for n in tree if n.get("role", {}).get("value") == "button"]
    assert all(node["name"]["value"] for node in buttons)


@pytest.mark.parametrize("name", SAMPLES)
def test_junit_is_valid(tools: None, tmp_path: Path, name: str) -> None:
    write.write_reports(tmp_path, SAMPLES[name])
    schema = Path(__file__).with_name("junit.xsd")
    done = subprocess.run(
        [
            "xmllint",
            "--noout",
            "--nonet",
            "--huge",
            "--schema",
            str(schema),
            str(tmp_path / write.JUNIT),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_schema_refuses_invalid_results(tools: None, tmp_path: Path) -> None:
    write.write_reports(tmp_path, SAMPLES["healthy"])
    path, schema = tmp_path / write.JUNIT, Path(__file__).with_name("junit.xsd")
    path.write_text(path.read_text().replace("<testcase ", '<testcase surprise="1" ', 1))
    command = ["xmllint", "--noout", "--nonet", "--schema", str(schema), str(path)]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0


def test_the_samples_are_results() -> None:
    """The pictures show results that a verification could have written."""
    assert json.loads(json.dumps(SAMPLES["dropped"]))["verdict"] == "failed"


def test_a_finding_links_to_its_cause_without_scripts(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.look(1280, 900, "light")
    browser.open(pages["eight"], scripts=False)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")
    browser.run("document.querySelector('.finding .more a').click()")
    assert browser.run("location.hash") == "#about-vc-201"
    box = "document.querySelector('#about-vc-201').getBoundingClientRect()"
    assert browser.run(f"{box}.top >= 0 && {box}.top < innerHeight")
