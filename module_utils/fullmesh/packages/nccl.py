# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Which NCCL is installed, and which one the repository would give: asked without touching the system.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, TypedDict

from ..facts.nccl import NcclError, choose, matches
from . import sources
from .versionlock import held_here

if TYPE_CHECKING:
    from typing import Callable

    from ..schema.nccl import Repository

    Runner = Callable[..., tuple[int, str, str]]

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
    lines = [line.strip().rstrip(".") for line in why.splitlines() if line.strip()]
    # apt's last line says only that something failed; the one before names what.
    telling = [line for line in lines if "ailed to fetch" in line] or lines[-1:] or ["no output"]
    return RepositoryError(
        f"[NC-102] the NCCL repository {url} cannot be read: {telling[0]}. Check "
        "nccl_repository_url and this node's way "
        "to it, or set nccl_manage to false."
    )


def installed_dpkg(run: Runner, names: list[str]) -> tuple[dict[str, str], list[str]]:
    """Versions and holds from dpkg's database."""
    form = "${Package}\\t${Version}\\t${db:Status-Status}\\t${db:Status-Want}\\n"
    _, out, _ = run(["dpkg-query", "--show", "--showformat=" + form, *names])
    rows = [line.split("\t") for line in out.splitlines()]
    there = [row for row in rows if len(row) == 4 and row[2] == "installed"]  # noqa: PLR2004 (four fields asked for)
    return {row[0]: row[1] for row in there}, [row[0] for row in there if row[3] == "hold"]


def installed_rpm(run: Runner, names: list[str]) -> tuple[dict[str, str], list[str]]:
    """Versions from rpm's database, and locks from the list of dnf's versionlock plugin."""
    form = "%{NAME}\\t%{VERSION}-%{RELEASE}\\n"
    _, out, _ = run(["rpm", "--query", "--queryformat", form, *names])
    found = dict(line.split("\t") for line in out.splitlines() if "\t" in line)
    return found, held_here(found)


def available_apt(run: Runner, url: str, names: list[str], private: str) -> dict[str, list[str]]:
    """Read a flat apt repository. ``trusted``: this only reads names; apt checks the key when it installs."""
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
        raise unreadable(url, err or out)
    rc, out, err = run(["apt-cache", *flags, "madison", *names])
    if rc:
        raise unreadable(url, err or out)
    rows = [[part.strip() for part in line.split("|")] for line in out.splitlines()]
    return {name: [row[1] for row in rows if row[0] == name] for name in names}


def available_dnf(run: Runner, url: str, names: list[str], private: str) -> dict[str, list[str]]:
    """Read a yum repository with dnf's own library; ``dnf repoquery`` is a plugin that may be missing."""
    err = "no Python of this node has dnf's library"
    for python in PYTHONS:
        if run([python, "-c", "import dnf"])[0]:
            continue
        rc, out, err = run([python, "-c", READ_DNF, private, url, *names])
        if rc == 0:
            rows = json.loads(out.splitlines()[-1])
            return {name: [row[1] for row in rows if row[0] == name] for name in names}
        break
    raise unreadable(url, err)


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


INSTALLED = {"apt": installed_dpkg, "dnf": installed_rpm}
AVAILABLE = {"apt": available_apt, "dnf": available_dnf}


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
    installed, held = INSTALLED[params["manager"]](run, names)
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
    private = tempfile.mkdtemp(prefix="fullmesh-nccl-")
    try:
        available = AVAILABLE[params["manager"]](run, params["url"], names, private)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    try:
        seen["version"] = choose(available, params["version"], params["cuda"])
    except NcclError as error:
        raise RepositoryError(
            f"[NC-101] {error} ({params['url']}). Set nccl_version to one of these, or leave it empty."
        ) from error
    return seen
