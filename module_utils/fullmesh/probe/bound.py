"""Open the sockets of a probe: ports that the kernel chooses, across the range, named, outside.

Standard library only.
"""

from __future__ import annotations

import errno
import random
import secrets
import socket
from typing import TYPE_CHECKING

from ..facts.sockets import (
    errno_to_name,
    find_address_family,
    find_port_owner,
)

if TYPE_CHECKING:
    from ..schema.ladder import Kind, NamedPort, ProbePort, RailAddress, RailPort


BACKLOG = 4096
OUTSIDE_TRIES = 20
BORDERS_MOST = 48  # borders of rules inside the data range that get listeners on both sides
PORT_FLOOR = 1024
PORT_TOP = 65535


def bind_listener(address: str, port: int) -> socket.socket:
    """Listen on one address and port."""
    sock = socket.socket(find_address_family(address), socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def describe_failed_port(kind: Kind, port: int, exc: OSError) -> ProbePort:
    """Describe a port that could not be opened, and the process that holds it."""
    holder = find_port_owner(port) if exc.errno == errno.EADDRINUSE and port else ""
    return {"kind": kind, "port": port, "error": errno_to_name(exc.errno or 0), "holder": holder}


def open_sample_ports(address: str, count: int) -> tuple[list[socket.socket], list[ProbePort]]:
    """Let the kernel choose ports, as it does for Gloo and NCCL."""
    socks: list[socket.socket] = []
    ports: list[ProbePort] = []
    for _ in range(count):
        try:
            sock = bind_listener(address, 0)
        except OSError as exc:
            ports.append(describe_failed_port("sample", 0, exc))
            continue
        socks.append(sock)
        ports.append({"kind": "sample", "port": sock.getsockname()[1], "error": "", "holder": ""})
    return socks, ports


def choose_spread_ports(first: int, last: int, count: int, borders: list[int]) -> list[int]:
    """Choose ports of a range: both ends, evenly between them, and both sides of every rule's border.

    With *count* ports spread evenly, every closed stretch longer than 1/(count - 1) of the range is found.
    """
    steps = max(1, count - 1)
    even = [first + (last - first) * i // steps for i in range(count)] if count else []
    near = [port for port in borders if first <= port <= last][:BORDERS_MOST]
    return sorted({*even, *near}) if count else []


def open_range_ports(
    address: str, wanted: list[int]
) -> tuple[list[socket.socket], list[ProbePort]]:
    """Listen on chosen ports of the data range.

    A port that is in use is skipped, since its neighbour is as good a sample.
    """
    socks: list[socket.socket] = []
    ports: list[ProbePort] = []
    for port in wanted:
        try:
            sock = bind_listener(address, port)
        except OSError:
            continue
        socks.append(sock)
        ports.append({"kind": "range", "port": port, "error": "", "holder": ""})
    return socks, ports


def open_named_ports(
    address: str, named: list[NamedPort]
) -> tuple[list[socket.socket], list[ProbePort]]:
    """Listen on every address, as TCPStore does, so that a test from outside is meaningful."""
    anywhere = "::" if find_address_family(address) == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 (see above)
    socks: list[socket.socket] = []
    ports: list[ProbePort] = []
    for want in named:
        kind, port = want["kind"], int(want["port"])
        try:
            socks.append(bind_listener(anywhere, port))
        except OSError as exc:
            ports.append(describe_failed_port(kind, port, exc))
        else:
            ports.append({"kind": kind, "port": port, "error": "", "holder": ""})
    return socks, ports


def choose_outside_ports(allowed: list[list[int]], seed: int) -> list[int]:
    """Return ports that peers must not reach, in an order that differs per run."""
    free = [p for p in range(PORT_FLOOR, PORT_TOP + 1) if not any(a <= p <= b for a, b in allowed)]
    chooser = random.Random(seed)  # noqa: S311 (a spread, not a secret)
    return chooser.sample(free, min(OUTSIDE_TRIES, len(free)))


def open_outside_port(
    address: str, allowed: list[list[int]]
) -> tuple[list[socket.socket], list[ProbePort]]:
    """Listen on one port that peers must not reach."""
    for port in choose_outside_ports(allowed, secrets.randbits(32)):
        try:
            sock = bind_listener(address, port)
        except OSError:
            continue
        return [sock], [{"kind": "outside", "port": port, "error": "", "holder": ""}]
    return [], []


def open_rail_ports(rails: list[RailAddress]) -> tuple[list[socket.socket], list[RailPort]]:
    """Listen on the node's address on each rail, on a port that the kernel chooses."""
    socks: list[socket.socket] = []
    ports: list[RailPort] = []
    for one in rails:
        port: RailPort = {"rail": one["rail"], "address": one["address"], "port": 0, "error": ""}
        try:
            sock = bind_listener(one["address"], 0)
        except OSError as exc:
            port["error"] = errno_to_name(exc.errno or 0)
        else:
            socks.append(sock)
            port["port"] = sock.getsockname()[1]
        ports.append(port)
    return socks, ports
