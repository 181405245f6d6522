"""The sockets of a probe: ports that the kernel gives out, over the range, named, outside. Stdlib only."""

from __future__ import annotations

import errno
import random
import secrets
import socket
from typing import TYPE_CHECKING

from ..facts.sockets import (
    errno_name,
    family_of,
    owner_of_port,
)

if TYPE_CHECKING:
    from ..schema.ladder import Kind, NamedPort, Port


BACKLOG = 4096
OUTSIDE_TRIES = 20
BORDERS_MOST = 48  # borders of rules inside the data range that get listeners on both sides
PORT_FLOOR = 1024
PORT_TOP = 65535


def bind_one(address: str, port: int) -> socket.socket:
    """Listen on one address and port."""
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
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


def failed_port(kind: Kind, port: int, exc: OSError) -> Port:
    """Describe a port that could not be listened on, and who holds it."""
    holder = owner_of_port(port) if exc.errno == errno.EADDRINUSE and port else ""
    return {"kind": kind, "port": port, "error": errno_name(exc.errno or 0), "holder": holder}


def open_samples(address: str, count: int) -> tuple[list[socket.socket], list[Port]]:
    """Let the kernel choose, exactly as it does for Gloo and NCCL."""
    socks: list[socket.socket] = []
    ports: list[Port] = []
    for _ in range(count):
        try:
            sock = bind_one(address, 0)
        except OSError as exc:
            ports.append(failed_port("sample", 0, exc))
            continue
        socks.append(sock)
        ports.append({"kind": "sample", "port": sock.getsockname()[1], "error": "", "holder": ""})
    return socks, ports


def spread_over(first: int, last: int, count: int, borders: list[int]) -> list[int]:
    """Choose ports of a range: both ends, evenly between them, and both sides of every border of a rule.

    With *count* ports spread evenly, no shut stretch longer than a (count - 1)th of the range stays unseen.
    """
    steps = max(1, count - 1)
    even = [first + (last - first) * i // steps for i in range(count)] if count else []
    near = [port for port in borders if first <= port <= last][:BORDERS_MOST]
    return sorted({*even, *near}) if count else []


def open_spread(address: str, wanted: list[int]) -> tuple[list[socket.socket], list[Port]]:
    """Listen on chosen ports of the data range; one that is taken is passed over, its neighbour tells as much."""
    socks: list[socket.socket] = []
    ports: list[Port] = []
    for port in wanted:
        try:
            sock = bind_one(address, port)
        except OSError:
            continue
        socks.append(sock)
        ports.append({"kind": "range", "port": port, "error": "", "holder": ""})
    return socks, ports


def open_named(address: str, named: list[NamedPort]) -> tuple[list[socket.socket], list[Port]]:
    """Listen on every address, as TCPStore does, so that a test from outside means something."""
    anywhere = "::" if family_of(address) == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 (see above)
    socks: list[socket.socket] = []
    ports: list[Port] = []
    for want in named:
        kind, port = want["kind"], int(want["port"])
        try:
            socks.append(bind_one(anywhere, port))
        except OSError as exc:
            ports.append(failed_port(kind, port, exc))
        else:
            ports.append({"kind": kind, "port": port, "error": "", "holder": ""})
    return socks, ports


def outside_candidates(allowed: list[list[int]], seed: int) -> list[int]:
    """Return ports that no peer has any business with, in an order that differs per run."""
    free = [p for p in range(PORT_FLOOR, PORT_TOP + 1) if not any(a <= p <= b for a, b in allowed)]
    chooser = random.Random(seed)  # noqa: S311 (a spread, not a secret)
    return chooser.sample(free, min(OUTSIDE_TRIES, len(free)))


def open_outside(address: str, allowed: list[list[int]]) -> tuple[list[socket.socket], list[Port]]:
    """Listen on one port that peers must not reach."""
    for port in outside_candidates(allowed, secrets.randbits(32)):
        try:
            sock = bind_one(address, port)
        except OSError:
            continue
        return [sock], [{"kind": "outside", "port": port, "error": "", "holder": ""}]
    return [], []
