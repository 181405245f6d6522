# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Which NCCL is installed, and which one the repository would give: asked without touching the system.

Runs on nodes: standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from ..facts.nccl import NcclError, choose, matches
from . import listed, sources

if TYPE_CHECKING:
    from ..schema.nccl import Repository
    from .listed import Runner


class Wanted(TypedDict):
    """What nccl_packages is asked for; its documentation says what each of them is."""

    names: list[str]
    manager: str
    url: str
    version: str
    cuda: str
    source: str


class Packages(TypedDict):
    """Packages and versions; ``held`` are those that nobody may upgrade, ``version`` is the one to have."""

    changed: bool
    installed: dict[str, str]
    held: list[str]
    satisfied: bool
    version: str


class Observed(Packages):
    """All of it."""

    repository: Repository


class RepositoryError(Exception):
    """A coded sentence for the user."""


def unreadable(url: str, why: str) -> RepositoryError:
    """Word the failure to read a repository."""
    return RepositoryError(
        f"[NC-102] the NCCL repository {url} cannot be read: {why}. Check "
        "nccl_repository_url and this node's way "
        "to it, or set nccl_manage to false."
    )


def around(params: Wanted, version: str, root: str) -> Repository:
    """What the system's own sources and settings say of the repository and of the packages in *version*."""
    named = sources.naming(params["url"], root)
    others = [one for one in named if one["path"] != params["source"]]
    theirs = others[0] if others and others[0]["enabled"] else None
    if params["manager"] == "dnf":
        way = sources.hidden_dnf(theirs, params["names"], version, root)
    else:
        way = sources.pinned_apt(params["names"], root)
    if theirs and theirs["usable"]:
        way.insert(0, "{} {}".format(theirs["path"], theirs["usable"]))
    return {
        "theirs": theirs["path"] if theirs else "",
        "section": theirs["section"] if theirs else "",
        "off": sorted({one["path"] for one in others if not one["enabled"]}),
        "in_the_way": way,
    }


def observe(run: Runner, params: Wanted, root: str = "/") -> Observed:
    """What is there and what was asked for, and who names the repository that it comes from."""
    seen = look(run, params)
    repository = around(params, seen["version"], root)
    # dnf hides what its excludes name for certain; what apt makes of a pin, only apt knows
    if params["manager"] == "dnf" and repository["in_the_way"] and not seen["satisfied"]:
        raise RepositoryError(
            "[NC-108] the repository {} has NCCL {}, and the settings of this node hide it: {}. Let that version "
            "through there, or set nccl_version to one that they let through.".format(
                params["url"], seen["version"], "; ".join(repository["in_the_way"])
            )
        )
    return {**seen, "repository": repository}


def look(run: Runner, params: Wanted) -> Packages:
    """Compare what is there with what was asked for; read the repository only when they differ."""
    names = params["names"]
    installed, held = listed.INSTALLED[params["manager"]](run, names)
    versions = set(installed.values())
    fits = len(installed) == len(names) and len(versions) == 1
    satisfied = fits and matches(min(versions), params["version"], params["cuda"])
    seen: Packages = {
        "changed": False,
        "installed": installed,
        "held": held,
        "satisfied": satisfied,
        "version": min(versions) if satisfied else "",
    }
    if satisfied:
        return seen
    try:
        available = listed.available(run, params["manager"], params["url"], names)
    except listed.UnreadableError as error:
        raise unreadable(params["url"], str(error)) from error
    try:
        seen["version"] = choose(available, params["version"], params["cuda"])
    except NcclError as error:
        raise RepositoryError(
            f"[NC-101] {error} ({params['url']}). Set nccl_version to one of these, or leave it empty."
        ) from error
    return seen
