"""Find the package sources that name a repository, and the settings that hide its packages.

Runs on nodes: standard library only. It reads the files itself, because apt fails completely if two sources of one
address have different keys ("Conflicting values set for option Signed-By"). Such sources must be found before and after
that happens.
"""

from __future__ import annotations

import configparser
import contextlib
import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict
from urllib.parse import urlsplit

from ..files import SPACE, read_text_or_empty, split_lines, split_words


class PackageSource(TypedDict):
    """A source in a file of apt or dnf.

    Attributes:
        path: of the file.
        section: of dnf's file.
        address: as `normalize_repository_url` returns it.
        enabled: whether it is active.
        usable: why nothing can be installed from it, or "".
        hides: excludes and includes of the section, by their names in the file.
    """

    path: str
    address: str
    enabled: bool
    usable: str
    section: str
    hides: dict[str, list[str]]


# The default folders of apt and dnf. Not dnf's reposdir, because a run from a bundle changes it.
APT_FILES = (
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*.list",
    "etc/apt/sources.list.d/*.sources",
)
DNF_FILES = ("etc/yum.repos.d/*.repo", "etc/yum/repos.d/*.repo", "etc/distro.repos.d/*.repo")
DNF_CONF = "etc/dnf/dnf.conf"
PREFERENCES = ("etc/apt/preferences", "etc/apt/preferences.d/*")
APT_NAME = re.compile(
    r"[\w.-]+$", re.ASCII
)  # apt passes over files with other names (sources.list(5))
NO = ("0", "no", "false", "off", "without", "disable")  # StringToBool in apt-pkg/contrib/strutl.cc
DEBIAN_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
LINE = re.compile(
    r"(?P<kind>deb(?:-src)?)\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<uri>\S+)\s+(?P<suite>\S+)",
    re.ASCII,
)


def normalize_repository_url(uri: str, suite: str = "") -> str:
    """Return a common form for spellings of one repository's address, or "" if it has none.

    A flat repository's suite is a path below the address (sources.list(5)). http and https are the same server. apt
    treats file:/x like file:///x.
    """
    try:
        parts = urlsplit(uri.strip(SPACE).strip('"'))
    except ValueError:  # half of an IPv6 address
        return ""
    scheme = "http" if parts.scheme.lower() in ("http", "https") else parts.scheme.lower()
    if suite and not suite.endswith("/"):
        return ""
    steps = [step for step in (parts.path + "/" + suite).split("/") if step not in ("", ".")]
    return "{}://{}/{}".format(
        scheme, re.sub(r":(80|443)$", "", parts.netloc.lower()), "/".join(steps)
    )


def _glob_files(patterns: Sequence[str], root: str) -> list[str]:
    return [path for one in patterns for path in sorted(glob.glob(os.path.join(root, one)))]


def _is_true(text: str) -> bool:
    return text.strip(SPACE).lower() not in NO


def _make_source(path: str, at: str, enabled: bool, usable: str = "") -> PackageSource:
    return {
        "path": path,
        "address": at,
        "enabled": enabled,
        "usable": usable,
        "section": "",
        "hides": {},
    }


def _expand_architecture(uri: str, machine: str) -> str:
    """Insert the machine into apt's ``$(ARCH)``, which NVIDIA's container lists use (sources.list(5))."""
    return uri.replace("$(ARCH)", DEBIAN_MACHINES.get(machine, machine))


def _explain_unusable(kinds: Sequence[str], machines: Sequence[str], machine: str) -> str:
    """Return why nothing can be installed from an apt source, or ""."""
    if "deb" not in kinds:
        return "names sources of packages only (deb-src)"
    if machines and DEBIAN_MACHINES.get(machine, machine) not in machines:
        return "names packages for {} only".format(", ".join(machines))
    return ""


def parse_apt_lines(text: str, path: str, machine: str) -> Iterator[PackageSource]:
    """Yield the sources of a one-line-style file. Lines after a # are disabled."""
    for line in split_lines(text):
        bare = line.lstrip("# \t")
        found = LINE.match(bare)
        if not found:
            continue
        options = dict(
            one.split("=", 1) for one in split_words(found["options"] or "") if "=" in one
        )
        machines = [one for one in options.get("arch", "").split(",") if one]
        why = _explain_unusable([found["kind"]], machines, machine)
        at = normalize_repository_url(_expand_architecture(found["uri"], machine), found["suite"])
        yield _make_source(path, at, bare == line.lstrip(SPACE), why)


def _parse_stanzas(text: str) -> Iterator[tuple[dict[str, str], bool]]:
    """Yield (fields, enabled) of each stanza. A stanza of comments only is disabled."""
    for block in re.split(r"\n[ \t]*\n", text):
        lines = [line for line in split_lines(block) if line.strip(SPACE)]
        counts = [line for line in lines if not line.startswith("#")]
        fields: dict[str, str] = {}
        name = ""
        for line in counts or [re.sub(r"^#+ ?", "", line) for line in lines]:
            if line[:1].isspace() and name:
                fields[name] += " " + line.strip(SPACE)
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip(SPACE).lower()
                fields[name] = value.strip(SPACE)
        if fields:
            yield fields, bool(counts)


def parse_apt_stanzas(text: str, path: str, machine: str) -> Iterator[PackageSource]:
    """Yield the sources of a deb822 file."""
    for fields, counts in _parse_stanzas(text):
        enabled = counts and _is_true(fields.get("enabled", "yes"))
        why = _explain_unusable(
            split_words(fields.get("types", "")),
            split_words(fields.get("architectures", "")),
            machine,
        )
        for uri in split_words(fields.get("uris", "")):
            for suite in split_words(fields.get("suites", "")):
                yield _make_source(
                    path,
                    normalize_repository_url(_expand_architecture(uri, machine), suite),
                    enabled,
                    why,
                )


def _parse_ini(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(
        strict=False,
        interpolation=None,
        delimiters=("=",),
        empty_lines_in_values=False,
        default_section="",  # none: a section named DEFAULT would apply to all sections
    )
    with contextlib.suppress(configparser.Error):  # the part before the fault was read
        parser.read_string(text)
    return parser


def read_dnf_variables(root: str, machine: str) -> list[dict[str, str]]:
    """Return dnf's values for $names, with the full release and with its major part."""
    version = re.search(
        r'^VERSION_ID="?([\w.]+)',
        read_text_or_empty(os.path.join(root, "etc/os-release")),
        re.MULTILINE | re.ASCII,
    )
    release = version.group(1) if version else ""
    own = {
        os.path.basename(path): read_text_or_empty(path).strip(SPACE)
        for path in _glob_files(("etc/yum/vars/*", "etc/dnf/vars/*"), root)
    }
    return [
        dict({"basearch": machine, "arch": machine, "releasever": one}, **own)
        for one in (release, release.split(".", 1)[0])
    ]


def _expand_variables(text: str, variables: dict[str, str]) -> str:
    return re.sub(
        r"\$\{?(\w+)\}?",
        lambda found: variables.get(found.group(1), found.group(0)),
        text,
        flags=re.ASCII,
    )


def parse_dnf_sections(
    text: str, path: str, variables: list[dict[str, str]]
) -> Iterator[PackageSource]:
    """Yield the repositories of a dnf file. Commented-out sections are disabled."""
    off = [line for line in split_lines(text) if re.match(r"#+\s*(\[|[a-z_]+\s*=)", line, re.ASCII)]
    for content, counts in ((text, True), ("\n".join(line.lstrip("# ") for line in off), False)):
        parser = _parse_ini(content)
        for section in parser.sections():
            values = parser[section]
            enabled = counts and _is_true(values.get("enabled", "1"))
            words = re.split(r"[\s,]+", values.get("baseurl", ""), flags=re.ASCII)
            places = {
                normalize_repository_url(_expand_variables(one, known))
                for one in words
                if one
                for known in variables
            }
            for at in sorted(places):
                yield {
                    **_make_source(path, at, enabled),
                    "section": section,
                    "hides": _list_excludes(values),
                }


def _list_excludes(values: Any) -> dict[str, list[str]]:
    """Return a section's excludes and includes, by their names in the file."""
    names = ("exclude", "excludepkgs", "includepkgs")
    words = {
        name: [w for w in re.split(r"[\s,]+", values.get(name, ""), flags=re.ASCII) if w]
        for name in names
    }
    return {name: found for name, found in words.items() if found}


def read_package_sources(root: str = "/", machine: str = "") -> list[PackageSource]:
    """Return every source in the node's apt and dnf files. A node only has one of the two kinds."""
    machine = machine or os.uname().machine
    found: list[PackageSource] = []
    for path in _glob_files(APT_FILES, root):
        if APT_NAME.match(os.path.basename(path)):
            reader = parse_apt_stanzas if path.endswith(".sources") else parse_apt_lines
            found.extend(reader(read_text_or_empty(path), path, machine))
    variables = read_dnf_variables(root, machine)
    for path in _glob_files((*DNF_FILES, DNF_CONF), root):
        found.extend(parse_dnf_sections(read_text_or_empty(path), path, variables))
    return found


def find_package_sources(url: str, root: str = "/", machine: str = "") -> list[PackageSource]:
    """Return the sources of the repository at *url*: enabled ones first, then those for this machine."""
    found = [
        one
        for one in read_package_sources(root, machine)
        if one["address"] == normalize_repository_url(url)
    ]
    return sorted(found, key=lambda one: (not one["enabled"], one["usable"] != ""))


def find_duplicate_sources(ours: str, root: str = "/", machine: str = "") -> list[PackageSource]:
    """Return other enabled sources that have the same repository as the file *ours*."""
    every = read_package_sources(root, machine)
    places = {one["address"] for one in every if one["path"] == ours}
    return [
        one
        for one in every
        if one["enabled"] and one["path"] != ours and one["address"] in places - {""}
    ]


def describe_active_sources(url: str, root: str = "/") -> str:
    """Return the files that name the repository at *url*, joined to one text, or ""."""
    return " and ".join(
        sorted({one["path"] for one in find_package_sources(url, root) if one["enabled"]})
    )


def _list_package_forms(name: str, version: str, machine: str) -> list[str]:
    """Return the spellings of a package that dnf accepts (dnf(8), specifying packages)."""
    bare, _, release = version.partition("-")
    full = f"{name}-{version}"
    return [
        name,
        f"{name}.{machine}",
        f"{name}-{bare}",
        full,
        f"{full}.{machine}",
        f"{name}-0:{bare}-{release}",
        f"{name}-0:{bare}-{release}.{machine}",
    ]


def explain_dnf_excludes(
    theirs: PackageSource | None, names: Sequence[str], version: str, root: str = "/"
) -> list[str]:
    """Return sentences about excludes of dnf and the repository that hide one of the packages in this version."""
    machine = os.uname().machine
    main = _parse_ini(read_text_or_empty(os.path.join(root, DNF_CONF)))
    sets = [
        ("/" + DNF_CONF, "main", _list_excludes(main["main"]) if main.has_section("main") else {})
    ]
    if theirs:
        sets.append((theirs["path"], theirs["section"], theirs["hides"]))
    found = []
    for path, section, hides in sets:
        for option, words in sorted(hides.items()):
            lost = []
            for name in names:
                met = any(
                    fnmatch.fnmatchcase(form, word)
                    for form in _list_package_forms(name, version, machine)
                    for word in words
                )
                if met == (option != "includepkgs"):
                    lost.append(name)
            if lost:
                said = (path, section, option, " ".join(words), ", ".join(lost))
                found.append("{}, [{}], {}={} hides {}".format(*said))
    return found


def _is_pinned(words: str, name: str) -> bool:
    """Return whether a stanza of apt's preferences names this package. "*" pins all packages and does not count."""
    for word in split_words(words):
        if word.startswith("/") and word.endswith("/") and len(word) > 1:
            try:
                if re.search(word[1:-1], name):
                    return True
            except re.error:
                continue
        elif word != "*" and fnmatch.fnmatchcase(name, word):
            return True
    return False


def explain_apt_pins(names: Sequence[str], root: str = "/") -> list[str]:
    """Return sentences about stanzas of apt's preferences that name one of the packages."""
    found = []
    for path in _glob_files(PREFERENCES, root):
        for fields, counts in _parse_stanzas(read_text_or_empty(path)):
            met = [name for name in names if _is_pinned(fields.get("package", ""), name)]
            if counts and met:
                said = (
                    path,
                    ", ".join(met),
                    fields.get("pin", "?"),
                    fields.get("pin-priority", "?"),
                )
                found.append("{} pins {} to {} with priority {}".format(*said))
    return found
