"""Read the kernel's data about sockets: TCP_INFO, listening ports, owners, neighbours.

Verdicts about links come from here. On a busy machine, timeouts of an application would call most healthy links dead.
The socket's state at the deadline does not.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
from typing import TypedDict

ESTABLISHED = 1
SYN_SENT = 2
CLOSE = 7
CLOSE_WAIT = 8
LISTEN = 10
CONNECTED = (ESTABLISHED, 4, 5, 6, CLOSE_WAIT, 9, 11)  # any state past the handshake
INFO = struct.Struct("8B24I")  # linux/tcp.h up to tcpi_total_retrans (the struct only ever grows)
FIELDS = {"unacked": 4, "pmtu": 13, "rtt_us": 15, "total_retrans": 23}
# Later fields, if the kernel has them: name -> (offset, format). The struct only ever grows.
LATER = {"acked": (120, "Q"), "segs_out": (136, "I"), "dsack_dups": (216, "I")}
INFO_ROOM = 256


class SocketRow(TypedDict):
    """A line of /proc/net/tcp or tcp6. ``state`` is the kernel's number."""

    address: str
    port: int
    peer: str
    peer_port: int
    state: int
    inode: str


def read_tcp_info(sock: socket.socket) -> dict[str, int]:
    """Return the fields of TCP_INFO that verdicts use."""
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_ROOM)
    except OSError:
        return dict(dict.fromkeys([*FIELDS, *LATER], 0), state=CLOSE)
    values = INFO.unpack(raw[: INFO.size].ljust(INFO.size, b"\0"))
    found = {name: values[8 + index] for name, index in FIELDS.items()}
    found["state"] = values[0]
    raw = raw.ljust(INFO_ROOM, b"\0")
    for name, (offset, form) in LATER.items():
        found[name] = struct.unpack_from(form, raw, offset)[0]
    return found


def count_lost_segments(info: dict[str, int]) -> int:
    """Return the number of segments that had to be resent. The receiver reports unnecessary ones (RFC 2883)."""
    return max(0, info["total_retrans"] - info["dsack_dups"])


def find_address_family(address: str) -> int:
    """Return the socket family of a literal address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def format_endpoint(address: str, port: int) -> str:
    """Write an address and a port in one word."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def decode_address(text: str) -> str:
    """Decode an address of /proc/net/tcp: words in the machine's byte order."""
    words = [struct.pack("=I", int(text[i : i + 8], 16)) for i in range(0, len(text), 8)]
    raw = b"".join(words)
    if len(raw) == 4:  # noqa: PLR2004 (bytes of an IPv4 address)
        return socket.inet_ntop(socket.AF_INET, raw)
    shown = socket.inet_ntop(socket.AF_INET6, raw)
    return shown[7:] if shown.startswith("::ffff:") and "." in shown else shown


def parse_socket_table(text: str) -> list[SocketRow]:
    """Parse /proc/net/tcp or tcp6."""
    rows: list[SocketRow] = []
    for line in text.splitlines()[1:]:
        part = line.split()
        (here, port), (there, peer_port) = part[1].split(":"), part[2].split(":")
        rows.append(
            {
                "address": decode_address(here),
                "port": int(port, 16),
                "peer": decode_address(there),
                "peer_port": int(peer_port, 16),
                "state": int(part[3], 16),
                "inode": part[9],
            }
        )
    return rows


def read_socket_table() -> list[SocketRow]:
    """Return every TCP socket of this network namespace."""
    rows: list[SocketRow] = []
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path) as stream:
                rows += parse_socket_table(stream.read())
        except FileNotFoundError:
            pass  # IPv6 switched off
    return rows


def list_socket_inodes(pid: int | str) -> set[str]:
    """Return the inodes of a process's sockets."""
    found: set[str] = set()
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found  # it ended meanwhile, or is not readable
    for name in names:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def find_port_owner(port: int) -> str:
    """Return the process that listens on *port*, such as ``sshd (pid 7)``, or ""."""
    inodes = {r["inode"] for r in read_socket_table() if r["state"] == LISTEN and r["port"] == port}
    if not inodes:
        return ""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        if inodes & list_socket_inodes(pid):
            try:
                with open(f"/proc/{pid}/comm") as stream:
                    return f"{stream.read().strip()} (pid {pid})"
            except OSError:
                break
    return "an unknown process"


# The watch has this file without tools/ip.py (node_programs), so this file reads ip(8) itself.
def run_ip(*arguments: str) -> str:
    """Run iproute2. Returns "" if it is missing or prints nothing."""
    try:
        done = subprocess.run(
            ["ip", *arguments],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")


def parse_route(text: str) -> dict[str, str]:
    """Parse ``ip -o route get``: the next hop, device and source address."""
    words = text.split()
    route = {"via": "", "dev": "", "src": ""}
    for key in route:
        if key in words[:-1]:
            route[key] = words[words.index(key) + 1]
    return route


def parse_neighbour(text: str) -> str:
    """Parse ``ip neigh show to``: reachable, failed or unknown."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    if "FAILED" in line or "INCOMPLETE" in line:
        return "failed"
    return "reachable" if "lladdr" in line else "unknown"


def find_path_to(address: str, source: str = "") -> dict[str, str]:
    """Return the kernel's route to *address*, and whether the next hop answers ARP or ND. *source*: of the packets."""
    said = run_ip("-o", "route", "get", address, *(("from", source) if source else ()))
    route = parse_route(said)
    if not said and run_ip("-V"):
        route["neighbour"] = (
            "failed"  # There is no route at all, so the neighbour's earlier state does not matter.
        )
        return route
    hop = route["via"] or address
    near = ("dev", route["dev"]) if route["dev"] else ()
    route["neighbour"] = parse_neighbour(run_ip("neigh", "show", "to", hop, *near))
    return route


def errno_to_name(number: int) -> str:
    """Convert 113 to EHOSTUNREACH."""
    return errno.errorcode.get(number, str(number)) if number else ""
