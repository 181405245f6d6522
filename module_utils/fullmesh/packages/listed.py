# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return installed versions of packages, and those in a repository, without changing the system.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING

from ..foreign_text import parse_tool_json
from ..tools import dpkg, rpm
from .versionlock import read_held_versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Callable, Union

    Runner = Callable[..., tuple[int, str, str]]
    OutputRunner = Callable[[list[str]], Union[tuple[int, str], tuple[int, str, str]]]

READ_DNF = r"""
import json, sys
import dnf
base = dnf.Base()
base.conf.read()
base.conf.cachedir = sys.argv[1]
base.conf.disable_excludes = ["all"]
base.repos.add_new_repo("fullmesh-look", base.conf, baseurl=[sys.argv[2]], skip_if_unavailable=False)
base.fill_sack(load_system_repo=False)
found = base.sack.query().available().filter(name=sys.argv[3:])
print(json.dumps([[p.name, p.version + "-" + p.release] for p in found]))
"""
PYTHONS = (sys.executable, "/usr/libexec/platform-python", "/usr/bin/python3")


class RepositoryUnreadableError(Exception):
    """The repository cannot be read. The text has the reason."""


def find_error_line(why: str) -> str:
    """Return the line with the cause. apt's last line only says that it failed, an earlier one has the URL."""
    lines = [line.strip().rstrip(".") for line in why.splitlines() if line.strip()]
    return ([line for line in lines if "ailed to fetch" in line] or lines[-1:] or ["no output"])[0]


def list_installed_dpkg(
    run: OutputRunner, names: Sequence[str]
) -> tuple[dict[str, str], list[str]]:
    """Return versions and holds from dpkg's database."""
    found = dpkg.parse_packages(run(dpkg.build_query_command(names))[1])
    there = [one for one in found if one.state == "installed"]
    return {one.name: one.version for one in there}, [
        one.name for one in there if one.want == "hold"
    ]


def list_installed_rpm(run: OutputRunner, names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return versions from rpm's database, and locks from the list of dnf's versionlock plugin."""
    found = {
        one.name: f"{one.version}-{one.release}"
        for one in rpm.parse_packages(run(rpm.build_query_command(names))[1])
    }
    return found, read_held_versions(found)


def list_available_apt(
    run: Runner, url: str, names: list[str], private: str
) -> dict[str, list[str]]:
    """Read a flat apt repository. ``trusted`` is enough to read names: apt checks the key when it installs."""
    os.makedirs(os.path.join(private, "lists/partial"))
    sources = os.path.join(private, "sources.list")
    with open(sources, "w") as stream:
        stream.write(f"deb [trusted=yes] {url} /\n")
    options = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": os.path.join(private, "lists"),
        "Dir::Cache": private,
        "APT::Sandbox::User": "root",
        "Acquire::Retries": "1",
    }
    flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    rc, out, err = run(["apt-get", *flags, "-o", "APT::Update::Error-Mode=any", "update"])
    if rc:
        raise RepositoryUnreadableError(find_error_line(err or out))
    rc, out, err = run(["apt-cache", *flags, "madison", *names])
    if rc:
        raise RepositoryUnreadableError(find_error_line(err or out))
    rows = [[part.strip() for part in line.split("|")] for line in out.splitlines()]
    return {name: [row[1] for row in rows if row[0] == name] for name in names}


def list_available_dnf(
    run: Runner, url: str, names: list[str], private: str
) -> dict[str, list[str]]:
    """Read a yum repository with dnf's library, because ``dnf repoquery`` is a plugin that may be missing."""
    err = "no Python of this node has dnf's library"
    for python in PYTHONS:
        if run([python, "-c", "import dnf"])[0]:
            continue
        rc, out, err = run([python, "-c", READ_DNF, private, url, *names])
        if rc == 0:
            rows = parse_tool_json(out.splitlines()[-1])
            return {name: [row[1] for row in rows if row[0] == name] for name in names}
        break
    raise RepositoryUnreadableError(find_error_line(err))


INSTALLED = {"apt": list_installed_dpkg, "dnf": list_installed_rpm}
AVAILABLE = {"apt": list_available_apt, "dnf": list_available_dnf}


def list_available_versions(
    run: Runner, manager: str, url: str, names: list[str]
) -> dict[str, list[str]]:
    """Return each package's versions in a repository.

    Uses a private cache and source list.

    Raises:
        RepositoryUnreadableError: it cannot be read.
    """
    private = tempfile.mkdtemp(prefix="fullmesh-packages-")
    try:
        return AVAILABLE[manager](run, url, names, private)
    finally:
        shutil.rmtree(private, ignore_errors=True)
