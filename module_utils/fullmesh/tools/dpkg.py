# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the packages of dpkg's database from dpkg-query(1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

FIELDS = ("Package", "Version", "db:Status-Status", "db:Status-Want", "binary:Package")
FORM = "\\t".join(f"${{{field}}}" for field in FIELDS) + "\\n"


class DpkgPackage(NamedTuple):
    """A package in the database.

    A removed one stays with its configuration.

    Attributes:
        state: ``installed``, ``config-files``, ``not-installed`` ...
        want: ``install``, ``hold``, ``deinstall`` ...
        qualified: the name, with the architecture if several can be installed.
    """

    name: str
    version: str
    state: str
    want: str
    qualified: str


def build_query_command(names: Iterable[str] = ()) -> list[str]:
    """Build the command that lists packages, all without *names*."""
    command = ["dpkg-query", "--show", "--showformat=" + FORM]
    return [*command, "--", *names] if names else command


def parse_packages(text: str) -> list[DpkgPackage]:
    """Parse `build_query_command`."""
    rows = [line.split("\t") for line in text.splitlines()]
    return [DpkgPackage(*row) for row in rows if len(row) == len(FIELDS)]
