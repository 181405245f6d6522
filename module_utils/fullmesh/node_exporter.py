# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find a running node_exporter, and the folder that it reads text files from. Standard library only."""

from __future__ import annotations

import os
import pwd
import re
from typing import TYPE_CHECKING, TypedDict

from .account import ForeignFolderError, act_in_folder
from .facts.sockets import LISTEN, list_socket_inodes, read_socket_table
from .files import read_text_or_empty
from .tools import systemctl

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from .commands import SplitRunner

    Reads = Callable[[str], str]

NAMES = ("node_exporter", "prometheus-node-exporter")
# The folder of packaged programs. Manually installed ones are elsewhere.
PACKAGED = "/usr/bin/"
PORT = 9100
# login.defs(5): accounts of people begin here, on both families
FIRST_LOGIN = 1000
NO_SHELLS = ("", "nologin", "false")
FLAG = "collector.textfile.directory"
SWITCHED_OFF = "no-collector.textfile"
# --help prints a flag with its default, quoted or unquoted. Debian's build has one, upstream's is empty.
DEFAULT = re.compile(r'--(?:\[no-\])?collector\.textfile\.directory=(?:"([^"]*)"|(\S*))')


class RunningExporter(TypedDict):
    """A running node_exporter: its program, the folders of this node that it reads, and others.

    ``service``: it is a service of the node, so its command line is the administrator's.
    """

    pid: str
    service: bool
    program: str
    folders: list[str]
    elsewhere: list[str]
    quiet: bool


class TextfileTarget(TypedDict):
    """The folder for text files.

    ``own``: the node has another node_exporter, which Fullmesh does not install or start. If no node_exporter reads
    text files, ``folder`` is empty and ``fault`` a sentence.
    """

    own: bool
    program: str
    folder: str
    fault: str


def parse_textfile_folders(words: Sequence[str]) -> list[str]:
    """Return the folders of a command line. Newer versions accept several, and patterns."""
    named = []
    for at, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name == FLAG:
            named.append(value if equals else "".join(words[at + 1 : at + 2]))
    return [os.path.normpath(one) for one in named if one.startswith("/")]


def is_same_folder(root: str, pid: str, folder: str) -> bool:
    """Return whether a process sees the node's folder at *folder*. A container sees its own."""
    try:
        theirs = os.stat(f"{root}/proc/{pid}/root{folder}")
        return os.path.samestat(theirs, os.stat(root + folder))
    except OSError:
        return False


def list_main_processes(run: SplitRunner) -> set[str]:
    """Return the IDs of the services' main processes in systemd (systemctl(1))."""
    _, out, _ = run(systemctl.build_show_command(["MainPID"], ["*.service"]))
    return {one.get("MainPID", "0") for one in systemctl.parse_unit_blocks(out)} - {"0"}


def is_login_account(uid: int) -> bool:
    """Return whether this account allows logins."""
    try:
        shell = pwd.getpwuid(uid).pw_shell
    except KeyError:
        return False
    return uid >= FIRST_LOGIN and os.path.basename(shell) not in NO_SHELLS


def read_uid(root: str, pid: str) -> int:
    """Return the real uid of a process, -1 if it has ended."""
    match = re.search(
        r"^Uid:\s+(\d+)", read_text_or_empty(f"{root}/proc/{pid}/status"), re.MULTILINE
    )
    return int(match.group(1)) if match else -1


def find_exporters(main_processes: Collection[str], root: str = "") -> list[RunningExporter]:
    """Find every running node_exporter by the name of its program.

    Any account can give a program this name. So only a service of the node is trusted, and none of a login account.
    """
    found: list[RunningExporter] = []
    for pid in sorted(filter(str.isdecimal, os.listdir(root + "/proc")), key=int):
        try:
            program = os.readlink(f"{root}/proc/{pid}/exe")
        except OSError:
            continue  # a thread of the kernel, or it ended meanwhile
        # an update has replaced the file of a program that is still running
        program = program[: -len(" (deleted)")] if program.endswith(" (deleted)") else program
        if os.path.basename(program) not in NAMES:
            continue
        words = read_text_or_empty(f"{root}/proc/{pid}/cmdline").split("\0")
        named = parse_textfile_folders(words)
        here = [one for one in named if is_same_folder(root, pid, one)]
        uid = read_uid(root, pid)
        found.append(
            {
                "pid": pid,
                "service": pid in main_processes and uid >= 0 and not is_login_account(uid),
                "program": program,
                "folders": here,
                "elsewhere": [one for one in named if one not in here],
                "quiet": any(word.lstrip("-") == SWITCHED_OFF for word in words),
            }
        )
    return found


def parse_default_folder(said: str) -> str:
    """Return a program's default folder from its --help, or ""."""
    match = DEFAULT.search(said)
    return (match.group(1) or match.group(2) or "") if match else ""


def is_listening(pid: str, port: int = 0) -> bool:
    """Return whether a process listens, on *port* if it is given.

    A process whose port is in use exits, and systemd restarts it.
    """
    mine = list_socket_inodes(pid)
    rows = [row for row in read_socket_table() if row["state"] == LISTEN and row["inode"] in mine]
    return any(port in (0, row["port"]) for row in rows)


def find_packaged_exporters(
    seen: Sequence[RunningExporter], packaged: bool
) -> list[RunningExporter]:
    """Return the exporters that are the distribution's service: package and program are both there."""
    return [
        one for one in seen if packaged and one["service"] and one["program"].startswith(PACKAGED)
    ]


def choose_textfile_folder(
    seen: Sequence[RunningExporter], packaged: bool, named: str, usual: str, reads: Reads
) -> TextfileTarget:
    """Choose the folder for text files.

    Args:
        seen: the running exporters.
        packaged: the distribution's package is installed.
        named: the folder in the user's setting, or empty.
        usual: the folder of the distribution's package, for one that does not run yet.
        reads: program of the distribution -> its default folder.
    """
    if named:
        return {"own": True, "program": "", "folder": named, "fault": ""}
    services = [one for one in seen if one["service"]]
    ours = find_packaged_exporters(seen, packaged)
    theirs = [one for one in services if one not in ours]
    strangers = [one for one in seen if not one["service"] and is_listening(one["pid"], PORT)]
    if strangers and not services:
        return {
            "own": True,
            "program": "",
            "folder": "",
            "fault": describe_foreign_exporter(strangers[0]),
        }
    if theirs and not ours:
        first = theirs[0]
        return make_textfile_target(True, first, first["folders"][:1])
    if not ours:
        return {"own": False, "program": "", "folder": usual, "fault": ""}
    first = ours[0]
    folders = first["folders"] + first["elsewhere"]
    return make_textfile_target(
        False, first, first["folders"][:1] if folders else [reads(first["program"])]
    )


def make_textfile_target(own: bool, one: RunningExporter, folders: Sequence[str]) -> TextfileTarget:
    """Return the target of a running exporter."""
    folder = "" if one["quiet"] else "".join(folders[:1])
    fault = "" if folder else explain_unread_folder(one)
    return {"own": own, "program": one["program"], "folder": folder, "fault": fault}


def explain_unread_folder(one: RunningExporter) -> str:
    """Explain why a node_exporter reads no folder of this node, with a fix."""
    if one["elsewhere"] and not one["quiet"]:
        return (
            f"[MT-105] {one['program']} reads text files from {', '.join(one['elsewhere'])}, and on this node that is "
            "not there or, for a container, another folder. "
            "Fix: create it, or name the folder of this node that it reads in monitoring_tools_textfile_dir."
        )
    return (
        f"[MT-105] {one['program']} runs on this node and reads no text files. Fix: start it with --{FLAG}=FOLDER "
        "(for the distribution's service: ARGS in /etc/default/prometheus-node-exporter). Fullmesh then finds it."
    )


def describe_foreign_exporter(one: RunningExporter) -> str:
    """Return the error for a node_exporter that is not a service of the node and uses its port."""
    return (
        f"[MT-109] {one['program']} (process {one['pid']}) listens on {PORT}/tcp. It is not the main process of a "
        "service of this node, or it runs as a login account. Fullmesh does not write to its folder, because any "
        "account can start such a program. Fix: if it is yours, set monitoring_tools_textfile_dir to its folder, "
        "otherwise stop it."
    )


def check_textfile_folder(folder: str) -> str:
    """Return why no text file can be written to a folder, empty if it can."""
    try:
        if os.path.isdir(folder):
            act_in_folder(folder, lambda _: None)
            return ""
    except ForeignFolderError as error:
        return f"[MT-110] root cannot safely write text files: {error}."
    except OSError as error:
        return f"[MT-106] {folder} cannot be opened: {error}."
    return (
        f"[MT-106] {folder} is not a folder on this node, so no node_exporter reads text files there. "
        "Fix: create it, or correct monitoring_tools_textfile_dir."
    )
