# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Which packages an undo can remove without taking packages of others along. Stdlib only; runs on nodes.

Formats: the lines of ``apt-get --simulate`` (apt-get(8)), and the table that ``dnf --assumeno remove`` shows before it
asks, as dnf 4 prints it with LC_ALL=C (dnf/cli/output.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypedDict

from .errors import UndoError
from .observe import has_dpkg, list_all_packages, observe_packages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..schema.family import KeptPackage
    from .observe import NodeSystem
    from .record import UndoRecord

# a package on hold that depends on one of them would end the simulation without an answer
APT = ["apt-get", "--simulate", "--quiet", "--ignore-hold", "remove", "--"]
# what dnf would remove as unused was not asked for: ansible.builtin.dnf does not either
DNF = ["dnf", "--assumeno", "--setopt=clean_requirements_on_remove=False", "remove", "--"]
APT_LINE = re.compile(r"^(?:Remv|Purg) (\S+)", re.MULTILINE)
DNF_PROTECTED = re.compile(r"removing the following protected packages: (.+)")
DNF_HEADINGS = ("Removing:", "Removing dependent packages:", "Removing unused dependencies:")
ARCHITECTURES = ("x86_64", "aarch64", "noarch", "i686", "amd64", "arm64", "i386", "all")


class RemovalPlan(TypedDict):
    """The packages that an undo can remove, and those that stay."""

    names: list[str]
    kept: list[KeptPackage]


def strip_architecture(name: str) -> str:
    """Return a package's name without ``:amd64`` or ``.x86_64``."""
    bare, _, suffix = name.replace(":", ".").rpartition(".")
    return bare if bare and suffix in ARCHITECTURES else name


def parse_apt_removal(out: str) -> set[str]:
    """Name what ``apt-get --simulate remove`` would remove."""
    return {strip_architecture(name) for name in APT_LINE.findall(out)}


def parse_dnf_removal(out: str, err: str = "") -> set[str]:
    """Name what ``dnf --assumeno remove`` would remove.

    Each package is a line with one space before its name. A long name has the line for itself, and what follows is
    indented further. Instead of the table *err* may name protected packages, which dnf never removes.
    """
    protected = DNF_PROTECTED.search(err)
    found = set(protected[1].split(", ")) if protected else set()
    inside = False
    for line in out.splitlines():
        if not line.startswith(" "):
            inside = line.strip() in DNF_HEADINGS
        elif inside and not line.startswith("  "):
            found.add(strip_architecture(line.split()[0]))
    return found


def simulate_removal(node: NodeSystem, names: Sequence[str]) -> set[str]:
    """Ask the package manager what would go with *names*; nothing is changed.

    Raises:
        UndoError: it cannot tell.
    """
    command = [*(APT if has_dpkg(node) else DNF), *names]
    rc, out, err = node.run(command)
    found = parse_apt_removal(out) if has_dpkg(node) else parse_dnf_removal(out, err)
    # dnf answers with 1, since nobody agreed
    if not found and rc != 0:
        raise UndoError(
            f"[UN-109] {' '.join(command)} fails: {(err or out).strip()[-300:]}. No package was removed. "
            "Fix: repair what it names, then run the undo again."
        )
    return found


def find_blocked_removals(
    node: NodeSystem, names: Sequence[str], ours: Collection[str]
) -> dict[str, list[str]]:
    """Find the packages among *names* whose removal takes packages along that are not *ours*."""
    others = simulate_removal(node, names) - set(ours)
    if not others:
        return {}
    blocked = {name: sorted(simulate_removal(node, [name]) - set(ours)) for name in names}
    blocked = {name: needed for name, needed in blocked.items() if needed}
    # each alone could go, all of them cannot: somebody needs one of several
    return blocked or {name: sorted(others) for name in names}


def plan_removal(
    node: NodeSystem, names: Sequence[str], came_with: Sequence[str] = ()
) -> RemovalPlan:
    """Choose the packages that can be removed without any package of others.

    Args:
        node: where to look.
        names: the packages that an undo wants to remove.
        came_with: packages that came with them and may go as well.
    """
    states = observe_packages(node, [strip_architecture(name) for name in names])
    going = [name for name in names if states[strip_architecture(name)] == "installed"]
    ours = {strip_architecture(name) for name in [*names, *came_with]}
    kept: list[KeptPackage] = []
    while going:
        blocked = find_blocked_removals(node, going, ours)
        if not blocked:
            break
        kept += [{"package": name, "needed_by": needed} for name, needed in blocked.items()]
        going = [name for name in going if name not in blocked]
        ours -= {strip_architecture(name) for name in blocked}
    stays = {one["package"] for one in kept}
    return {"names": [name for name in names if name not in stays], "kept": kept}


def list_new_packages(node: NodeSystem, record: UndoRecord) -> list[str]:
    """Name the packages that runs of a role have brought, also a run that has not ended."""
    found = set(record["part"].get("brought", []))
    if "installing" in record["part"]:
        found |= set(list_all_packages(node)) - set(record["part"]["installing"])
    return sorted(found)


def describe_kept_packages(role: str, kept: Sequence[KeptPackage]) -> list[str]:
    """Word the warning about each package that stays."""
    return [
        f"[UN-108] {one['package']}, which {role} installed, was not removed: packages that stay need it "
        f"({', '.join(one['needed_by'])}). Fix, if you need none of them: remove {one['package']} with the package "
        "manager."
        for one in kept
    ]
