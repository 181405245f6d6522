"""The list of dnf's versionlock plugin: what it holds, and our lines in it beside other people's.

Runs on nodes: standard library only. Not by ``dnf versionlock``: that loads every repository's
list first (a mirror that is away stops it) and drops all comments of the file when it deletes one lock.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Sequence

from ..files import SPACE, lines_of, read, whole_lines

CONF = "/etc/dnf/plugins/versionlock.conf"
LIST = "/etc/dnf/plugins/versionlock.list"
DNF_CONF = "/etc/dnf/dnf.conf"
# One for each role that holds something: what stands below it is that role's.
MARK = "# Fullmesh holds {}; its undo removes them from here."
THESE = "these packages"
ASIDE = "# Fullmesh set this aside until its undo: "
# The plugin, and whoever uses it, writes an epoch; we do not. That is how ours are known again after the plugin has
# dropped the comments.
OURS = re.compile(r"(\S+)-\d[^-:\s]*-[^-:\s]+\.\*$", re.ASCII)
ARCHES = r"(?:\.(?:\*|x86_64|aarch64|noarch))?"
OFF = ("0", "no", "false", "off")


def our_lock(name: str, version: str) -> str:
    """The line that holds *name* in *version* (VERSION-RELEASE)."""
    return f"{name}-{version}.*"


def is_ours(line: str, names: Sequence[str]) -> bool:
    """Say whether we wrote this lock of one of *names*."""
    found = OURS.match(line)
    return found is not None and found.group(1) in names


def locks(line: str, name: str) -> bool:
    """Say whether *line* locks some version of exactly *name*; an exclusion (``!``) is no lock."""
    return bool(re.match(re.escape(name) + r"(?:$|\.|-[\d*])", line.strip(SPACE), re.ASCII))


def locks_version(line: str, name: str, version: str) -> bool:
    """Say whether *line* locks *name* in exactly *version*, in any form that the plugin reads."""
    form = re.escape(name) + r"-(?:\d+:)?" + re.escape(version) + ARCHES + "$"
    return bool(re.match(form, line.strip(SPACE)))


def held(text: str, versions: dict[str, str]) -> list[str]:
    """Those of *versions* (name to version) that the list lets have this version and no other."""
    lines = lines_of(text)
    found = []
    for name, version in sorted(versions.items()):
        fits = [locks_version(line, name, version) for line in lines if locks(line, name)]
        if fits and all(fits):
            found.append(name)
    return found


def without(text: str, names: Sequence[str], what: str = THESE) -> str:
    """The list without our lines about *names* or below the mark of *what*, and with what we had set aside for them."""
    mark, below = MARK.format(what), False
    kept: list[str] = []
    gone = list(names)
    for line in whole_lines(text):
        bare = line.rstrip("\r\n")
        # below our mark also packages that an earlier run held and that are not named any more
        found = OURS.match(bare)
        below = bare == mark or (below and found is not None)
        if below or is_ours(bare, names):
            gone += [found.group(1)] if found else []
        else:
            kept.append(line)
    return "".join(awake(line, gone) for line in kept)


def awake(line: str, names: Sequence[str]) -> str:
    """A line as it was before we set it aside for one of *names*."""
    held_back = line[len(ASIDE) :] if line.startswith(ASIDE) else ""
    return held_back if any(locks(held_back, name) for name in names) else line


def with_locks(text: str, versions: dict[str, str], what: str = THESE) -> str:
    """The list with our locks, and without effect for locks that would let the packages have another version."""
    if len(held(text, versions)) == len(versions):
        return text
    lines = []
    for line in lines_of(without(text, list(versions), what)):
        other = [n for n in versions if locks(line, n) and not locks_version(line, n, versions[n])]
        lines.append(ASIDE + line if other else line)
    lines.append(MARK.format(what))
    lines.extend(our_lock(name, versions[name]) for name in sorted(versions))
    return "\n".join(lines) + "\n"


def entries(text: str) -> list[str]:
    """What the plugin reads of a list."""
    lines = [line.strip(SPACE) for line in lines_of(text)]
    return [line for line in lines if line and not line.startswith("#")]


def setting(path: str, option: str) -> str:
    """An option of a file's section main, "" where there is none."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        parser.read(path)
    except (configparser.Error, UnicodeDecodeError):
        return ""
    return parser.get("main", option, fallback="").strip(SPACE)


def plugin(root: str = "") -> tuple[str, str]:
    """Where the list lies, and why the plugin does not read it ("" when it does)."""
    path = root + (setting(root + CONF, "locklist") or LIST)
    if not os.path.exists(root + CONF):
        return path, f"{CONF} is not there"
    if setting(root + CONF, "enabled").lower() in OFF:
        return path, f"{CONF} says enabled=0"
    if setting(root + DNF_CONF, "plugins").lower() in OFF:
        return path, f"{DNF_CONF} says plugins=0"
    return path, ""


def held_here(versions: dict[str, str], root: str = "") -> list[str]:
    """Those of *versions* that dnf holds on this node."""
    path, why_not = plugin(root)
    if why_not:
        return []
    try:
        return held(read(path), versions)
    except OSError:
        return []
