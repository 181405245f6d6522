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

from ..state.observe import has_dpkg
from ..state.record import UndoPoint
from ..state.removal import describe_kept_packages, list_new_packages, plan_removal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..schema.family import PackageFamily
    from ..state.observe import NodeSystem
    from ..state.record import FamilyBefore

# dnf.modularity(7): a file each with the stream that is enabled.
STREAMS = "/etc/dnf/modules.d"


def is_family_package(name: str, patterns: Sequence[str]) -> bool:
    """Say whether a package's bare name is one of the family's."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def list_family_versions(node: NodeSystem, patterns: Sequence[str]) -> dict[str, str]:
    """Every installed package of the family with its version, from the system's own database, in one call."""
    if has_dpkg(node):
        form = "${Package} ${binary:Package} ${Version} ${db:Status-Status}\\n"
        rows = node.run(["dpkg-query", "--show", "--showformat=" + form])[1]
    else:
        form = "%{NAME} %{NAME}.%{ARCH} %{EPOCHNUM}:%{VERSION}-%{RELEASE} installed\\n"
        rows = node.run(["rpm", "--query", "--all", "--queryformat", form])[1]
    found = {}
    for line in rows.splitlines():
        words = line.split()
        if len(words) == 4 and words[3] == "installed" and is_family_package(words[0], patterns):  # noqa: PLR2004 (the form's)
            found[words[1]] = words[2]
    return found


def list_enabled_streams(node: NodeSystem) -> dict[str, str]:
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


def format_install_argument(name: str, version: str, dpkg: bool) -> str:
    """The package in this version, as apt (``NAME=VERSION``) or dnf (``NAME-EPOCH:VERSION-RELEASE.ARCH``) takes it."""
    if dpkg:
        return f"{name}={version}"
    bare, _, arch = name.rpartition(".")
    return f"{bare}-{version}.{arch}"


def versions_to_locks(versions: Mapping[str, str]) -> dict[str, str]:
    """rpm's packages as dnf's list of locks takes them."""
    return {
        name.rpartition(".")[0]: version.partition(":")[2] for name, version in versions.items()
    }


def observe_family(node: NodeSystem, patterns: Sequence[str]) -> PackageFamily:
    """What the node has now; nothing to give back."""
    versions = list_family_versions(node, patterns)
    return {
        "versions": versions,
        "locks": {} if has_dpkg(node) else versions_to_locks(versions),
        "streams": list_enabled_streams(node),
        "install": [],
        "remove": [],
        "needed": [],
        "kept": [],
    }


def plan_family_undo(now: PackageFamily, before: FamilyBefore, dpkg: bool) -> PackageFamily:
    """What an undo has to do; without a note of what the role left (it died) every difference is ours."""
    then, there, left = before["before"], now["versions"], before.get("ours")
    changed = sorted(name for name in {*then, *there} if then.get(name) != there.get(name))
    ours = [name for name in changed if left is None or left.get(name) == there.get(name)]
    return {
        **now,
        "install": [
            format_install_argument(name, then[name], dpkg) for name in ours if name in then
        ],
        "remove": [name for name in ours if name not in then],
        "kept": [name for name in changed if name not in ours],
    }


def describe_family_warnings(found: PackageFamily, role: str) -> list[str]:
    """What an undo says of packages that somebody else has changed."""
    kept = describe_kept_packages(role, found["needed"])
    if not found["kept"]:
        return kept
    names = ", ".join(found["kept"])
    return [
        *kept,
        f"[UN-106] {names}: changed since {role} installed or removed them, so they stay as they are. "
        "Look whether they still fit together.",
    ]


def remember_family(
    node: NodeSystem, role: str, patterns: Sequence[str], check: bool
) -> PackageFamily:
    """Keep the versions of before in the role's undo point, once; the point must be there."""
    now, point = observe_family(node, patterns), UndoPoint(node.root, role)
    if not check and point.exists():
        record = point.load()
        if "family" not in record["part"]:
            record["part"]["family"] = {"before": now["versions"]}
            point.save(record, {})
    return now


def record_family(
    node: NodeSystem, role: str, patterns: Sequence[str], check: bool
) -> PackageFamily:
    """Keep the versions that the role leaves, so that an undo tells them from what others do later."""
    now, point = observe_family(node, patterns), UndoPoint(node.root, role)
    if not check and point.exists():
        record = point.load()
        if "family" in record["part"]:
            record["part"]["family"]["ours"] = now["versions"]
            point.save(record, {})
    return now


def compare_family(node: NodeSystem, role: str, patterns: Sequence[str]) -> PackageFamily:
    """What an undo of *role* has to do; nothing where the role has never installed any of them."""
    now, point = observe_family(node, patterns), UndoPoint(node.root, role)
    if not point.exists():
        return now
    record = point.load()
    before = record["part"].get("family")
    if before is None:
        return now
    back = plan_family_undo(now, before, has_dpkg(node))
    removal = plan_removal(node, back["remove"], list_new_packages(node, record))
    return {**back, "remove": removal["names"], "needed": removal["kept"]}
