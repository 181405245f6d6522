"""Build one site of several versions: the tree itself, and the newest release of each of the last minor versions.

Each release is built by its own code, in a temporary work tree of its tag. Every page lists all versions.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from devtools.docs.tree import HTML, PLACE
from fullmesh.settings import ROOT

SITE = PLACE.parent / "docs-site"  # outside, because each build removes the other folder
UNRELEASED = "main"
MINORS = 5
GIT_SECONDS, BUILD_SECONDS = 120, 1200  # a build also makes its virtual environment
TAG = re.compile(r"v(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


class SiteVersions(TypedDict):
    """What a build of one version must know of the site, in FULLMESH_DOCS_VERSIONS.

    Attributes:
        this: the version. UNRELEASED is the tree itself.
        all: of the site, with the one that readers see first at the front.
        home: the site's address.
    """

    this: str
    all: list[str]
    home: str


def build_home_address(repository: str) -> str:
    """Return the address of a repository's site on GitHub Pages, without a slash at its end."""
    owner, _, name = repository.partition("/")
    return f"https://{owner}.github.io/{name}"


def choose_releases(tags: Iterable[str]) -> dict[str, str]:
    """Choose the newest release of each of the last minor versions: version -> tag, the newest first."""
    newest: dict[tuple[int, int], tuple[int, str]] = {}
    for tag in tags:
        if found := TAG.fullmatch(tag):
            major, minor, patch = (int(part) for part in found.groups())
            newest[major, minor] = max(newest.get((major, minor), (-1, "")), (patch, tag))
    last = sorted(newest, reverse=True)[:MINORS]
    return {f"{major}.{minor}": newest[major, minor][1] for major, minor in last}


def list_tags(root: Path) -> list[str]:
    """List the tags of a checkout."""
    command = ["git", "-C", str(root), "tag", "--list", "v*"]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=GIT_SECONDS
    )
    return done.stdout.split()


def build_version(root: Path, version: str, versions: list[str], to: Path) -> None:
    """Let the code of a tree build its own site, and copy it.

    Raises:
        subprocess.SubprocessError: the tree's own command failed or took too long. Its output says why.
    """
    repository = os.environ.get("GITHUB_REPOSITORY", "")
    home = build_home_address(repository) if repository else to.as_uri()
    about: SiteVersions = {"this": version, "all": versions, "home": home}
    subprocess.run(
        [str(root / "fullmesh"), "docs", "--check"],
        env={**os.environ, "FULLMESH_DOCS_VERSIONS": json.dumps(about)},
        cwd=root,
        check=True,
        timeout=BUILD_SECONDS,
    )
    shutil.copytree(root / HTML.relative_to(ROOT), to / version)


def build_versions(root: Path = ROOT, to: Path = SITE) -> list[str]:
    """Build the site of all versions. Return them, the one that readers see first at the front.

    Raises:
        OSError: git is not installed.
        subprocess.SubprocessError: git or the build of a version failed or took too long. Its output says why.
    """
    releases = choose_releases(list_tags(root))
    versions = [*releases, UNRELEASED]
    shutil.rmtree(to, ignore_errors=True)
    build_version(root, UNRELEASED, versions, to)
    for version, tag in releases.items():
        with tempfile.TemporaryDirectory(prefix="fullmesh-docs-") as folder:
            tree = Path(folder) / "tree"
            git = ["git", "-C", str(root), "worktree"]
            subprocess.run(
                [*git, "add", "--quiet", "--detach", str(tree), tag],
                check=True,
                timeout=GIT_SECONDS,
            )
            try:
                build_version(tree, version, versions, to)
            finally:
                subprocess.run(
                    [*git, "remove", "--force", str(tree)], check=True, timeout=GIT_SECONDS
                )
    first = to / versions[0]
    text = (first / "index.html").read_text("utf-8")
    (to / "index.html").write_text(
        text.replace("docs/index.html", f"{versions[0]}/docs/index.html")
    )
    shutil.copy(first / "404.html", to / "404.html")
    return versions
