"""The documentation's site in Chromium: no page has a barrier that axe knows, and none is wider than a phone."""

from __future__ import annotations

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
def site() -> Path:
    """Build the site. Its page for unknown addresses begins at the server, which is not there."""
    site = docs_site.build_site()
    page = site / "404.html"
    page.write_text(re.sub("<base [^>]*>", "", page.read_text()))
    return site


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_a_page_of_each_kind_has_no_barrier_and_fits(
    browser: Browser, site: Path, pictures: Path, width: int, scheme: str
) -> None:
    browser.look(width, 900, scheme)
    for name in KINDS:
        browser.open(site / f"{name}.html")
        assert browser.find_barriers() == "", name
        assert browser.run("document.documentElement.scrollWidth") <= width, name
        browser.picture(pictures / f"site-{name.replace('/', '-')}-{width}-{scheme}.png")


def test_no_page_has_a_barrier(browser: Browser, site: Path) -> None:
    browser.look(1280, 900, "light")
    others = sorted(set(site.rglob("*.html")) - {site / "index.html"})  # it only leads to the first
    assert len(others) > 100
    found = {}
    for path in others:
        browser.open(path)
        if barriers := browser.find_barriers():
            found[str(path.relative_to(site))] = barriers
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
