# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the ssh connections that carry the play, and the ports that sshd listens on.

Uses the standard library only.
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

from ..files import SPACE, read_text_or_empty, split_lines, split_words
from ..foreign_text import parse_decimal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Pids = Iterator[int]
    Rows = Iterator[tuple[str, list[str]]]
    Environ = Any

SSHD = ("sshd", "sshd-session", "sshd-auth")  # OpenSSH 9.8 split the process
LISTEN, ESTABLISHED = "0A", "01"  # proc(5), tcp_states.h


def read_stat_fields(pid: int | str, proc: str) -> list[str]:
    """Return /proc/<pid>/stat after the command's name: state, parent, ..."""
    text: str = read_text_or_empty(f"{proc}/{pid}/stat")
    return split_words(text.rpartition(")")[2])


def list_ancestors(pid: int, proc: str) -> Pids:
    """Yield a process and its ancestors without init. sudo and su drop variables that their parents still have."""
    seen: set[int] = set()
    while pid > 1 and pid not in seen:
        seen.add(pid)
        yield pid
        fields = read_stat_fields(pid, proc)
        pid = parse_decimal(fields[1]) or 0 if len(fields) > 1 else 0


def list_ssh_connections(environ: Environ, pid: int, proc: str = "/proc") -> list[list[str]]:
    """Return every SSH_CONNECTION (client, port, server, port) of this process and its ancestors.

    There are several if an ssh session leads from this node to itself. A jump host appears as the client.
    """
    found = [split_words(str(environ.get("SSH_CONNECTION", "")))]
    for one in list_ancestors(pid, proc):
        pairs = read_text_or_empty(f"{proc}/{one}/environ").split("\0")
        found += [
            split_words(pair.split("=", 1)[1])
            for pair in pairs
            if pair.startswith("SSH_CONNECTION=")
        ]
    unique: list[list[str]] = []
    for words in found:
        if words not in unique and is_ssh_connection(words):
            unique.append(words)
    return unique


def is_ssh_connection(words: list[str]) -> bool:
    """Return whether these are the words of an SSH_CONNECTION, which users can set.

    They are client, port, server and port (ssh(1)).
    """
    try:
        client, port, server, own = words
        return bool(
            normalize_address(client) and normalize_address(server) and int(port) and int(own)
        )
    except ValueError:
        return False


def find_ssh_session(environ: Environ, pid: int, proc: str = "/proc") -> list[str]:
    """Return the SSH_CONNECTION of the innermost login that carries this play, or []."""
    return next(iter(list_ssh_connections(environ, pid, proc)), [])


def get_server_address(words: list[str]) -> str:
    """Return this node's address in an SSH_CONNECTION, or ""."""
    return normalize_address(words[2]) if words else ""


def list_ssh_clients(environ: Environ, pid: int, proc: str = "/proc") -> list[str]:
    """Return the client addresses of every ssh session that carries this play.

    SSH_CONNECTION has the origin of the login. The sockets of the parent sshd processes show the present client.
    """
    clients = list_ssh_connections(environ, pid, proc)
    ports = {int(words[3]) for words in clients} | set(list_sshd_ports(proc))
    found = [words[0] for words in clients]
    remote = map_established_sockets(proc)
    for one in list_ancestors(pid, proc):
        if read_text_or_empty(f"{proc}/{one}/comm").strip(SPACE) in SSHD:
            ends = [
                remote[inode] for inode in list_process_inodes(str(one), proc) if inode in remote
            ]
            # A session's port forwardings are also its sockets. Only those on sshd's port are the login.
            found += [address for port, address in ends if port in ports]
    return sorted({normalize_address(address) for address in found})


def list_ssh_ports(environ: Environ, pid: int, proc: str = "/proc") -> list[int]:
    """Return the ports of ssh: those that sshd listens on, and the one of this session."""
    clients = list_ssh_connections(environ, pid, proc)
    return sorted({int(words[3]) for words in clients} | set(list_sshd_ports(proc)))


def normalize_address(text: str) -> str:
    """Return an address without its scope, and a v4-mapped v6 address as v4."""
    address: Any = ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    if address.version == 6 and address.ipv4_mapped:  # noqa: PLR2004 (IP version)
        address = address.ipv4_mapped
    return str(address)


def parse_proc_address(text: str) -> str:
    """Decode an address of /proc/net/tcp{,6}: words of 32 bits in the machine's order (little-endian here)."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(b"".join(words)))


def read_tcp_rows(proc: str) -> Rows:
    """Parse every TCP socket: (tcp or tcp6, its columns)."""
    for name in ("tcp", "tcp6"):
        for line in split_lines(read_text_or_empty(f"{proc}/net/{name}"))[1:]:
            yield name, split_words(line)


def map_established_sockets(proc: str = "/proc") -> dict[str, tuple[int, str]]:
    """Return {socket inode: (local port, remote address)} of every established connection."""
    found = {}
    for _, words in read_tcp_rows(proc):
        if words[3] == ESTABLISHED:
            port = int(words[1].partition(":")[2], 16)
            found[words[9]] = (port, parse_proc_address(words[2].partition(":")[0]))
    return found


def map_listening_sockets(proc: str = "/proc") -> dict[str, int]:
    """Return {socket inode: port} of every TCP listener that is not on loopback."""
    found = {}
    for name, words in read_tcp_rows(proc):
        address, _, port = words[1].partition(":")
        local = address[-2:] == "7F" if name == "tcp" else address == "0" * 24 + "01000000"
        if words[3] == LISTEN and not local:
            found[words[9]] = int(port, 16)
    return found


def list_sshd_ports(proc: str = "/proc") -> list[int]:
    """Return the ports of the sshd that systemd started, without a session's port forwardings."""
    sockets = map_listening_sockets(proc)
    found: set[int] = set()
    for pid in [name for name in os.listdir(proc) if name.isdecimal()]:
        fields = read_stat_fields(pid, proc)
        if (
            len(fields) > 1
            and fields[1] == "1"
            and read_text_or_empty(proc + "/" + pid + "/comm").strip(SPACE) == "sshd"
        ):
            found |= {sockets[one] for one in list_process_inodes(pid, proc) if one in sockets}
    return sorted(found)


def list_process_inodes(pid: str, proc: str) -> list[str]:
    """Return the inodes of a process' sockets."""
    base = f"{proc}/{pid}/fd"
    found = []
    try:
        for name in os.listdir(base):
            link = os.readlink(base + "/" + name)
            if link.startswith("socket:["):
                found.append(link[8:-1])
    except OSError:
        return found
    return found
