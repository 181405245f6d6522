# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return the installed NCCL, and the version that the repository offers, without changing the system.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ..facts.nccl import NcclError, choose_nccl_version, is_wanted_nccl
from . import listed, sources

if TYPE_CHECKING:
    from ..schema.nccl import Repository
    from .listed import Runner


class NcclPackagesParams(TypedDict):
    """The parameters of nccl_packages. The module documents them."""

    names: list[str]
    manager: str
    url: str
    version: str
    cuda: str
    source: str


class NcclPackages(TypedDict):
    """Packages and versions. ``held`` packages must not be upgraded, ``version`` is the wanted one."""

    changed: bool
    installed: dict[str, str]
    held: list[str]
    satisfied: bool
    version: str


class NcclPackagesResult(NcclPackages):
    """The complete answer."""

    repository: Repository


class NcclRepositoryError(Exception):
    """A coded sentence for the user."""


def make_unreadable_error(url: str, why: str) -> NcclRepositoryError:
    """Return the error for an unreadable repository."""
    return NcclRepositoryError(
        f"[NC-102] The NCCL repository {url} cannot be read: {why}. Check "
        "nccl_repository_url and this node's way "
        "to it, or set nccl_manage to false."
    )


def inspect_repository(params: NcclPackagesParams, version: str, root: str) -> Repository:
    """Return how the system's sources and settings treat the repository and *version* of the packages."""
    named = sources.find_package_sources(params["url"], root)
    others = [one for one in named if one["path"] != params["source"]]
    theirs = others[0] if others and others[0]["enabled"] else None
    if params["manager"] == "dnf":
        way = sources.explain_dnf_excludes(theirs, params["names"], version, root)
    else:
        way = sources.explain_apt_pins(params["names"], root)
    if theirs and theirs["usable"]:
        way.insert(0, "{} {}".format(theirs["path"], theirs["usable"]))
    return {
        "theirs": theirs["path"] if theirs else "",
        "section": theirs["section"] if theirs else "",
        "off": sorted({one["path"] for one in others if not one["enabled"]}),
        "in_the_way": way,
    }


def observe_nccl_packages(
    run: Runner, params: NcclPackagesParams, root: str = "/"
) -> NcclPackagesResult:
    """Compare the installed with the requested packages, and find the sources that name their repository."""
    seen = compare_nccl_packages(run, params)
    repository = inspect_repository(params, seen["version"], root)
    # dnf reliably hides excluded packages, but only apt knows the effect of its pins
    if params["manager"] == "dnf" and repository["in_the_way"] and not seen["satisfied"]:
        raise NcclRepositoryError(
            "[NC-108] The repository {} has NCCL {}, and the settings of this node hide it: {}. Fix: allow that "
            "version there, or set nccl_version to one that they allow.".format(
                params["url"], seen["version"], "; ".join(repository["in_the_way"])
            )
        )
    return {**seen, "repository": repository}


def compare_nccl_packages(run: Runner, params: NcclPackagesParams) -> NcclPackages:
    """Compare the installed with the requested packages. The repository is only read if they differ."""
    names = params["names"]
    installed, held = listed.INSTALLED[params["manager"]](run, names)
    versions = set(installed.values())
    fits = len(installed) == len(names) and len(versions) == 1
    satisfied = fits and is_wanted_nccl(min(versions), params["version"], params["cuda"])
    seen: NcclPackages = {
        "changed": False,
        "installed": installed,
        "held": held,
        "satisfied": satisfied,
        "version": min(versions) if satisfied else "",
    }
    if satisfied:
        return seen
    try:
        available = listed.list_available_versions(run, params["manager"], params["url"], names)
    except listed.RepositoryUnreadableError as error:
        raise make_unreadable_error(params["url"], str(error)) from error
    try:
        seen["version"] = choose_nccl_version(available, params["version"], params["cuda"])
    except NcclError as error:
        raise NcclRepositoryError(
            f"[NC-101] {error} ({params['url']}). Fix: set nccl_version to one of these, or leave it empty."
        ) from error
    return seen
