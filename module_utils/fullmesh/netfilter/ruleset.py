# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Parse the output of ``nft -j`` and ``iptables-save`` into one form.

Standard library only.

A rule set is ``{"chains": {(family, table, name): Chain}, "sets": {(family, table, name): Values}}``.
"""

from __future__ import annotations

import bisect
import ipaddress
import re
import shlex
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypedDict

from ..foreign_text import parse_decimal, parse_tool_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    # libnftables-json(5): the tool's own JSON
    Json = dict[str, Any]
    Key = tuple[str, str, str]

# For a tool's own output: a comment may have other Unicode spaces. The controller uses this module too, so it has no
# imports of its package.
WORD = re.compile(r"\S+", re.ASCII)
PRIORITIES = {"raw": -300, "mangle": -150, "nat": -100, "filter": 0, "security": 50}
PROTOCOLS = {6: "tcp", 17: "udp"}  # as numbers in /etc/protocols
SILENT = frozenset(["-m", "--comment", "--reject-with", "--log-prefix", "--log-level"])
NETWORK = re.compile(r"[0-9a-fA-F.:]+(/[0-9a-fA-F.:]+)?\Z")


class NftRule(TypedDict):
    """A rule: its statements in libnftables-json(5), its handle, and its line in nft's text format."""

    expr: list[Json]
    handle: int | None
    line: str


class NftChain(TypedDict):
    """A chain. ``type``, ``hook``, ``prio``, ``policy`` and ``dev`` are None unless it is a base chain."""

    type: str | None
    hook: str | None
    prio: int | None
    policy: str | None
    dev: Any
    rules: list[NftRule]


class Ruleset(TypedDict):
    """Every chain and every named set or map."""

    chains: dict[Key, NftChain]
    sets: dict[Key, MatchValues]


class MatchValues:
    """The values on the right side of a match: addresses and numbers as intervals, the rest as words.

    Attributes:
        items: the original items, or pairs for a map.
    """

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.words: set[str] = set()
        self.odd = (
            False  # something that is not understood: concatenations, timeouts with conditions
        )

    @cached_property
    def spans(self) -> dict[str, list[tuple[int, int]]]:
        """The intervals by kind. They are read at the first use, which most sets do not have."""
        spans: dict[str, list[tuple[int, int]]] = {}
        for item in self.items:
            self.add(item, spans)
        return {kind: merge_intervals(spans[kind]) for kind in spans}

    def add(self, item: Any, spans: dict[str, list[tuple[int, int]]]) -> None:
        """Add one element to the intervals or words."""
        if isinstance(item, dict) and "elem" in item:
            item = item["elem"]["val"]
        span = parse_interval(item)
        if span:
            spans.setdefault(span[0], []).append(span[1:])
        elif isinstance(item, str):
            self.words.add(item)
        else:
            self.odd = True

    def holds(self, value: Any) -> bool | None:
        """Return whether *value* is in here, or None if that is unknown."""
        intervals, span = self.spans, parse_interval(value)
        if span:
            spans = intervals.get(span[0], [])
            place = bisect.bisect_right(spans, (span[1], float("inf"))) - 1
            found = place >= 0 and spans[place][0] <= span[1] <= spans[place][1]
        else:
            found = value in self.words or any(
                word[-1:] == "*" and str(value).startswith(word[:-1]) for word in self.words
            )
        return True if found else (None if self.odd else False)


def merge_intervals(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort intervals and join adjacent ones."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result


def parse_interval(item: Any) -> tuple[str, int, int] | None:
    """Return (kind, first, last) of an address, a network, a number or a range of them."""
    if isinstance(item, int):
        return ("n", item, item)
    if isinstance(item, dict) and "range" in item:
        ends = [parse_interval(end) for end in list(item["range"])[:2]]
        if len(ends) < 2 or not (ends[0] and ends[1]):  # noqa: PLR2004 (first and last)
            return None
        return (ends[0][0], ends[0][1], ends[1][2])
    if isinstance(item, dict) and isinstance(
        item.get("prefix"), dict
    ):  # of a log statement: a text
        item = "{}/{}".format(item["prefix"].get("addr"), item["prefix"].get("len"))
    return parse_interval_text(item) if isinstance(item, str) else None


# Every node of a cluster has the same peers in its sets: read once, they are read for all.
@lru_cache(maxsize=65536)
def parse_interval_text(text: str) -> tuple[str, int, int] | None:
    """Parse an interval from text."""
    network = parse_ip_network(text)
    if network is None:
        return None
    return (str(network.version), int(network[0]), int(network[-1]))


def parse_ip_network(text: str) -> Any:
    """Parse an address or network. None for any other word."""
    try:
        return ipaddress.ip_network(text, strict=False) if NETWORK.match(text) else None
    except ValueError:
        return None


# --- nftables -----------------------------------------------------------------------------------


def parse_nft_json(text: str) -> Ruleset:
    """Parse ``nft -j list ruleset``. Unreadable input gives an empty rule set."""
    try:
        items = parse_tool_json(text)["nftables"]
    except (ValueError, KeyError, TypeError):
        items = []
    kinds: dict[str, list[Any]] = {"chain": [], "rule": [], "set": [], "map": []}
    for item in items:
        for kind in item:
            kinds.setdefault(kind, []).append(item[kind])
    return build_ruleset(kinds["chain"], kinds["rule"], kinds["set"] + kinds["map"])


def build_ruleset(chains: Iterable[Any], rules: Iterable[Any], sets: Iterable[Any]) -> Ruleset:
    """Build a rule set from libnftables' objects. Other items and rules without a chain are left out."""
    result: Ruleset = {"chains": {}, "sets": {}}
    for one in chains:
        if isinstance(one, dict):
            result["chains"][make_object_key(one, "name")] = {
                "type": one.get("type"),
                "hook": one.get("hook"),
                "prio": one["prio"] if isinstance(one.get("prio"), int) else None,
                "policy": one.get("policy"),
                "dev": one.get("dev"),
                "rules": [],
            }
    for one in sets:
        if isinstance(one, dict):
            elements = one.get("elem")
            values = MatchValues(elements if isinstance(elements, list) else [])
            result["sets"][make_object_key(one, "name")] = values
    for one in rules:
        chain = (
            result["chains"].get(make_object_key(one, "chain")) if isinstance(one, dict) else None
        )
        if chain is not None:
            statements = one.get("expr")
            parts = [
                part
                for part in (statements if isinstance(statements, list) else ())
                if isinstance(part, dict)
            ]
            chain["rules"].append({"expr": parts, "handle": one.get("handle"), "line": ""})
    return result


def make_object_key(one: Json, name: str) -> Key:
    """Return (family, table, name) of an object of libnftables."""
    return str(one.get("family", "")), str(one.get("table", "")), str(one.get(name, ""))


def has_xt(ruleset: Ruleset) -> bool:
    """Return whether there are rules that only iptables understands (libnftables prints ``xt`` for them)."""
    return any(
        "xt" in part
        for chain in ruleset["chains"].values()
        for rule in chain["rules"]
        for part in rule["expr"]
    )


def fill_xt_rules(ruleset: Ruleset, family: str, text: str) -> None:
    """Replace rules that libnftables cannot express by those of ``iptables-nft-save``, rule by rule."""
    expressed = parse_iptables_save(text, family)
    for key, chain in expressed["chains"].items():
        mine = ruleset["chains"].get(key)
        if mine is not None and len(mine["rules"]) == len(chain["rules"]):
            for rule, other in zip(mine["rules"], chain["rules"]):
                rule["expr"], rule["line"] = other["expr"], other["line"]


# --- iptables -----------------------------------------------------------------------------------


def parse_iptables_save(text: str, family: str) -> Ruleset:
    """Parse ``iptables-save``. *family* is ``ip`` or ``ip6``."""
    result: Ruleset = {"chains": {}, "sets": {}}
    table = ""
    for line in text.split("\n"):
        if line[:1] == "*":
            table = line[1:].strip(" \t")
        elif line[:1] == ":":
            name, policy = [*WORD.findall(line[1:]), "", "-"][:2]
            result["chains"][(family, table, name)] = {
                "type": "nat" if table == "nat" else "filter",
                "hook": name.lower() if policy != "-" else None,
                "prio": PRIORITIES.get(table, 0),
                "policy": policy.lower(),
                "dev": None,
                "rules": [],
            }
        elif line.startswith("-A "):
            to = result["chains"].get((family, table, "".join(WORD.findall(line)[1:2])))
            names = {key[2] for key in result["chains"]}
            if to is not None:
                parts = parse_saved_rule(line, family, names)
                to["rules"].append({"expr": parts, "handle": None, "line": line.strip(" \t")})
    return result


def parse_saved_rule(line: str, family: str, chains: set[str]) -> list[Json]:
    """Convert one line of iptables-save to libnftables' expressions. Unknown parts become ``unknown``."""
    try:
        words = shlex.split(line)[2:]
    except ValueError:
        return [{"unknown": line}, {"drop": None}]
    parts: list[Json] = []
    negated, protocol = False, ""
    while words:
        word = words.pop(0)
        if word == "!":
            negated = True
            continue
        values: list[str] = []
        while words and (words[0][:1] != "-" or words[0] == "-") and words[0] != "!":
            values.append(words.pop(0))
        if word in ("-p", "--protocol"):
            protocol = "".join(values[:1])
        if word in ("-j", "-g"):
            parts += parse_saved_target(word, "".join(values[:1]), chains)
        else:
            parts += parse_saved_option(word, values, "!=" if negated else "==", (family, protocol))
        negated = False
    return parts


def parse_saved_option(word: str, values: list[str], op: str, where: tuple[str, str]) -> list[Json]:
    """Convert one option with its values to expressions."""
    family, protocol = where
    first = values[0] if values else ""
    if word in SILENT:
        return []
    if word in ("--syn", "--dst-type"):
        return [] if (first in ("", "LOCAL")) == (op == "==") else [{"never": None}]
    if word == "--match-set" and values[1:] == ["src"]:
        return [make_match({"payload": {"protocol": family, "field": "saddr"}}, "@" + first, op)]
    lefts: dict[str, tuple[Json, Any]] = {
        "-s": ({"payload": {"protocol": family, "field": "saddr"}}, first),
        "-d": ({"payload": {"protocol": family, "field": "daddr"}}, first),
        "-i": ({"meta": {"key": "iifname"}}, first.replace("+", "*")),
        "-p": ({"meta": {"key": "l4proto"}}, first),
        "--ctstate": ({"ct": {"key": "state"}}, first.lower().split(",")),
    }
    lefts["--state"] = lefts["--ctstate"]
    if word.rstrip("s") in ("--dport", "--sport"):
        left = {"payload": {"protocol": protocol, "field": word[2:7]}}
        lefts[word] = (left, {"set": [parse_saved_port(one) for one in first.split(",")]})
    if word in lefts:
        return [make_match(lefts[word][0], lefts[word][1], op)]
    return [{"unknown": word}]


def parse_saved_port(text: str) -> Any:
    """Parse ``22`` or ``50000:54095``. A name stays a name, which matches no packet."""
    ends = text.split(":")
    numbers = [parse_decimal(end) for end in ends]
    if None in numbers:
        return text
    return {"range": numbers} if len(numbers) > 1 else numbers[0]


def parse_saved_target(word: str, name: str, chains: set[str]) -> list[Json]:
    """Convert ``-j`` or ``-g`` to a verdict.

    Targets without an effect on the verdict (LOG, MARK, TCPMSS) give none.
    """
    ends = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "reject", "RETURN": "return"}
    ends.update({"DNAT": "dnat", "REDIRECT": "redirect", "TPROXY": "tproxy", "NFQUEUE": "queue"})
    if name in ends:
        return [{ends[name]: None}]
    return [{"goto" if word == "-g" else "jump": {"target": name}}] if name in chains else []


def make_match(left: Json, right: Any, op: str) -> Json:
    """Build one match."""
    return {"match": {"op": op, "left": left, "right": right}}
