"""Debian's apt sources, which look-alike images are built from: this host's own, or on Ubuntu Debian's archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from devtools.lab import host
from devtools.lab.errors import StepError

# Look-alikes have Debian 12's binaries on every host.
LOOKALIKE_SUITE = "bookworm"
# The lab installs the keyring on Ubuntu (host.PACKAGES).
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ARCHIVE = "http://deb.debian.org"


def wanted(suites: Iterable[str], components: Iterable[str], codename: str) -> bool:
    """Return whether a source is the distribution's own: bookworm, bookworm-updates ... with main."""
    ours = all(s == codename or s.startswith(f"{codename}-") for s in suites)
    return ours and "main" in components


def from_deb822(text: str, codename: str) -> list[str]:
    """Return one-line entries for the stanzas of a .sources file that are the distribution's own."""
    found = []
    for stanza in text.split("\n\n"):
        lines = [line for line in stanza.splitlines() if line.strip() and line[0] != "#"]
        fields = {
            key.strip().lower(): value.strip()
            for key, _, value in (line.partition(":") for line in lines if line[0] not in " \t")
        }
        suites, components = fields.get("suites", "").split(), fields.get("components", "").split()
        is_deb = "deb" in fields.get("types", "").split() and fields.get("enabled", "yes") != "no"
        if not is_deb or not suites or not wanted(suites, components, codename):
            continue
        key = fields.get("signed-by", "")
        option = f"[signed-by={key}] " if key.startswith("/") else ""
        found += [
            f"deb {option}{uri} {suite} {' '.join(components)}"
            for uri in fields.get("uris", "").split()
            for suite in suites
        ]
    return found


def from_lines(text: str, codename: str) -> list[str]:
    """Return the ``deb`` lines of a sources.list that are the distribution's own."""
    found = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words or words[0] != "deb":
            continue
        end = next((i for i, word in enumerate(words) if word.endswith("]")), 0)
        rest = words[end + 1 :]
        if len(rest) > 2 and wanted([rest[1]], rest[2:], codename):  # noqa: PLR2004  # URI, suite, component
            found.append(" ".join(words))
    return found


def read(folder: Path, codename: str) -> list[str]:
    """Return the distribution's own sources of an /etc/apt folder as one-line entries."""
    found: list[str] = []
    for file in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        if file.is_file():
            reader = from_deb822 if file.suffix == ".sources" else from_lines
            found += reader(file.read_text(), codename)
    return list(dict.fromkeys(found))


def read_debian(suite: str) -> list[str]:
    """Return the sources of a Debian release: this host's if it is a Debian, else those of Debian's archive.

    Raises:
        StepError: /etc/apt of a Debian has no source of its release.
    """
    release = host.os_release(Path("/etc/os-release").read_text())
    if release.get("ID") != "debian":
        suites = (f"debian {suite}", f"debian {suite}-updates", f"debian-security {suite}-security")
        return [f"deb [signed-by={KEYRING}] {ARCHIVE}/{where} main" for where in suites]
    codename = release.get("VERSION_CODENAME", "")
    sources = read(Path("/etc/apt"), codename)
    if not sources:
        raise StepError(f"/etc/apt has no source for {codename!r} with the component main")
    return [re.sub(rf"\b{codename}\b", suite, line) for line in sources]


def own_apt(work: Path, changed: Callable[[str], str]) -> str:
    """Write apt's files below *work*, with the look-alikes' sources after *changed*; return the apt-get command.

    Apt verifies downloads as usual. Its own files on this machine do not change.
    """
    sources = read_debian(LOOKALIKE_SUITE)
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text("\n".join(map(changed, sources)) + "\n")
    apt = f"apt-get -q -o Dir::Etc::sourcelist={work}/sources.list -o Dir::Etc::sourceparts=- "
    return (
        apt + f"-o Dir::State::lists={work}/lists -o Dir::Cache={work} -o APT::Sandbox::User=root"
    )
