"""The parts of the documentation's site: checked links, generated pages, included files."""

from __future__ import annotations

import argparse
import functools
import importlib.util
from pathlib import Path

import pytest
import yaml

from devtools.docs import cli, links, reference, tree, versions
from fullmesh.settings import PLAN_SETTINGS, ROOT


def build_site(place: Path, **pages: str) -> Path:
    """A site of these pages."""
    for name, text in pages.items():
        (place / f"{name}.html").write_text(text)
    return place


def test_a_link_without_target_is_named(tmp_path: Path) -> None:
    site = build_site(
        tmp_path,
        a='<p id="here"></p><a href="b.html#there">1</a><a href="#here">2</a><a href="b.html">3</a>',
        b='<h2 id="there">x</h2><a href="a.html#gone">1</a><a href="c.html">2</a><img src="p.svg">',
    )
    assert list(links.broken(site)) == [
        "b.html: a.html#gone names no place of that page",
        "b.html: c.html is not there",
        "b.html: p.svg is not there",
    ]


def test_a_page_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    """A link to elsewhere may be followed; it is not looked at."""
    site = build_site(
        tmp_path,
        a='<a href="https://host.invalid/x">1</a><script src="https://host.invalid/x.js"></script>',
    )
    assert list(links.broken(site)) == ["a.html: loads https://host.invalid/x.js from elsewhere"]


def test_every_setting_of_the_plan_and_the_roles_is_listed() -> None:
    text = reference.settings()
    for name in PLAN_SETTINGS:
        assert f"| `{name}` |" in text
    for path in (ROOT / "roles").glob("*/defaults/main.yml"):
        for name in yaml.safe_load(path.read_text()) or {}:
            assert f"| `{name}` |" in text


def test_every_verb_is_listed_with_its_options() -> None:
    text = reference.commands()
    assert "\n## fullmesh apply\n" in text
    assert "\n### fullmesh lab up\n" in text
    assert "`-i, --inventory INVENTORY`" in text
    assert "`--non-interactive`\n: do not ask" in text
    assert "%(" not in text


def test_the_site_has_every_page_at_its_own_place() -> None:
    found = {str(path) for path in tree.taken()}
    assert {"README.md", "docs/index.md", "roles/nccl/README.md"} <= found
    assert all((ROOT / name).is_file() for name in found)
    pages = tree.contents()
    assert found < pages.keys()
    # made from the code
    assert b"\n## VC-201: " in pages["docs/causes/diagnose.md"]
    assert b"| VC-201 |" in pages["docs/errors.md"]
    assert b"\n## fullmesh apply\n" in pages["reference/commands.md"]


def test_an_unlisted_page_comes_last() -> None:
    index = "# X\n\n```{toctree}\n:hidden:\n\n/README\nOne <one>\ntwo\ndeep/three\n```\n"
    pages = ["docs/one.md", "docs/two.md", "docs/index.md"]
    assert tree.with_all(index, pages) == index
    more = tree.with_all(index, [*pages, "docs/zeta.md", "docs/eta.md"])
    assert more == f"{index}\n```{{toctree}}\n:hidden:\n:caption: More\n\neta\nzeta\n```\n"


def test_a_linked_file_is_copied() -> None:
    text = "[a](../site.yml) [b](https://x.invalid/) [c](#d) [e](../src/fullmesh/cli.py#x) [f](no.md) [g](/etc/hosts)"
    found = {str(path) for path in tree.linked(Path("docs/x.md"), text)}
    assert found == {"site.yml", "src/fullmesh/cli.py"}


def test_an_anchor_of_githubs_is_one_of_the_sites() -> None:
    assert tree.page(b'a\n<a id="lg-101"></a>\n\n## LG-101\n') == b"a\n(lg-101)=\n\n## LG-101\n"


def test_without_sphinx_the_installation_is_described(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert cli.run(argparse.Namespace(no_open=True, check=False)) == cli.USAGE
    assert "[CL-190]" in capsys.readouterr().err


def test_a_site_of_all_versions_needs_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = argparse.Namespace(no_open=True, check=False, versions=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: True)
    build = functools.partial(versions.build_versions, tmp_path, tmp_path / "site")
    monkeypatch.setattr(versions, "build_versions", build)
    assert cli.run(asked) == cli.PROBLEM
    said = capfd.readouterr().err
    assert "not a git repository" in said
    assert "[CL-192] The site of all versions cannot be built: Command '['git'," in said
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(asked) == cli.PROBLEM
    assert "[CL-192] The site of all versions cannot be built: [Errno 2]" in capfd.readouterr().err


def test_unchanged_files_keep_their_time(tmp_path: Path) -> None:
    tree.write({"a/b": b"1", "c": b"2"}, tmp_path)
    before = (tmp_path / "a/b").stat().st_mtime_ns
    tree.write({"a/b": b"1"}, tmp_path)
    assert (tmp_path / "a/b").stat().st_mtime_ns == before
    assert not (tmp_path / "c").exists()
