# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the packages that an undo can remove without removing packages of others.

Standard library only.

Input formats: the lines of ``apt-get --simulate`` (apt-get(8)), and the table that ``dnf --assumeno remove`` shows, as
dnf 4 prints it with LC_ALL=C (dnf/cli/output.py).
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
# Unused dependencies stay: ansible.builtin.dnf does not remove them either.
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
    """Return the packages that ``apt-get --simulate remove`` would remove."""
    return {strip_architecture(name) for name in APT_LINE.findall(out)}


def parse_dnf_removal(out: str, err: str = "") -> set[str]:
    """Return the packages that ``dnf --assumeno remove`` would remove.

    Each package is a line with one leading space. A long name fills its line and the rest follows with more
    indentation. Instead of a table, *err* may list protected packages, which dnf never removes.
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
    """Return the packages that the package manager would remove with *names*.

    Changes nothing.

    Raises:
        UndoError: the package manager failed.
    """
    command = [*(APT if has_dpkg(node) else DNF), *names]
    rc, out, err = node.run(command)
    found = parse_apt_removal(out) if has_dpkg(node) else parse_dnf_removal(out, err)
    # dnf exits with 1 because the removal was not confirmed
    if not found and rc != 0:
        raise UndoError(
            f"[UN-109] {' '.join(command)} fails: {(err or out).strip()[-300:]}. No package was removed. "
            "Fix: solve the reported problem, then run the undo again."
        )
    return found


def find_blocked_removals(
    node: NodeSystem, names: Sequence[str], ours: Collection[str]
) -> dict[str, list[str]]:
    """Find packages among *names* whose removal would also remove packages that are not in *ours*."""
    others = simulate_removal(node, names) - set(ours)
    if not others:
        return {}
    blocked = {name: sorted(simulate_removal(node, [name]) - set(ours)) for name in names}
    blocked = {name: needed for name, needed in blocked.items() if needed}
    # each could go alone but not all together: another package needs one of them
    return blocked or {name: sorted(others) for name in names}


def plan_removal(
    node: NodeSystem, names: Sequence[str], came_with: Sequence[str] = ()
) -> RemovalPlan:
    """Choose the packages that can be removed without removing packages of others.

    Args:
        node: the node.
        names: the packages that an undo wants to remove.
        came_with: packages that came with them and may be removed as well.
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
    """Return the packages that runs of a role have installed, including an unfinished run."""
    found = set(record["part"].get("brought", []))
    if "installing" in record["part"]:
        found |= set(list_all_packages(node)) - set(record["part"]["installing"])
    return sorted(found)


def describe_kept_packages(role: str, kept: Sequence[KeptPackage]) -> list[str]:
    """Return a warning about each package that stays."""
    return [
        f"[UN-108] {one['package']}, which {role} installed, was not removed: packages that stay need it "
        f"({', '.join(one['needed_by'])}). Fix: if you need none of them, remove {one['package']} with the package "
        "manager."
        for one in kept
    ]
