# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Packages that belong together, such as a driver's: which versions a node had, and what gives them back. Stdlib only.

One package drags others in and pushes others out (a driver of another branch replaces thirty), so names alone do not
say what an undo must do: the whole family is kept, as it was before a role touched it and as the role left it. What
differs from the second was changed by somebody else and is theirs.
"""

from __future__ import annotations

import configparser
import glob
import re
from typing import TYPE_CHECKING

from ..state.observe import is_dpkg
from ..state.record import Point
from .removal import describe_kept, packages_that_came, plan_removal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..schema.family import Family
    from ..state.observe import Node
    from ..state.record import FamilyBefore

# dnf.modularity(7): a file each with the stream that is enabled.
STREAMS = "/etc/dnf/modules.d"


def belongs(name: str, patterns: Sequence[str]) -> bool:
    """Say whether a package's bare name is one of the family's."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def versions_of(node: Node, patterns: Sequence[str]) -> dict[str, str]:
    """Every installed package of the family with its version, from the system's own database, in one call."""
    if is_dpkg(node):
        form = "${Package} ${binary:Package} ${Version} ${db:Status-Status}\\n"
        rows = node.run(["dpkg-query", "--show", "--showformat=" + form])[1]
    else:
        form = "%{NAME} %{NAME}.%{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE} installed\\n"
        rows = node.run(["rpm", "--query", "--all", "--queryformat", form])[1]
    found = {}
    for line in rows.splitlines():
        words = line.split()
        if len(words) == 4 and words[3] == "installed" and belongs(words[0], patterns):  # noqa: PLR2004 (the form's)
            found[words[1]] = words[2]
    return found


def streams_of(node: Node) -> dict[str, str]:
    """The streams that dnf has enabled; empty where there is no dnf."""
    found = {}
    for path in sorted(glob.glob(node.at(STREAMS) + "/*.module")):
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        try:
            parser.read(path)
        except (configparser.Error, UnicodeDecodeError):
            continue
        for name in parser.sections():
            if parser.get(name, "state", fallback="") == "enabled":
                found[name] = parser.get(name, "stream", fallback="")
    return found


def argument(name: str, version: str, dpkg: bool) -> str:
    """The package in this version, as apt (``NAME=VERSION``) or dnf (``NAME-EPOCH:VERSION-RELEASE.ARCH``) takes it."""
    if dpkg:
        return f"{name}={version}"
    bare, _, arch = name.rpartition(".")
    return f"{bare}-{version}.{arch}"


def locks_of(versions: Mapping[str, str]) -> dict[str, str]:
    """rpm's packages as dnf's list of locks takes them."""
    return {
        name.rpartition(".")[0]: version.partition(":")[2] for name, version in versions.items()
    }


def family(node: Node, patterns: Sequence[str]) -> Family:
    """What the node has now; nothing to give back."""
    versions = versions_of(node, patterns)
    return {
        "versions": versions,
        "locks": {} if is_dpkg(node) else locks_of(versions),
        "streams": streams_of(node),
        "install": [],
        "remove": [],
        "needed": [],
        "kept": [],
    }


def given_back(now: Family, before: FamilyBefore, dpkg: bool) -> Family:
    """What an undo has to do; without a note of what the role left (it died) every difference is ours."""
    then, there, left = before["before"], now["versions"], before.get("ours")
    changed = sorted(name for name in {*then, *there} if then.get(name) != there.get(name))
    ours = [name for name in changed if left is None or left.get(name) == there.get(name)]
    return {
        **now,
        "install": [argument(name, then[name], dpkg) for name in ours if name in then],
        "remove": [name for name in ours if name not in then],
        "kept": [name for name in changed if name not in ours],
    }


def warnings(found: Family, role: str) -> list[str]:
    """What an undo says of packages that somebody else has changed."""
    kept = describe_kept(role, found["needed"])
    if not found["kept"]:
        return kept
    names = ", ".join(found["kept"])
    return [
        *kept,
        f"[UN-106] {names}: changed since {role} installed or removed them, so they stay as they are. "
        "Look whether they still fit together.",
    ]


def remembered(node: Node, role: str, patterns: Sequence[str], check: bool) -> Family:
    """Keep the versions of before in the role's undo point, once; the point must be there."""
    now, point = family(node, patterns), Point(node.root, role)
    if not check and point.exists():
        record = point.load()
        if "family" not in record["part"]:
            record["part"]["family"] = {"before": now["versions"]}
            point.save(record, {})
    return now


def noted(node: Node, role: str, patterns: Sequence[str], check: bool) -> Family:
    """Keep the versions that the role leaves, so that an undo tells them from what others do later."""
    now, point = family(node, patterns), Point(node.root, role)
    if not check and point.exists():
        record = point.load()
        if "family" in record["part"]:
            record["part"]["family"]["ours"] = now["versions"]
            point.save(record, {})
    return now


def compared(node: Node, role: str, patterns: Sequence[str]) -> Family:
    """What an undo of *role* has to do; nothing where the role has never installed any of them."""
    now, point = family(node, patterns), Point(node.root, role)
    if not point.exists():
        return now
    record = point.load()
    before = record["part"].get("family")
    if before is None:
        return now
    back = given_back(now, before, is_dpkg(node))
    removal = plan_removal(node, back["remove"], packages_that_came(node, record))
    return {**back, "remove": removal["names"], "needed": removal["kept"]}
