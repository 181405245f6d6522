# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Access a node for its links: files, kernel state, and the connection of this session. Standard library only."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from ..commands import make_merged_runner
from ..files import read_text_file
from ..tools import ip
from ..transaction import session
from . import static_ip

if TYPE_CHECKING:
    from ..commands import SplitRunner
    from ..tools.ip import IpLink
    from .types import DetailedRoute, LinkSettings, SeenRoute


class LinkError(Exception):
    """A coded sentence for the user."""


class NetworkNode:
    """The node: a root directory and a function that runs commands. Tests pass their own."""

    def __init__(self, run: SplitRunner, root: str = "") -> None:
        self.run = run
        self.root = root

    def read(self, path: str) -> str:
        """Return a file's text, or "" if it is unreadable."""
        try:
            return read_text_file(self.root + path)
        except OSError:
            return ""

    def listed(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern."""
        return [path[len(self.root) :] for path in sorted(glob.glob(self.root + pattern))]

    def links(self) -> dict[str, IpLink]:
        """Return the kernel's interfaces."""
        return ip.parse_links(self.run(ip.SHOW_LINKS)[1])

    def routes(self) -> list[SeenRoute]:
        """Return the kernel's routes of both families."""
        found: list[SeenRoute] = []
        for family in ("-4", "-6"):
            found += static_ip.parse_routes(self.run(ip.build_routes_command(family))[1])
        return found

    def every_route(self) -> list[DetailedRoute]:
        """Return all routes, also those without a next hop, with their protocol."""
        found: list[DetailedRoute] = []
        for family in (4, 6):
            out = self.run(ip.build_routes_command(f"-{family}"))[1]
            found += static_ip.parse_detailed_routes(out, family)
        return found

    def lacking(self, links: list[LinkSettings]) -> list[str]:
        """Describe the kernel's differences from all links."""
        seen = self.links()
        # Saves two commands if there are no routes.
        routes = self.routes() if any(static_ip.wanted_routes(link) for link in links) else []
        found = [
            fault for link in links for fault in static_ip.find_link_faults(link, seen, routes)
        ]
        return found + self.lacking_tables(links)

    def lacking_tables(self, links: list[LinkSettings]) -> list[str]:
        """Describe the differences of the routing tables of rails."""
        railed = [link for link in links if link.get("table")]
        if not railed:
            return []
        rules, routes = self.run(ip.SHOW_RULES)[1], self.run(ip.SHOW_TABLES)[1]
        return [
            fault for link in railed for fault in static_ip.find_table_faults(link, rules, routes)
        ]

    def short(self, command: list[str]) -> tuple[int, str]:
        """Run a command for the transaction, which expects one text."""
        return make_merged_runner(self.run)(command)


def read_ssh_session() -> list[str]:
    """Return the SSH_CONNECTION that carries this call: client, port, server, port."""
    words: list[str] = session.find_ssh_session(os.environ, os.getppid())
    return words
