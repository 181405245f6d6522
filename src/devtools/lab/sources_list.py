"""Read this host's apt sources for its own distribution, which look-alike images are built from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from devtools.lab import host
from devtools.lab.errors import StepError


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


def name_mirror(line: str) -> str:
    """Replace a list of mirrors in a file of this machine (GitHub's runners) by its first mirror.

    A container of the builder does not have that file (apt-transport-mirror(1)).
    """
    kept = []
    for word in line.split(" "):
        path = Path(word.removeprefix("mirror+file:"))
        mirrors = path.read_text().split() if word.startswith("mirror+file:") else [word]
        kept.append(mirrors[0])
    return " ".join(kept)


def read(folder: Path, codename: str) -> list[str]:
    """Return the distribution's own sources of an /etc/apt folder as one-line entries."""
    found: list[str] = []
    for file in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        if file.is_file():
            reader = from_deb822 if file.suffix == ".sources" else from_lines
            found += reader(file.read_text(), codename)
    return list(dict.fromkeys(map(name_mirror, found)))


def own_apt(work: Path, changed: Callable[[str], str]) -> str:
    """Write apt's files below *work*, with this host's sources after *changed*; return the apt-get command.

    Apt verifies downloads as usual. Its own files on this machine do not change.

    Raises:
        StepError: /etc/apt has no source of this release.
    """
    release = host.os_release(Path("/etc/os-release").read_text())
    sources = read(Path("/etc/apt"), release.get("VERSION_CODENAME", ""))
    if not sources:
        raise StepError("/etc/apt has no source for this release with the component main")
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "sources.list").write_text("\n".join(map(changed, sources)) + "\n")
    apt = f"apt-get -q -o Dir::Etc::sourcelist={work}/sources.list -o Dir::Etc::sourceparts=- "
    return (
        apt + f"-o Dir::State::lists={work}/lists -o Dir::Cache={work} -o APT::Sandbox::User=root"
    )
