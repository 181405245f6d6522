# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A node_exporter that runs on this node, and the folder that it reads text files from. Stdlib only."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TypedDict

from .facts.sockets import LISTEN, inodes_of, socket_table
from .files import look

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Reads = Callable[[str], str]

NAMES = ("node_exporter", "prometheus-node-exporter")
# Where packages put programs; what somebody installed by hand lies elsewhere.
PACKAGED = "/usr/bin/"
FLAG = "collector.textfile.directory"
SWITCHED_OFF = "no-collector.textfile"
# --help prints a flag with its default, in quotes or bare; Debian's build has one, upstream's is empty.
DEFAULT = re.compile(r'--(?:\[no-\])?collector\.textfile\.directory=(?:"([^"]*)"|(\S*))')


class Exporter(TypedDict):
    """One that runs: its program, the folders of this node that it reads, others, and the ports it listens on."""

    pid: str
    program: str
    folders: list[str]
    elsewhere: list[str]
    quiet: bool


class Place(TypedDict):
    """Where a text file goes. *own*: the node has a node_exporter that is not ours to install or start.

    ``folder`` is empty, and ``fault`` a sentence, where nobody reads one.
    """

    own: bool
    program: str
    folder: str
    fault: str


def flags(words: Sequence[str]) -> list[str]:
    """The folders that a command line names; in newer versions there may be several, and patterns among them."""
    named = []
    for at, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name == FLAG:
            named.append(value if equals else "".join(words[at + 1 : at + 2]))
    return [os.path.normpath(one) for one in named if one.startswith("/")]


def same_folder(root: str, pid: str, folder: str) -> bool:
    """Whether a process sees under *folder* what this node has there; a container's is another one."""
    try:
        theirs = os.stat(f"{root}/proc/{pid}/root{folder}")
        return os.path.samestat(theirs, os.stat(root + folder))
    except OSError:
        return False


def running(root: str = "") -> list[Exporter]:
    """Every node_exporter that runs, by the name of its program."""
    found: list[Exporter] = []
    for pid in sorted(filter(str.isdigit, os.listdir(root + "/proc")), key=int):
        try:
            program = os.readlink(f"{root}/proc/{pid}/exe")
        except OSError:
            continue  # a thread of the kernel, or it ended meanwhile
        # an update has replaced the file of a program that still runs
        program = program[: -len(" (deleted)")] if program.endswith(" (deleted)") else program
        if os.path.basename(program) not in NAMES:
            continue
        words = look(f"{root}/proc/{pid}/cmdline").split("\0")
        named = flags(words)
        here = [one for one in named if same_folder(root, pid, one)]
        found.append(
            {
                "pid": pid,
                "program": program,
                "folders": here,
                "elsewhere": [one for one in named if one not in here],
                "quiet": any(word.lstrip("-") == SWITCHED_OFF for word in words),
            }
        )
    return found


def default_folder(said: str) -> str:
    """The folder that a program reads by itself, of what its --help says; empty for none."""
    match = DEFAULT.search(said)
    return (match.group(1) or match.group(2) or "") if match else ""


def listens(pid: str) -> bool:
    """Whether a process waits for connections: one whose port is taken ends, and systemd starts it again."""
    mine = inodes_of(pid)
    return any(row["state"] == LISTEN and row["inode"] in mine for row in socket_table())


def distributions(seen: Sequence[Exporter], packaged: bool) -> list[Exporter]:
    """Those that are the distribution's: its package is there, and so is the program."""
    return [one for one in seen if packaged and one["program"].startswith(PACKAGED)]


def place(seen: Sequence[Exporter], packaged: bool, named: str, usual: str, reads: Reads) -> Place:
    """Where a text file goes.

    Args:
        seen: what runs.
        packaged: the distribution's package is installed.
        named: the folder that the user names, empty to find it out.
        usual: the folder of the distribution's package, for one that does not run yet.
        reads: a program of the distribution's -> the folder that it reads without being told.
    """
    if named:
        return {"own": True, "program": "", "folder": named, "fault": ""}
    ours = distributions(seen, packaged)
    theirs = [one for one in seen if one not in ours]
    if theirs and not ours:
        first = theirs[0]
        return settled(True, first, first["folders"][:1])
    if not ours:
        return {"own": False, "program": "", "folder": usual, "fault": ""}
    first = ours[0]
    told = first["folders"] + first["elsewhere"]
    return settled(False, first, first["folders"][:1] if told else [reads(first["program"])])


def settled(own: bool, one: Exporter, folders: Sequence[str]) -> Place:
    """The place of one that runs."""
    folder = "" if one["quiet"] else "".join(folders[:1])
    fault = "" if folder else why_not(one)
    return {"own": own, "program": one["program"], "folder": folder, "fault": fault}


def why_not(one: Exporter) -> str:
    """Why a node_exporter reads no folder of this node, and what to do."""
    if one["elsewhere"] and not one["quiet"]:
        return (
            f"[MT-105] {one['program']} reads text files from {', '.join(one['elsewhere'])}, and on this node that is "
            "not there or, for a container, another folder. Make it, or name the folder of this node that it reads in "
            "monitoring_tools_textfile_dir."
        )
    return (
        f"[MT-105] {one['program']} runs on this node and reads no text files. Start it with --{FLAG}=FOLDER "
        "(ARGS in /etc/default/prometheus-node-exporter, where the distribution's runs): it is found by itself then."
    )


def missing(folder: str) -> str:
    """The sentence for a folder that is not there, empty where it is."""
    if os.path.isdir(folder):
        return ""
    return (
        f"[MT-106] {folder} is no folder on this node, so no node_exporter reads text files there. Make it, or correct "
        "monitoring_tools_textfile_dir."
    )
