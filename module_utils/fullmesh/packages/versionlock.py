"""Read and edit the list of dnf's versionlock plugin, which may also hold lines of others.

Runs on nodes: standard library only. ``dnf versionlock`` is not used, because it loads every repository's list first
(and fails if a mirror is down) and drops all comments when it deletes a lock.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Sequence

from ..files import SPACE, read_text_file, split_lines, split_whole_lines

CONF = "/etc/dnf/plugins/versionlock.conf"
LIST = "/etc/dnf/plugins/versionlock.list"
DNF_CONF = "/etc/dnf/dnf.conf"
# One mark for each role that holds packages. The lines below it belong to that role.
MARK = "# Fullmesh holds {}; its undo removes them from here."
THESE = "these packages"
ASIDE = "# Fullmesh set this aside until its undo: "
# The plugin writes an epoch and Fullmesh does not. This identifies Fullmesh's lines even after the plugin has dropped
# the comments.
OURS = re.compile(r"(\S+)-\d[^-:\s]*-[^-:\s]+\.\*$", re.ASCII)
ARCHES = r"(?:\.(?:\*|x86_64|aarch64|noarch))?"
OFF = ("0", "no", "false", "off")


def format_lock(name: str, version: str) -> str:
    """Return the line that locks *name* to *version* (VERSION-RELEASE)."""
    return f"{name}-{version}.*"


def is_own_lock(line: str, names: Sequence[str]) -> bool:
    """Return whether Fullmesh wrote this lock of one of *names*."""
    found = OURS.match(line)
    return found is not None and found.group(1) in names


def is_package_lock(line: str, name: str) -> bool:
    """Return whether *line* locks some version of exactly *name*. An exclusion (``!``) is not a lock."""
    return bool(re.match(re.escape(name) + r"(?:$|\.|-[\d*])", line.strip(SPACE), re.ASCII))


def is_version_lock(line: str, name: str, version: str) -> bool:
    """Return whether *line* locks *name* to exactly *version*, in any form that the plugin reads."""
    form = re.escape(name) + r"-(?:\d+:)?" + re.escape(version) + ARCHES + "$"
    return bool(re.match(form, line.strip(SPACE)))


def find_held_packages(text: str, versions: dict[str, str]) -> list[str]:
    """Return the packages of *versions* (name to version) that the list locks to exactly this version."""
    lines = split_lines(text)
    found = []
    for name, version in sorted(versions.items()):
        fits = [
            is_version_lock(line, name, version) for line in lines if is_package_lock(line, name)
        ]
        if fits and all(fits):
            found.append(name)
    return found


def remove_own_locks(text: str, names: Sequence[str], what: str = THESE) -> str:
    """Return the list without Fullmesh's lines for *names* or below the mark of *what*.

    Lines that Fullmesh had disabled are restored.
    """
    mark, below = MARK.format(what), False
    kept: list[str] = []
    gone = list(names)
    for line in split_whole_lines(text):
        bare = line.rstrip("\r\n")
        # below the mark also packages that an earlier run held and that are no longer named
        found = OURS.match(bare)
        below = bare == mark or (below and found is not None)
        if below or is_own_lock(bare, names):
            gone += [found.group(1)] if found else []
        else:
            kept.append(line)
    return "".join(restore_lock_line(line, gone) for line in kept)


def restore_lock_line(line: str, names: Sequence[str]) -> str:
    """Return a line as it was before Fullmesh disabled it for one of *names*."""
    held_back = line[len(ASIDE) :] if line.startswith(ASIDE) else ""
    return held_back if any(is_package_lock(held_back, name) for name in names) else line


def add_own_locks(text: str, versions: dict[str, str], what: str = THESE) -> str:
    """Return the list with Fullmesh's locks. Locks that allow other versions of these packages are disabled."""
    if len(find_held_packages(text, versions)) == len(versions):
        return text
    lines = []
    for line in split_lines(remove_own_locks(text, list(versions), what)):
        other = [
            n
            for n in versions
            if is_package_lock(line, n) and not is_version_lock(line, n, versions[n])
        ]
        lines.append(ASIDE + line if other else line)
    lines.append(MARK.format(what))
    lines.extend(format_lock(name, versions[name]) for name in sorted(versions))
    return "\n".join(lines) + "\n"


def parse_lock_entries(text: str) -> list[str]:
    """Return the lines that the plugin reads."""
    lines = [line.strip(SPACE) for line in split_lines(text)]
    return [line for line in lines if line and not line.startswith("#")]


def read_main_option(path: str, option: str) -> str:
    """Return an option of a file's section main, or ""."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    try:
        parser.read(path)
    except (configparser.Error, UnicodeDecodeError):
        return ""
    return parser.get("main", option, fallback="").strip(SPACE)


def find_lock_list(root: str = "") -> tuple[str, str]:
    """Return the list's path, and why the plugin does not read it ("" if it does)."""
    path = root + (read_main_option(root + CONF, "locklist") or LIST)
    if not os.path.exists(root + CONF):
        return path, f"{CONF} is not there"
    if read_main_option(root + CONF, "enabled").lower() in OFF:
        return path, f"{CONF} says enabled=0"
    if read_main_option(root + DNF_CONF, "plugins").lower() in OFF:
        return path, f"{DNF_CONF} says plugins=0"
    return path, ""


def read_held_versions(versions: dict[str, str], root: str = "") -> list[str]:
    """Return the packages of *versions* that dnf holds on this node."""
    path, why_not = find_lock_list(root)
    if why_not:
        return []
    try:
        return find_held_packages(read_text_file(path), versions)
    except OSError:
        return []
