# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the packages of rpm's database from rpm(8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

FIELDS = ("NAME", "VERSION", "RELEASE", "EPOCHNUM", "ARCH")
FORM = "\\t".join(f"%{{{field}}}" for field in FIELDS) + "\\n"


class RpmPackage(NamedTuple):
    """An installed package."""

    name: str
    version: str
    release: str
    epoch: str
    arch: str


def build_query_command(names: Iterable[str] = ()) -> list[str]:
    """Build the command that lists installed packages, all without *names*."""
    return ["rpm", "--query", "--queryformat", FORM, *(["--", *names] if names else ["--all"])]


def parse_packages(text: str) -> list[RpmPackage]:
    """Parse `build_query_command`'s output. ``package NAME is not installed`` is skipped."""
    rows = [line.split("\t") for line in text.splitlines()]
    return [RpmPackage(*row) for row in rows if len(row) == len(FIELDS)]
