# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the rules of nftables from nft(8). `netfilter` knows their meaning."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ..files import split_lines, split_words
from ..foreign_text import ForeignTextError, list_objects, parse_decimal, parse_tool_json

SHOW_RULESET = ["nft", "-j", "list", "ruleset"]
SHOW_RULE_TEXT = ["nft", "-a", "list", "ruleset"]
SHOW_FIREWALLD = ["nft", "-j", "list", "table", "inet", "firewalld"]


class ListedChain(NamedTuple):
    """A chain. ``devices``: the interfaces of a chain of the family netdev."""

    family: str
    table: str
    name: str
    devices: list[str]


class NftRuleLine(NamedTuple):
    """A rule in nft's text format, without its counter."""

    family: str
    table: str
    handle: int
    line: str


def build_chains_command(family: str = "") -> list[str]:
    """Build the command that lists chains, of one family or of all."""
    return ["nft", "list", "chains", *([family] if family else [])]


def parse_objects(text: str) -> list[dict[str, Any]]:
    """Parse the objects that ``nft -j`` prints, libnftables-json(5).

    Raises:
        ForeignTextError: it is something else.
    """
    held = parse_tool_json(text)
    if not isinstance(held, dict) or not isinstance(held.get("nftables"), list):
        raise ForeignTextError("it has no objects of nftables")
    return list_objects(held["nftables"])


def parse_chains(text: str) -> list[ListedChain]:
    """Parse ``nft list chains``, which has devices that the JSON of nft 1.0.6 lacks."""
    found: list[ListedChain] = []
    family = table = ""
    for line in split_lines(text):
        words = split_words(line)
        if words[:1] == ["table"] and len(words) > 2:  # noqa: PLR2004 (table FAMILY NAME)
            family, table = words[1:3]
        elif words[:1] == ["chain"] and len(words) > 1:
            found.append(ListedChain(family, table, words[1], []))
        match = re.search(r"\bdevices?(?: =)? (\{[^}]*\}|\S+)", line, re.ASCII)
        if match and found:
            found[-1].devices[:] = re.findall(r"[^\s{}\",;]+", match.group(1), re.ASCII)
    return found


def parse_rule_lines(text: str) -> list[NftRuleLine]:
    """Parse `SHOW_RULE_TEXT`."""
    found: list[NftRuleLine] = []
    family, table = "", ""
    for line in text.split("\n"):
        head = re.match(r"table (\S+) (\S+) \{", line, re.ASCII)
        if head:
            family, table = head.group(1), head.group(2)
        rule, _, number = line.rpartition(" # handle ")
        handle = parse_decimal(number)
        if line[:1] in " \t" and handle is not None and not rule.endswith("{"):
            said = re.sub(r"counter packets \d+ bytes \d+ ?", "", rule, flags=re.ASCII)
            found.append(NftRuleLine(family, table, handle, said.strip(" \t")))
    return found
