"""The documentation's site in Chromium: no page has a barrier that axe knows, and none is wider than a phone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import docs_site
import pytest

from .chromium import Browser

# One page of each kind. They are looked at in all colors and widths.
KINDS = (
    *("404", "CHANGELOG", "README", "genindex", "search"),
    *("docs/index", "docs/errors", "docs/hang", "docs/causes/launch", "docs/development/tested"),
    *("docs/troubleshooting", "reference/commands", "reference/settings"),
    *("reference/collection/bundle_archive_module", "reference/collection/static_ip_role"),
)
LOOKS = ((1280, "light"), (1280, "dark"), (400, "light"), (400, "dark"))


@pytest.fixture(scope="module")
def built_site() -> Path:
    """Build the site as one of two versions, so that its pages list them and name the newest.

    The page for unknown addresses loads its files from the server, which is not there.
    """
    versions = {
        "this": "main",
        "all": ["0.2", "main"],
        "home": "https://example.github.io/fullmesh",
    }
    folder = docs_site.build_site({"FULLMESH_DOCS_VERSIONS": json.dumps(versions)})
    page = folder / "404.html"
    page.write_text(re.sub("<base [^>]*>", "", page.read_text()))
    return folder


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_page_of_each_kind_has_no_barrier_and_fits(
    browser: Browser, built_site: Path, pictures: Path, width: int, scheme: str
) -> None:
    browser.look(width, 900, scheme)
    for name in KINDS:
        browser.open(built_site / f"{name}.html")
        assert browser.find_barriers() == "", name
        assert browser.run("document.documentElement.scrollWidth") <= width, name
        assert browser.run("document.querySelectorAll('nav[aria-label=Versions] a').length") == 2
        browser.picture(pictures / f"site-{name.replace('/', '-')}-{width}-{scheme}.png")


def test_no_page_has_a_barrier(browser: Browser, built_site: Path) -> None:
    browser.look(1280, 900, "light")
    others = sorted(
        set(built_site.rglob("*.html")) - {built_site / "index.html"}
    )  # it only leads to the first
    assert len(others) > 100
    found = {}
    for path in others:
        browser.open(path)
        if barriers := browser.find_barriers():
            found[str(path.relative_to(built_site))] = barriers
    assert not found


def test_a_barrier_is_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><html><title>Page</title><main><h1>Page</h1><img src='x'></main></html>"
    )
    browser.look(1280, 900, "light")
    browser.open(page)
    found = browser.find_barriers()
    assert "image-alt" in found
    assert "html-has-lang" in found
