"""Shared by the tests of the report: a parsed page and a recorded result."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

from fullmesh.report import (
    terminal,
)

VOID = {"meta", "br", "input", "link", "img", "hr"}


class Page(HTMLParser):
    """Parse a page as a browser does: elements, attributes, text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, tag
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.stack and self.stack[-1] == "script" else self.texts).append(data)

    def text(self) -> str:
        """Everything that is read."""
        return " ".join(" ".join(self.texts).split())

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Elements and the names of their attributes."""
        return [(tag, tuple(sorted(attrs))) for tag, attrs in self.elements]


def parse_xml(text: str) -> ET.Element:
    """The XML that we wrote ourselves."""
    return ET.fromstring(text)  # noqa: S314 (no XML of others)


def summary(result: dict[str, Any]) -> str:
    stream = io.StringIO()
    terminal.print_result(result, terminal.make_console(stream))
    return stream.getvalue()
