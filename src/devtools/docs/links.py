"""Check that each link of the built site has a target. External addresses are never contacted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Tags with links, and tags that show or load a file.
LEADS = {
    "a": "href",
    "link": "href",
    "img": "src",
    "script": "src",
    "source": "src",
    "video": "src",
}


@dataclass
class Page(HTMLParser):
    """The links and the ids of one page."""

    links: list[tuple[str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Start the parser."""
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an element's id and its link."""
        found = {key: value or "" for key, value in attrs}
        self.names |= {found[key] for key in ("id", "name") if key in found}
        target = found.get(LEADS.get(tag, ""), "")
        if target:
            self.links.append((tag, target))


def read(path: Path) -> Page:
    """Read one page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(site: Path) -> Iterator[str]:
    """Yield every broken link of the site, and every file that a page would load from elsewhere."""
    pages = {path: read(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(site)
        for tag, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if tag not in ("a", "link"):
                    yield f"{where}: loads {link} from elsewhere"
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where}: {link} is not there"
            elif target in pages and unquote(parts.fragment) not in {"", *pages[target].names}:
                yield f"{where}: {link} names no place of that page"
