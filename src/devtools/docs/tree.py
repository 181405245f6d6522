"""Prepare Sphinx' input: the checkout's own pages, and the reference that is generated from the sources.

The pages keep their paths in the checkout, so links between them also work on the site.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from devtools import collection
from devtools.docs import reference
from fullmesh.explain.pages import render_pages
from fullmesh.settings import ROOT

PLACE = ROOT / ".fullmesh/docs"
SOURCE, HTML, MADE = PLACE / "source", PLACE / "html", PLACE / "collection"
# Pages, and files that pages link to.
TAKEN = (
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "docs",
    "examples",
    "inventory",
    "roles/*/README.md",
)
COLLECTION = "reference/collection"
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
# An anchor as in pages for GitHub, and as in MyST.
ANCHOR = re.compile(r'^<a id="([a-z0-9-]+)"></a>$', re.MULTILINE)
# Plugins without a page: the playbooks use the filters, and ansible.cfg uses the callbacks.
WITHOUT = ("filter", "callback", "action")


def taken(root: Path = ROOT) -> Iterator[Path]:
    """Yield the files of the checkout that the site uses unchanged, relative to it."""
    for pattern in TAKEN:
        for top in sorted(root.glob(pattern)):
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                if path.is_file() and "__pycache__" not in path.parts:
                    yield path.relative_to(root)


def linked(page: Path, text: str, root: Path = ROOT) -> Iterator[Path]:
    """Yield the files of the checkout that a page links to, relative to it."""
    for target in LINK.findall(text):
        path = (root / page.parent / target).resolve()
        if path.is_file() and path.is_relative_to(root):
            yield path.relative_to(root)


def page(raw: bytes) -> bytes:
    """Return a page of the checkout in the form for Sphinx."""
    return ANCHOR.sub(r"(\1)=", raw.decode()).encode()


def with_all(index: str, pages: Iterable[str]) -> str:
    """Return the first page. Pages that none of its lists names are added at the end."""
    listed = set(re.findall(r"^(?:.* <)?/?([\w/-]+)>?$", index, re.MULTILINE))
    rest = sorted({Path(page).stem for page in pages} - listed - {"index"})
    if not rest:
        return index
    return "\n".join(
        [index.rstrip(), "", "```{toctree}", ":hidden:", ":caption: More", "", *rest, "```", ""]
    )


def contents(root: Path = ROOT) -> dict[str, bytes]:
    """Return all files except the collection's reference: path -> content."""
    files = {name: page(text.encode()) for name, text in render_pages().items()}
    for path in taken(root):
        raw = (root / path).read_bytes()
        files[str(path)] = page(raw) if path.suffix == ".md" else raw
        for other in linked(path, raw.decode(), root) if path.suffix == ".md" else ():
            files.setdefault(str(other), (root / other).read_bytes())
    pages = [name for name in files if re.fullmatch(r"docs/[^/]+\.md", name)]
    files["docs/index.md"] = with_all(files["docs/index.md"].decode(), pages).encode()
    files["reference/commands.md"] = reference.commands().encode()
    files["reference/settings.md"] = reference.settings().encode()
    return files


def write(files: Mapping[str, bytes], where: Path) -> None:
    """Make a folder contain exactly these files. Sphinx reads only changed ones, because others keep their time."""
    for path in [path for path in where.rglob("*") if path.is_file()]:
        if str(path.relative_to(where)) not in files:
            path.unlink()
    for name, content in files.items():
        path = where / name
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def of_collection() -> dict[str, bytes]:
    """Let antsibull-docs generate the pages of roles and modules from their own specs and documentation.

    Raises:
        RuntimeError: antsibull-docs rejected one, with its output.
    """
    files = collection.contents()
    installed = MADE / "installed/ansible_collections/fullmesh/cluster"
    shutil.rmtree(MADE, ignore_errors=True)
    (MADE / "pages").mkdir(parents=True)
    archive = MADE / "collection.tar.gz"
    archive.write_bytes(collection.archive(files, collection.links(), collection.about()))
    shutil.unpack_archive(archive, installed)  # Python 3.11.2 of Debian 12 has no filter for tar
    for kind in WITHOUT:
        (installed / "plugins" / kind).unlink()
    words = "--use-current --squash-hierarchy --no-indexes --fail-on-error --dest-dir"
    tool = Path(sys.executable).with_name("antsibull-docs")
    command = [str(tool), "collection", *words.split()]
    done = subprocess.run(
        [*command, str(MADE / "pages"), collection.COLLECTION],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(MADE / "installed")},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"antsibull-docs: {done.stdout}{done.stderr}")
    pages = sorted((MADE / "pages").glob("*_[rm]o*le.rst"))
    found = {
        f"{COLLECTION}/{path.name}": reference.of_ours(path.read_text()).encode() for path in pages
    }
    found[f"{COLLECTION}/index.md"] = reference.listing([path.stem for path in pages]).encode()
    return found
