"""Sphinx' settings for ``./fullmesh docs``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from devtools.docs.versions import UNRELEASED, SiteVersions, build_home_address
from fullmesh import __version__
from fullmesh.codes import collect_codes
from fullmesh.settings import ROOT

project = "Fullmesh"
author = "Fullmesh contributors"
copyright = author  # noqa: A001 (Sphinx' own name)
release = version = __version__
language = "en"

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_antsibull_ext"]
root_doc = "docs/index"
exclude_patterns = ["examples/**.py"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
# GitHub's pages begin at any level, and a page of causes has one per family.
suppress_warnings = ["myst.header"]

# Blocks without a language are commands and their output, which would get the colors of Python.
highlight_language = "none"
html_theme = "furo"
html_title = f"Fullmesh {release}"
html_additional_pages = {"index": "redirect.html", "404": "404.html"}
# The colors of the tables of roles and modules in dark mode. They follow the theme's button, too.
DARK = files("sphinx_antsibull_ext").joinpath("colors-default-dark.css").read_text()
# Some of them have too little contrast.
html_theme_options: dict[str, Any] = {
    "light_css_variables": {
        "antsibull-option-required": "#c00000",
        "antsibull-attribute-support-none": "#c00000",
        "antsibull-attribute-support-partial": "#6b6b00",
    },
    "dark_css_variables": dict(re.findall(r"--([\w-]+):([^;}]+)", DARK))
    | {"antsibull-option-required": "#ffa8a8"},
}
# OWNER/NAME, which GitHub sets in its runs. Without it, pages have no edit link and no picture for previews.
REPOSITORY = os.environ.get("GITHUB_REPOSITORY", "")
# What devtools.docs.versions says of the versions of the site. A single build has only its own.
VERSIONS: SiteVersions | None = json.loads(os.environ.get("FULLMESH_DOCS_VERSIONS", "null"))
html_context: dict[str, SiteVersions | str | None] = {"versions": VERSIONS}
if VERSIONS and (newest := VERSIONS["all"][0]) != VERSIONS["this"]:
    is_released = VERSIONS["this"] != UNRELEASED
    which = f"version {VERSIONS['this']}" if is_released else "an unreleased version"
    html_theme_options["announcement"] = (
        f"This is the documentation of {which}. The newest release is "
        f'<a href="{VERSIONS["home"]}/{newest}/docs/index.html">{newest}</a>.'
    )
if REPOSITORY:
    html_baseurl = f"{build_home_address(REPOSITORY)}/"
    if VERSIONS:
        html_baseurl += f"{VERSIONS['this']}/"
    html_context["site"] = html_baseurl
    html_theme_options |= {
        "source_repository": f"https://github.com/{REPOSITORY}/",
        "source_branch": "main",
        "source_directory": "",
    }
PICTURE = "_images/finding.png"
PREVIEW_LENGTH = 200  # characters of a description that search engines and chats show
templates_path = ["templates"]
html_sidebars = {
    "**": [
        *("sidebar/brand.html", "sidebar/search.html", "sidebar/scroll-start.html"),
        *("sidebar/navigation.html", "versions.html", "sidebar/scroll-end.html"),
    ]
}
html_copy_source = False
copybutton_prompt_text = "$ "

ERRORS = "docs/errors"
CODE = re.compile(r"\[([A-Z]{2}-[1-9][0-9]{2})\]")
# Families that have a section for each cause, in docs/causes.
CAUSES = "docs/causes/"


# A code stays on one line: browsers break at its hyphen. A finger needs 24 pixels for a link of the contents.
STYLE = """\
<style>
.one-line { white-space: nowrap; }
.toc-tree li { padding-top: 0; }
.toc-tree a.reference { display: inline-block; line-height: 1.3; padding-block: 0.25rem; }
</style>
"""
# The theme's elements, and what keyboards and screen readers need in their place: a name for each region, and blocks
# that scroll with the arrow keys.
ELEMENTS = {
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Site">',
    '<aside class="announcement-content">': (
        '<aside class="announcement-content" aria-label="Version">'
    ),
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    '<div class="content-icon-container">': (
        '<div class="content-icon-container" role="navigation" aria-label="Page and colors">'
    ),
    '<th class="head"><p></p></th>': "<td></td>",
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
}


def mark_code_cells(_app: Sphinx, tree: nodes.document) -> None:
    """Keep each code in a table on one line, and give each row of docs/errors.md a name to link to."""
    for cell in tree.findall(nodes.entry):
        code = cell.astext().strip("[]")
        if code in collect_codes():
            cell["classes"].append("one-line")
            if tree.settings.env.docname == ERRORS:
                cell["ids"].append(code.lower())


class Codes(SphinxPostTransform):
    """Link each ``[PF-102]`` in a sentence to the cause's own section, or to its row in the list of codes."""

    default_priority = 5

    def run(self, **_kwargs: object) -> None:
        """Replace the codes in one page."""
        apart = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.raw)
        for text in list(self.document.findall(nodes.Text)):
            parent = text.parent
            if parent is not None and CODE.search(text) and not in_any(text, apart):
                parent.replace(text, list(self.pieces(text)))

    def pieces(self, text: nodes.Text) -> Iterator[nodes.Node]:
        """Yield the parts of a text, with its codes as links."""
        at = 0
        for found in CODE.finditer(text):
            yield nodes.Text(text[at : found.start()])
            yield self.link(found[1], found[0])
            at = found.end()
        yield nodes.Text(text[at:])

    def link(self, code: str, words: str) -> nodes.Node:
        """Return the link of one code, or plain text if the code does not exist."""
        if code not in collect_codes():
            return nodes.Text(words)
        labels = self.env.domains.standard_domain.anonlabels
        page, anchor = labels.get(code.lower(), (ERRORS, code.lower()))
        builder = self.app.builder
        link = make_refnode(builder, self.env.docname, page, anchor, nodes.Text(words))
        link["classes"].append("one-line")
        return link


def in_any(node: nodes.Node, kinds: tuple[type[nodes.Element], ...]) -> bool:
    """Return whether a node is inside a node of one of these kinds."""
    above: nodes.Node | None = node.parent
    while above is not None:
        if isinstance(above, kinds):
            return True
        above = above.parent
    return False


def describe_node(tree: nodes.document, kind: type[nodes.Element]) -> str:
    """Return the text of the first node of a kind, shortened at a word."""
    first = next(iter(tree.findall(kind)), None)
    text = " ".join(first.astext().split()) if first is not None else ""
    return text if len(text) <= PREVIEW_LENGTH else f"{text[:PREVIEW_LENGTH].rpartition(' ')[0]} …"


def complete_page(
    app: Sphinx, page: str, _template: str, context: dict[str, Any], tree: nodes.document | None
) -> None:
    """Add a page's preview for search engines and chats, and correct the theme's output.

    The captions of the navigation are headings without a level, which screen readers need. Generated pages have no
    file in the repository, so they get no edit link.
    """
    menu = str(context.get("furo_navigation_tree", ""))
    context["furo_navigation_tree"] = menu.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )
    if tree is None:
        return
    if not (ROOT / f"{page}.md").is_file():
        context["theme_source_repository"] = ""
    about = describe_node(tree, nodes.paragraph)
    site = app.config.html_baseurl
    tags = [
        *(("name", "description", about), ("property", "og:description", about)),
        ("property", "og:title", describe_node(tree, nodes.title)),
        *(("property", "og:site_name", project), ("property", "og:type", "article")),
        *((("property", "og:image", f"{site}{PICTURE}"),) if site else ()),
        *((("property", "og:url", f"{site}{page}.html"),) if site else ()),
    ]
    context["metatags"] += STYLE + "".join(
        f'<meta {kind}="{name}" content="{escape(value)}">\n' for kind, name, value in tags
    )


def correct_elements(app: Sphinx, error: Exception | None) -> None:
    """Correct the elements of all written pages that no template or setting of the theme can change."""
    if error is not None:
        return
    for path in sorted(app.outdir.rglob("*.html")):
        text = corrected = path.read_text("utf-8")
        for old, new in ELEMENTS.items():
            corrected = corrected.replace(old, new)
        if corrected != text:
            path.write_text(corrected, "utf-8")


def setup(app: Sphinx) -> None:
    """Register the hooks with Sphinx. The theme's own hook runs before ``complete_page``."""
    app.connect("doctree-read", mark_code_cells)
    app.add_post_transform(Codes)
    app.connect("html-page-context", complete_page, priority=900)
    app.connect("build-finished", correct_elements)
