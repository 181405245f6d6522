#!/usr/bin/env python3
"""Keep a part of Debian's archive in /out: its signed indexes as they are, and the packages that nodes install.

Runs in the release's own base image, whose Debian 12 counterpart is at /in. A node's apt checks Debian's signatures
and hashes as it does with a mirror.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

OUT = Path("/out")
LISTS = Path("/var/lib/apt/lists")


def run(*argv: str) -> str:
    """Run a command and return its output; its failure is an exception."""
    done = subprocess.run(argv, check=True, text=True, stdout=subprocess.PIPE)  # noqa: S603  # no shell
    return done.stdout


def keep_indexes() -> None:
    """Copy the signed release files, and fetch the indexes that they name, compressed as they name them."""
    run("apt-get", "update", "-q")
    for file in LISTS.glob("*_InRelease"):
        target = OUT / "dists" / file.name.split("_")[-2] / "InRelease"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    for uri in run("apt-get", "indextargets", "--format", "$(URI)").splitlines():
        target = OUT / "dists" / f"{uri.partition('/dists/')[2]}.xz"
        target.parent.mkdir(parents=True, exist_ok=True)
        run("/usr/lib/apt/apt-helper", "-q", "download-file", f"{uri}.xz", str(target))


def keep_packages(*arguments: str) -> None:
    """Fetch the packages that ``apt-get ARGUMENTS`` would fetch on a node; apt compares their hashes."""
    words = run("apt-get", "-qq", "-y", "--print-uris", *arguments).splitlines()
    paths = {line.split()[1]: line.split("'")[1].partition("/pool/")[2] for line in words}
    names = [unquote(name).rsplit("_", 1)[0].replace("_", "=") for name in paths]
    run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *names)
    for name, path in paths.items():
        target = OUT / "pool" / unquote(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(name, target)


def main() -> None:
    """Fill /out."""
    keep_indexes()
    lines = Path("/lab/archive.list").read_text().splitlines()
    keep_packages("install", *(line for line in lines if not line.startswith("#")))
    # chrony takes its place, and undo installs it again
    keep_packages("install", "--reinstall", "systemd-timesyncd")
    # torch's lock has wheels for this Python, and Debian 13 has a later one
    for name in ("bin/python3.11", "lib/python3.11"):
        target = OUT / "python3.11" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        run("cp", "-a", f"/in/usr/{name}", str(target))


main()
