#!/usr/bin/env python3
"""Build RPMs with EL names out of Debian packages, so that dnf has something real to install.

usage: deb2rpm.py OUTDIR < LIST      (columns: see el.list; runs in the builder image, needs apt lists)

There is no dependency generator: the shared libraries come with the node image, only the relations
named in the list are kept. Exit 1 with the spec file and rpmbuild's words when a package fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

JUNK = ("doc", "man", "locale", "lintian", "bug")
UNIT = re.compile(r"/usr/lib/systemd/system/[^/@]+\.(service|timer)$")


class Entry(NamedTuple):
    """One line of the list."""

    name: str
    version_release: str
    debs: list[str]
    requires: list[str]
    provides: list[str]
    conflicts: list[str]
    users: list[str]
    fixup: str


def parse(line: str) -> Entry:
    """Split one line of the list into its five columns."""
    name, version_release, debs, relations, fixup = (part.strip() for part in line.split("|", 4))
    words = [word for word in relations.split(",") if word]
    return Entry(
        name,
        version_release,
        [deb for deb in debs.split(",") if deb],
        [word for word in words if not word.startswith(("P:", "C:", "U:"))],
        [word[2:] for word in words if word.startswith("P:")],
        [word[2:] for word in words if word.startswith("C:")],
        [word[2:] for word in words if word.startswith("U:")],
        fixup,
    )


def run(*argv: str, cwd: Path | None = None) -> str:
    """Run a command and return its output; its failure is an exception."""
    done = subprocess.run(argv, check=True, text=True, capture_output=True, cwd=cwd)  # noqa: S603  # no shell
    return done.stdout


def unpack(entry: Entry, work: Path, root: Path) -> str:
    """Unpack the Debian packages into *root*; return VERSION-RELEASE for the RPM."""
    version = ""
    for deb in entry.debs:
        run("apt-get", "download", "-q", deb, cwd=work)
        archive = next(work.glob(f"{deb}_*.deb"))
        found = run("dpkg-deb", "-f", str(archive), "Version").strip()
        version = version or re.sub(r"^\d+:", "", found)
        run("dpkg-deb", "-x", str(archive), str(root))
    if entry.version_release in ("", "-"):
        return re.sub(r"[^0-9.].*", "", version) + "-1.el9"
    return entry.version_release


def tidy(entry: Entry, root: Path) -> None:
    """Merge /bin, /sbin, /lib into /usr, drop Debian's documents, apply the line's fixups."""
    for top in ("bin", "sbin", "lib", "lib64"):
        if (root / top).is_dir():
            shutil.copytree(root / top, root / "usr" / top, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(root / top)
    for junk in [f"usr/share/{name}" for name in JUNK] + ["etc/init.d", "etc/default"]:
        shutil.rmtree(root / junk, ignore_errors=True)
    if entry.fixup:
        run("bash", "-euc", f"R={root}; {entry.fixup}", cwd=root)


def is_elf(path: Path) -> bool:
    """Say whether *path* is a regular file that starts like a program or library."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def survey(root: Path) -> tuple[list[str], list[str], str]:
    """Return the %files lines, the systemd units and the architecture of a payload."""
    lines: list[str] = []
    units: list[str] = []
    arch = "noarch"
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in files + links:
            path = Path(folder, name)
            inside = "/" + str(path.relative_to(root))
            regular = path.is_file() and not path.is_symlink()
            arch = "x86_64" if is_elf(path) else arch
            if regular and UNIT.match(inside):
                units.append(name)
            config = "%config(noreplace) " if regular and inside.startswith("/etc/") else ""
            lines.append(f'{config}"{inside}"')
        if not folders and not files and Path(folder) != root:
            lines.append(f'%dir "/{Path(folder).relative_to(root)}"')
    return lines, units, arch


def spec(entry: Entry, version_release: str, root: Path) -> tuple[str, str]:
    """Return the spec file's text and the architecture."""
    whole, release = version_release.rsplit("-", 1)
    epoch, _, version = whole.rpartition(":")
    lines, units, arch = survey(root)
    users = [
        f"getent passwd {user} >/dev/null || "
        f"useradd -r -s /sbin/nologin -d /var/lib/{user.strip('_')} {user}"
        for user in entry.users
    ]
    enable = [
        f"[ $1 -eq 1 ] && systemctl --no-reload preset {u} >/dev/null 2>&1 || :" for u in units
    ]
    stop = [
        f"[ $1 -eq 0 ] && systemctl --no-reload disable --now {u} >/dev/null 2>&1 || :"
        for u in units
    ]
    text = [
        f"Name: {entry.name}",
        *([f"Epoch: {epoch}"] if epoch else []),
        f"Version: {version}",
        f"Release: {release}",
        f"Summary: {entry.name}, repacked for the Fullmesh lab",
        "License: as upstream",
        f"BuildArch: {arch}",
        "AutoReqProv: no",
        *(f"Requires: {word}" for word in entry.requires),
        *(f"Provides: {word}" for word in entry.provides),
        *(f"Conflicts: {word}" for word in entry.conflicts),
        "%global __os_install_post %{nil}",
        "%global _binary_payload w3.zstdio",
        "%description",
        f"Repacked from Debian: {' '.join(entry.debs) or 'nothing, a database entry only'}.",
        "%install",
        f"mkdir -p %{{buildroot}}; cp -a {root}/. %{{buildroot}}/",
        "%pre",
        *(users or [":"]),
        "%post",
        "systemctl daemon-reload >/dev/null 2>&1 || :",
        *enable,
        "/sbin/ldconfig 2>/dev/null || :",
        "%preun",
        *(stop or [":"]),
        "%postun",
        "/sbin/ldconfig 2>/dev/null || :",
        "%files",
        *lines,
    ]
    return "\n".join(text) + "\n", arch


def build(entry: Entry, out: Path) -> None:
    """Build one RPM into *out*."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        root = work / "root"
        root.mkdir()
        version_release = unpack(entry, work, root)
        tidy(entry, root)
        text, arch = spec(entry, version_release, root)
        (work / "package.spec").write_text(text)
        defines = {
            "_topdir": str(work / "rpmbuild"),
            "_rpmdir": str(out),
            "_build_id_links": "none",
            "dist": ".el9",
            "_build_name_fmt": "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
        }
        argv = ["rpmbuild", "-bb", "--quiet", "--target", arch]
        for key, value in defines.items():
            argv += ["--define", f"{key} {value}"]
        argv.append(str(work / "package.spec"))
        done = subprocess.run(argv, check=False, text=True, capture_output=True)  # noqa: S603  # no shell
        if done.returncode:
            sys.exit(f"{text}\n{done.stdout}{done.stderr}\nrpmbuild failed for {entry.name}")
    sys.stdout.write(f"{entry.name} {version_release} {arch}\n")
    sys.stdout.flush()


def main() -> None:
    """Read the list from standard input and build every package in it."""
    out = Path(sys.argv[1]).resolve()
    for line in sys.stdin:
        if line.strip() and not line.startswith("#"):
            build(parse(line), out)


if __name__ == "__main__":
    main()
