# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Save and restore the versions of packages that belong together, such as a driver's.

Standard library only.

Packages install and remove each other (a driver of another branch replaces 30), so names are not enough for an undo.
The versions of the whole family are saved before and after a role changes it. Versions that differ from the second list
were changed by others and are left alone.
"""

from __future__ import annotations

import configparser
import glob
import re
from typing import TYPE_CHECKING

from ..state.observe import has_dpkg
from ..state.record import UndoPoint
from ..state.removal import describe_kept_packages, list_new_packages, plan_removal
from ..tools import dpkg, rpm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..schema.family import PackageFamily
    from ..state.observe import NodeSystem
    from ..state.record import FamilyBefore

# dnf.modularity(7): a file each with the stream that is enabled.
STREAMS = "/etc/dnf/modules.d"


def is_family_package(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a package's bare name belongs to the family."""
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def list_family_versions(node: NodeSystem, patterns: Sequence[str]) -> dict[str, str]:
    """Return every installed package of the family with its version, from the system's database, in one call."""
    if has_dpkg(node):
        return {
            one.qualified: one.version
            for one in dpkg.parse_packages(node.run(dpkg.build_query_command())[1])
            if one.state == "installed" and is_family_package(one.name, patterns)
        }
    return {
        f"{one.name}.{one.arch}": f"{one.epoch}:{one.version}-{one.release}"
        for one in rpm.parse_packages(node.run(rpm.build_query_command())[1])
        if is_family_package(one.name, patterns)
    }


def list_enabled_streams(node: NodeSystem) -> dict[str, str]:
    """Return the streams that dnf has enabled, empty without dnf."""
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
    """Format a package and version for apt (``NAME=VERSION``) or dnf (``NAME-EPOCH:VERSION-RELEASE.ARCH``)."""
    if dpkg:
        return f"{name}={version}"
    bare, _, arch = name.rpartition(".")
    return f"{bare}-{version}.{arch}"


def versions_to_locks(versions: Mapping[str, str]) -> dict[str, str]:
    """Convert rpm's packages to the format of dnf's list of locks."""
    return {
        name.rpartition(".")[0]: version.partition(":")[2] for name, version in versions.items()
    }


def observe_family(node: NodeSystem, patterns: Sequence[str]) -> PackageFamily:
    """Return the present state of the family, with nothing to restore."""
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
    """Plan an undo. If the role recorded no final state (it died), every difference counts as its own."""
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
    """Return warnings about packages that others have changed."""
    kept = describe_kept_packages(role, found["needed"])
    if not found["kept"]:
        return kept
    names = ", ".join(found["kept"])
    return [
        *kept,
        f"[UN-106] {names}: changed since {role} installed or removed them, so they stay as they are. "
        "Check whether they still fit together.",
    ]


def remember_family(
    node: NodeSystem, role: str, patterns: Sequence[str], check: bool
) -> PackageFamily:
    """Save the versions in the role's undo point, once. The undo point must exist."""
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
    """Save the versions that the role leaves, so that an undo can recognize later changes by others."""
    now, point = observe_family(node, patterns), UndoPoint(node.root, role)
    if not check and point.exists():
        record = point.load()
        if "family" in record["part"]:
            record["part"]["family"]["ours"] = now["versions"]
            point.save(record, {})
    return now


def compare_family(node: NodeSystem, role: str, patterns: Sequence[str]) -> PackageFamily:
    """Return the steps of *role*'s undo, none if the role never installed a package of the family."""
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
