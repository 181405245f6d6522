# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return the installed NVIDIA container toolkit, and the version that its repository offers.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from . import listed
from .nccl import inspect_repository

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..schema.toolkit import ToolkitPackages
    from .listed import Runner
    from .nccl import NcclPackagesParams


class ToolkitError(Exception):
    """A coded sentence for the user."""


def parse_toolkit_version(version: str) -> tuple[int, ...]:
    """Return a sort key that compares versions as numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def is_wanted_toolkit(version: str, wanted: str) -> bool:
    """Return whether a package version matches the wanted one, with or without its release. Empty matches any."""
    return wanted in ("", version, version.partition("-")[0])


def choose_toolkit_version(available: Mapping[str, list[str]], wanted: str, url: str) -> str:
    """Choose the newest wanted version that all packages have, since they need each other in the same version.

    Raises:
        ToolkitError: there is none.
    """
    # a tilde marks a release candidate, which sorts before its release
    common = set.intersection(*(set(found) for found in available.values()))
    final = [one for one in common if "~" not in one or one == wanted]
    fitting = [one for one in final if is_wanted_toolkit(one, wanted)]
    if fitting:
        return max(fitting, key=parse_toolkit_version)
    there = (
        ", ".join(sorted(final, key=parse_toolkit_version)) or "no common version of the packages"
    )
    raise ToolkitError(
        f"[CT-103] The repository {url} has no container toolkit {wanted or 'of any version'}, only {there}. "
        "Fix: set container_toolkit_version to one of these, or leave it empty."
    )


def observe_toolkit(run: Runner, asked: NcclPackagesParams, root: str = "/") -> ToolkitPackages:
    """Return the installed packages, the sources of the repository, and the packages to install.

    The repository is only read if it is needed.

    Raises:
        ToolkitError: the repository cannot be read or lacks the version.
    """
    manager, url, names, version = asked["manager"], asked["url"], asked["names"], asked["version"]
    installed, _ = listed.INSTALLED[manager](run, names)
    versions = set(installed.values())
    satisfied = (
        len(installed) == len(names)
        and len(versions) == 1
        and is_wanted_toolkit(min(versions), version)
    )
    if satisfied:
        chosen = min(versions)
    else:
        try:
            chosen = choose_toolkit_version(
                listed.list_available_versions(run, manager, url, names), version, url
            )
        except listed.RepositoryUnreadableError as error:
            raise ToolkitError(
                f"[CT-102] The container toolkit's repository {url} cannot be read: {error}. Check "
                "container_toolkit_repository_url and this node's way to it, or set container_toolkit_manage to false."
            ) from error
    return {
        "installed": installed,
        "satisfied": satisfied,
        "version": chosen,
        "ours": os.path.exists(os.path.join(root, asked["source"].lstrip("/"))),
        "repository": inspect_repository(asked, chosen, root),
    }
