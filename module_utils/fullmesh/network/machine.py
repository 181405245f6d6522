# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The node as its links are seen: files, what the kernel says, and the connection that carries us. Stdlib only."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from ..commands import plain
from ..files import read
from ..transaction import session as way_in
from . import static_ip as text

if TYPE_CHECKING:
    from ..commands import SplitRunner
    from .types import EveryRoute, Link, SeenLink, SeenRoute


class LinkError(Exception):
    """A coded sentence for the user."""


class Node:
    """The machine: a root directory and a way to run commands, so that tests bring their own."""

    def __init__(self, run: SplitRunner, root: str = "") -> None:
        self.run = run
        self.root = root

    def read(self, path: str) -> str:
        """Return a file's text, empty where it cannot be read."""
        try:
            return read(self.root + path)
        except OSError:
            return ""

    def listed(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern."""
        return [path[len(self.root) :] for path in sorted(glob.glob(self.root + pattern))]

    def links(self) -> dict[str, SeenLink]:
        """Ask the kernel for its interfaces."""
        return text.parse_links(self.run(text.SHOW)[1])

    def routes(self) -> list[SeenRoute]:
        """Ask the kernel for its routes, both families."""
        found: list[SeenRoute] = []
        for family in ("-4", "-6"):
            found += text.parse_routes(self.run(["ip", "-j", family, "route", "show"])[1])
        return found

    def every_route(self) -> list[EveryRoute]:
        """The same with those that have no next hop, and who made each."""
        found: list[EveryRoute] = []
        for family in (4, 6):
            out = self.run(["ip", "-j", f"-{family}", "route", "show"])[1]
            found += text.parse_every_route(out, family)
        return found

    def lacking(self, links: list[Link]) -> list[str]:
        """Say what the kernel lacks of all links."""
        seen = self.links()
        # Two commands less where nobody asked for a route.
        routes = self.routes() if any(text.wanted_routes(link) for link in links) else []
        return [fault for link in links for fault in text.lacks(link, seen, routes)]

    def short(self, command: list[str]) -> tuple[int, str]:
        """Run a command for the transaction, which wants one text."""
        return plain(self.run)(command)


def our_session() -> list[str]:
    """Return the SSH_CONNECTION that carries this call: client, port, server, port."""
    words: list[str] = way_in.session(os.environ, os.getppid())
    return words
