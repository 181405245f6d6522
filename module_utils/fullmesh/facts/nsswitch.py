# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The order in which a node looks host names up: nsswitch.conf(5). Standard library only."""

from __future__ import annotations

from ..files import split_lines, split_words


def parse_nsswitch_sources(text: str) -> list[str]:
    """Return the sources for host names in nsswitch.conf, in order. Without any: glibc's default."""
    for line in split_lines(text):
        fields = split_words(line.split("#", 1)[0])
        if fields and fields[0] == "hosts:":
            return fields[1:]
    return ["dns", "files"]
