"""Sphinx' settings for ``./fullmesh docs``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from fullmesh import __version__
from fullmesh.codes import collect_codes

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

html_theme = "furo"
html_title = f"Fullmesh {release}"
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_copy_source = False
copybutton_prompt_text = "$ "

ERRORS = "docs/errors"
CODE = re.compile(r"\[([A-Z]{2}-[1-9][0-9]{2})\]")
# Families that have a section for each cause, in docs/causes.
CAUSES = "docs/causes/"


def anchors(_app: Sphinx, tree: nodes.document) -> None:
    """Give each row of docs/errors.md a name to link to."""
    if tree.settings.env.docname != ERRORS:
        return
    for cell in tree.findall(nodes.entry):
        if cell.astext() in collect_codes():
            cell["ids"].append(cell.astext().lower())


class Codes(SphinxPostTransform):
    """``[PF-102]`` in a sentence leads to what it means: the cause's own section, else its row in the list."""

    default_priority = 5

    def run(self, **_kwargs: object) -> None:
        """Replace them in one page."""
        apart = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.raw)
        for text in list(self.document.findall(nodes.Text)):
            parent = text.parent
            if parent is not None and CODE.search(text) and not in_any(text, apart):
                parent.replace(text, list(self.pieces(text)))

    def pieces(self, text: nodes.Text) -> Iterator[nodes.Node]:
        """A text with its codes as links."""
        at = 0
        for found in CODE.finditer(text):
            yield nodes.Text(text[at : found.start()])
            yield self.link(found[1], found[0])
            at = found.end()
        yield nodes.Text(text[at:])

    def link(self, code: str, words: str) -> nodes.Node:
        """One code."""
        if code not in collect_codes():
            return nodes.Text(words)
        labels = self.env.domains.standard_domain.anonlabels
        page, anchor = labels.get(code.lower(), (ERRORS, code.lower()))
        builder = self.app.builder
        return make_refnode(builder, self.env.docname, page, anchor, nodes.Text(words))


def in_any(node: nodes.Node, kinds: tuple[type[nodes.Element], ...]) -> bool:
    """Return whether a node lies in one of these."""
    above: nodes.Node | None = node.parent
    while above is not None:
        if isinstance(above, kinds):
            return True
        above = above.parent
    return False


def setup(app: Sphinx) -> None:
    """Sphinx' hook."""
    app.connect("doctree-read", anchors)
    app.add_post_transform(Codes)
