# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Check the links of this node to the peers of a job for `fullmesh-check`: a connection, a small and a large packet.

Nothing has to run on the peers. Their kernels answer: a connection to the last data port is refused by the kernel if
no process listens there, which shows that the route and both firewalls are open. Echo requests show the packet size.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import socket
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_check_node as check_node
import fullmesh_sockets as sockets
from fullmesh_check_node import HealthFinding, NoCheckError
from fullmesh_foreign_text import parse_decimal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MOST_PEERS, SHOWN = 1024, 8
RESEND_SECONDS = 0.3
# A busy node can keep a check from the CPU. Without an answer for a shorter time, nothing is known.
LEAST_SECONDS = 2 * RESEND_SECONDS
MOST_LATE = 4096  # packets to read at the end. The socket gets those of all programs
SSH_PORT = 22  # of a cluster without a plan
CONNECTED = (0, errno.ECONNREFUSED)  # the peer's kernel answers
ECHO: dict[int, tuple[int, int]] = {
    socket.AF_INET: (8, 28),
    socket.AF_INET6: (128, 48),
}  # type of the request, bytes of both headers
# linux/in.h, linux/in6.h: probe beyond the known path, the known size of the path
PROBE: dict[int, tuple[int, int, int, int]] = {
    socket.AF_INET: (0, 10, 3, 14),
    socket.AF_INET6: (41, 23, 3, 24),
}
ONLY_UNREACHABLE = (255, 1, struct.pack("=I", 0xFFFFFFFF & ~(1 << 3)))  # SOL_RAW, ICMP_FILTER
UNKNOWN = "unknown"  # the address of a host that has none
SMALL, TOKEN = 56, 16
RANGE = re.compile(r"(\d+)(?:-(\d+))?")


class JobPeer(NamedTuple):
    """Another node of a job."""

    name: str
    address: str


# --- the peers of a job -------------------------------------------------------------------------------


def expand_host_list(text: str) -> list[str]:
    """Expand Slurm's list of hosts: ``n[01-03,7],m1`` (scontrol(1), hostlist expressions)."""
    found: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        names = [""]
        for fixed, inner in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            if fixed:
                names = [name + fixed for name in names]
                continue
            numbers: list[str] = []
            for first, last in RANGE.findall(inner):
                span = range(int(first), min(int(last or first), int(first) + MOST_PEERS) + 1)
                numbers += [str(one).zfill(len(first)) for one in span]
            names = [name + number for name in names for number in numbers][:MOST_PEERS]
        found += names
    return found[:MOST_PEERS]


def list_slurm_peers() -> list[str]:
    """Return the nodes of Slurm's job, [] outside of one. A prolog has only the shorter variable (Slurm 22.05)."""
    names = ("SLURM_JOB_NODELIST", "SLURM_NODELIST")
    return expand_host_list(next(filter(None, map(os.environ.get, names)), ""))


def list_peers(hosts: str | list[str]) -> list[JobPeer]:
    """Return the other nodes of the job: of a file or list of hosts, of Slurm's job, else of the plan.

    Raises:
        NoCheckError: they are not known.
    """
    plan = check_node.read_plan()
    nodes = plan.get("nodes")
    known = [one for one in nodes if isinstance(one, dict)] if isinstance(nodes, list) else []
    if isinstance(hosts, list):
        names = hosts
    elif hosts:
        text = check_node.read_text(hosts)
        names = [line.split()[0] for line in text.splitlines() if line.strip() and line[0] != "#"]
        if not names:
            raise NoCheckError(f"{hosts} names no host")
    elif list_slurm_peers():
        names = list_slurm_peers()
    else:
        names = [str(one.get("name", "")) for one in known]
    if not names:
        raise NoCheckError("no peers are known: no --hosts, no Slurm job, no plan", skipped=True)
    addresses = {}
    for one in known:
        for name in (one.get("name"), one.get("address"), *(one.get("names") or [])):
            addresses[str(name)] = str(one.get("address", ""))
    own = {address for _, address in check_node.list_addresses()} | {""}
    own.add(check_node.read_own_address())
    found = [JobPeer(name, addresses.get(name) or find_address(name)) for name in names]
    peers = [one for one in dict.fromkeys(found) if one.address not in own][:MOST_PEERS]
    if not peers:
        raise NoCheckError("the job has no other node", skipped=True)
    return peers


def find_address(name: str) -> str:
    """Return the address of a host that is not in the plan."""
    if name in os.uname()[1].split("."):
        return ""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError:
        return name if re.fullmatch(r"[0-9.]+", name) else UNKNOWN


# --- connections --------------------------------------------------------------------------------------


def start_connection(stack: contextlib.ExitStack, address: str, port: int) -> socket.socket:
    """Start a connection. Its outcome is in SO_ERROR once it can be written.

    Raises:
        OSError: the kernel refuses it at once, for example without a route.
    """
    family = sockets.find_address_family(address)
    one = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
    one.setblocking(False)
    status = one.connect_ex((address, port))
    if status not in (errno.EINPROGRESS, *CONNECTED):
        raise OSError(status, os.strerror(status))
    return one


def open_error_socket(family: int) -> socket.socket | None:
    """Open a socket that gets ICMP errors, or None if this account may not."""
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    try:
        one = socket.socket(family, socket.SOCK_RAW, protocol)
    except OSError:
        return None
    one.setblocking(False)
    if family == socket.AF_INET:
        one.setsockopt(*ONLY_UNREACHABLE)
    return one


def read_rejected(errors: Iterable[socket.socket], port: int) -> set[str]:
    """Return the addresses whose firewall has answered a connection to the port with an ICMP error."""
    found = set()
    for one in errors:
        v6 = one.family == socket.AF_INET6
        with contextlib.suppress(OSError):
            for _ in range(MOST_LATE):
                data = one.recv(2048)
                if not v6 and data:  # with the header of the packet
                    data = data[4 * (data[0] & 15) :]
                inner = data[8:]  # the beginning of the packet that was rejected
                kind, header = (1, 40) if v6 else (3, 4 * (inner[0] & 15) if inner else 0)
                if data[:1] != bytes((kind,)) or len(inner) < header + 4:
                    continue
                if int.from_bytes(inner[header + 2 : header + 4], "big") == port:
                    address = inner[24:40] if v6 else inner[16:20]
                    found.add(socket.inet_ntop(one.family, address))
    return found


def connect_all(addresses: list[str], port: int, end: float) -> dict[str, str]:
    """Return why peers could not be reached: address -> reason. A lost packet is made up by a further attempt."""
    waiting = dict.fromkeys(addresses, "no answer")
    failed = {UNKNOWN: "its name has no address"} if waiting.pop(UNKNOWN, None) else {}
    pending: dict[int, tuple[socket.socket, str]] = {}
    poll, retry, begun = select.poll(), 0.0, time.monotonic()
    rejected: set[str] = set()
    with contextlib.ExitStack() as stack:
        over = False
        families = {sockets.find_address_family(address) for address in waiting}
        errors = [stack.enter_context(one) for one in map(open_error_socket, families) if one]
        while waiting and not over:
            over = time.monotonic() >= end  # answers that have come count all the same
            for address in list(waiting) if time.monotonic() >= retry else ():
                try:
                    one = start_connection(stack, address, port)
                    pending[one.fileno()] = (one, address)
                    poll.register(one, select.POLLOUT)
                except OSError as error:
                    if error.errno == errno.EMFILE:
                        raise NoCheckError("too few open files for all peers") from None
                    failed[address] = error.strerror or str(error)
                    del waiting[address]
            retry = max(retry, time.monotonic() + RESEND_SECONDS) if pending else end
            pause = min(end, retry) - time.monotonic()
            for number, _ in poll.poll(max(1, 1000 * pause)) if pending else ():
                one, address = pending.pop(number)
                poll.unregister(number)
                status = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if status == errno.ECONNREFUSED:
                    # the kernel gives the same error for a port without a listener and a firewall's default
                    rejected |= read_rejected(errors, port)
                if waiting.pop(address, "") and (status not in CONNECTED or address in rejected):
                    refused = "a firewall rejects the connection (ICMP port unreachable)"
                    failed[address] = refused if address in rejected else os.strerror(status)
    if waiting and time.monotonic() - begun < LEAST_SECONDS:
        raise NoCheckError("too little time was left for the answers")
    return {**failed, **waiting}


# --- echo requests ------------------------------------------------------------------------------------


def compute_checksum(data: bytes) -> int:
    """Return the internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return int(~(total + (total >> 16)) & 0xFFFF)


def build_echo(family: int, size: int, token: bytes) -> bytes:
    """Build an echo request with an even number of bytes of content. The kernel sums up those of IPv6."""
    kind = ECHO[family][0]
    content = token.ljust(size - size % 2, b"f")
    head = struct.pack("!BBHHH", kind, 0, 0, os.getpid() & 0xFFFF, 1)
    return (
        struct.pack("!BBHHH", kind, 0, compute_checksum(head + content), os.getpid() & 0xFFFF, 1)
        + content
    )


def open_echo_socket(family: int) -> socket.socket | None:
    """Open a socket for echo requests that are not split, or None if this account may not."""
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
        with contextlib.suppress(OSError):
            one = socket.socket(family, kind, protocol)
            one.setblocking(False)
            level, name, value, _ = PROBE[family]
            one.setsockopt(level, name, value)
            return one
    return None


def find_path_size(address: str) -> int:
    """Return the kernel's size of a packet on the way to an address, 0 without a route."""
    family = sockets.find_address_family(address)
    level, _, _, size = PROBE[family]
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.connect((address, 9))
            return int(one.getsockopt(level, size))
    except OSError:
        return 0


def echo_all(addresses: list[str], end: float) -> dict[str, set[str]]:
    """Send a small and a large echo request to each address, and return which came back."""
    found: dict[str, set[str]] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        own = [one for one in addresses if sockets.find_address_family(one) == family]
        echo = open_echo_socket(family) if own else None
        if echo is None:
            continue
        with echo:
            found.update(exchange_echoes(echo, family, own, end))
    return found


def exchange_echoes(
    echo: socket.socket, family: int, addresses: list[str], end: float
) -> dict[str, set[str]]:
    """Exchange echo requests over one socket. Lost ones are sent again."""
    waits: dict[bytes, tuple[str, str, bytes]] = {}
    for address in addresses:
        most = min(find_path_size(address), 1 << 16) - ECHO[family][1]
        for name, size in (("small", SMALL), ("large", most)):
            if size >= TOKEN:
                token = os.urandom(TOKEN).replace(b"f", b"g")  # the filler shows its end
                waits[token] = (address, name, build_echo(family, size, token))
    found: dict[str, set[str]] = {address: set() for address in addresses}
    resend, begun, late = 0.0, time.monotonic(), 0
    while waits:
        over = time.monotonic() >= end
        if time.monotonic() >= resend and not (over and resend):
            resend = time.monotonic() + RESEND_SECONDS
            for address, _, packet in list(waits.values()):
                with contextlib.suppress(OSError):  # larger than the interface, or no route
                    echo.sendto(packet, (address, 0))
        if not select.select([echo], [], [], 0.05)[0]:
            if over:
                break
            continue
        late += over
        if late > MOST_LATE:
            raise NoCheckError("the node gets too many ICMP packets")
        with contextlib.suppress(OSError):
            data = echo.recv(1 << 17)
            if data[0] == ECHO[family][0]:
                continue  # this node's own request, to an address of its own
            at = data.find(b"ffff")
            token = data[at - TOKEN : at] if at >= TOKEN else b""
            address, name, _ = waits.pop(token, ("", "", b""))
            found.get(address, set()).add(name)
    if waits and time.monotonic() - begun < LEAST_SECONDS:
        raise NoCheckError("too little time was left for the answers")
    return found


# --- the checks ---------------------------------------------------------------------------------------


def count_further_peers(
    code: str, names: Mapping[str, str], broken: list[str], fault: str, fix: str
) -> Iterator[HealthFinding]:
    """Yield one finding about the peers after those that are shown. Each counts: it decides whose fault a link is."""
    more = tuple(names[address] for address in broken[SHOWN:])
    if more:
        yield HealthFinding(code, f"{len(more)} more of {len(names)} peers {fault}", fix, more)


def check_connections(hosts: str | list[str], end: float) -> Iterator[HealthFinding]:
    """Check that every peer of the job answers a connection."""
    names = {one.address: one.name for one in list_peers(hosts)}
    ports = check_node.read_plan().get("data_ports")
    planned = parse_decimal(str(ports.get("last", ""))) if isinstance(ports, dict) else None
    port = planned or SSH_PORT
    failed = connect_all(list(names), port, end)
    fix = "./fullmesh diagnose -i INVENTORY on the controller"
    for address, why in list(failed.items())[:SHOWN]:
        text = f"{names[address]} ({sockets.format_endpoint(address, port)}): {why}"
        yield HealthFinding("HC-161", text, fix, (names[address],))
    yield from count_further_peers("HC-161", names, list(failed), "could not be reached", fix)


def check_packets(hosts: str | list[str], end: float) -> Iterator[HealthFinding]:
    """Check that packets of the largest size arrive at every peer that answers small ones."""
    names = {one.address: one.name for one in list_peers(hosts) if one.address != UNKNOWN}
    came = echo_all(list(names), end)
    if not any(came.values()):
        raise NoCheckError("no peer answers echo requests", skipped=True)
    lost = [address for address, sizes in came.items() if sizes == {"small"}]
    fix = "make the MTU of both nodes and the switch equal"
    for address in lost[:SHOWN]:
        size = find_path_size(address)
        text = f"{names[address]} ({address}): packets of {size} bytes are lost, small ones arrive"
        yield HealthFinding("HC-162", text, fix, (names[address],))
    yield from count_further_peers("HC-162", names, lost, "lose large packets", fix)
