"""The documentation as a site: built without a warning, no link inside leads nowhere, nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import docs_site
import pytest

from devtools.docs import versions

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> Path:
    """Build the site."""
    return docs_site.build_site()


def test_every_role_and_module_has_its_page(site: Path) -> None:
    made = {path.stem for path in (site / "reference/collection").glob("*.html")}
    assert made >= {f"{path.name}_role" for path in (ROOT / "roles").iterdir()}
    assert made >= {f"{path.stem}_module" for path in (ROOT / "library").glob("*.py")}


def test_an_argument_is_there_with_its_default_and_its_words(site: Path) -> None:
    text = (site / "reference/collection/kernel_tuning_role.html").read_text()
    assert "kernel_tuning_link_gbit" in text
    assert "Speed of the cluster link in Gbit/s." in text


def test_a_role_page_has_no_relative_link_that_breaks(site: Path) -> None:
    """Galaxy does not have the collection; and the theme puts an error where a page has contents of its own."""
    for path in (site / "reference/collection").glob("*.html"):
        text = path.read_text()
        assert "galaxy.ansible.com" not in text, path
        assert "Adding a table of contents" not in text, path


def test_the_search_knows_the_pages(site: Path) -> None:
    text = (site / "searchindex.js").read_text()
    index = json.loads(re.sub(r"^Search\.setIndex\((.*)\);?\s*$", r"\1", text, flags=re.DOTALL))
    assert {"docs/first-run", "docs/causes/gloo", "roles/static_ip/README"} <= set(
        index["docnames"]
    )
    assert "firewalld" in index["terms"]


def test_a_code_in_a_sentence_links_to_its_meaning(site: Path) -> None:
    """A cause to its own section, another code to its row; both places are there (the links are checked)."""
    text = (site / "docs/reliability.html").read_text()
    link = '<a class="one-line reference internal" href='
    assert f'{link}"errors.html#tx-110">[TX-110]</a>' in text
    assert f'{link}"causes/diagnose.html#vc-308">[VC-308]</a>' in text
    assert 'id="tx-110"' in (site / "docs/errors.html").read_text()


def test_the_site_begins_at_its_top(site: Path) -> None:
    assert 'url=docs/index.html"' in (site / "index.html").read_text()


def test_a_page_of_the_checkout_has_an_edit_link_and_a_generated_one_has_none(site: Path) -> None:
    edit = "https://github.com/example/fullmesh/edit/main/docs/hang.md"
    assert f'href="{edit}"' in (site / "docs/hang.html").read_text()
    assert "https://github.com/example" not in (site / "docs/errors.html").read_text()


def test_a_shared_link_has_a_title_a_description_and_a_picture(site: Path) -> None:
    text = (site / "docs/hang.html").read_text()
    tags = dict(re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]*)">', text))
    assert tags["og:title"] == "Find the cause of a hung job"
    assert tags["description"] == tags["og:description"]
    assert tags["description"].startswith("A hung job shows no error")
    home = "https://example.github.io/fullmesh/"
    assert tags["og:url"] == f"{home}docs/hang.html"
    assert tags["og:image"].startswith(home)
    assert (site / tags["og:image"].removeprefix(home)).is_file()


def test_an_unknown_address_leads_back_to_the_site(site: Path) -> None:
    """The server sends the page for any path, so its links must not depend on the path."""
    text = (site / "404.html").read_text()
    assert text.index('<base href="https://example.github.io/fullmesh/">') < text.index(
        "stylesheet"
    )
    assert "<h1>Page not found</h1>" in text
    assert 'href="docs/index.html"' in text


def test_a_screen_reader_and_dark_mode_get_usable_pages(site: Path) -> None:
    text = (site / "reference/collection/peer_zone_module.html").read_text()
    assert 'role="heading" aria-level="2"' in text
    assert 'role="heading">' not in text
    dark = text.partition('body[data-theme="dark"]')[2]
    assert "--antsibull-table-background-even: #1c1c1e" in dark.partition("}")[0]


def test_the_newest_release_of_each_minor_version_is_chosen() -> None:
    tags = ["v0.3.0", "v0.3.10", "v0.3.9", "v0.10.0", "v1.0.0-rc1", "v1", "vx.1.2", "v1.0.0"]
    assert list(versions.choose_releases(tags).items()) == [
        ("1.0", "v1.0.0"),
        ("0.10", "v0.10.0"),
        ("0.3", "v0.3.10"),
    ]
    many = [f"v0.{minor}.0" for minor in range(9)]
    assert list(versions.choose_releases(many)) == ["0.8", "0.7", "0.6", "0.5", "0.4"]


@pytest.mark.rest
def test_a_site_of_two_versions_leads_from_one_to_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, site = tmp_path / "checkout", tmp_path / "site"
    clone = ["git", "clone", "--quiet", "--local", str(ROOT), str(checkout)]
    subprocess.run(clone, check=True, timeout=300)
    for tag in ("v0.2.8", "v0.2.9"):
        subprocess.run(["git", "-C", str(checkout), "tag", tag], check=True, timeout=60)
    monkeypatch.setenv("GITHUB_REPOSITORY", "example/fullmesh")
    # the environment of these tests, which is made from the same lock
    monkeypatch.setenv("FULLMESH_VENV", sys.prefix)
    assert versions.build_versions(checkout, site) == ["0.2", "main"]
    home = "https://example.github.io/fullmesh"
    for version in ("0.2", "main"):
        text = (site / version / "docs/hang.html").read_text()
        listed = text.partition('aria-label="Versions"')[2].partition("</nav>")[0]
        assert re.findall(r'href="([^"]+)"', listed) == [
            f"{home}/0.2/docs/index.html",
            f"{home}/main/docs/index.html",
        ]
        assert re.findall(r'aria-current="true">([^<]+)', listed) == [version]
        assert f'content="{home}/{version}/docs/hang.html"' in text
        assert ("The newest release is <a" in text) == (version == "main")
    assert 'url=0.2/docs/index.html"' in (site / "index.html").read_text()
    assert f'<base href="{home}/0.2/">' in (site / "404.html").read_text()
    trees = ["git", "-C", str(checkout), "worktree", "list"]
    left = subprocess.run(trees, check=True, capture_output=True, text=True, timeout=60)
    assert len(left.stdout.splitlines()) == 1
