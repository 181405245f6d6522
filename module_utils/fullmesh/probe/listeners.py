"""Listeners that stand in for Gloo's, NCCL's and TCPStore's, on one node, for the length of a probe.

Sockets are bound in the module (so that failures are reported at once) and served by a detached
process. A packet tap sees the handshakes on the wire: what arrives before this node's firewall has
its say, what leaves after it. From the taps of both ends follows who stops a packet.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import random
import secrets
import selectors
import socket
import struct
import time
from typing import TYPE_CHECKING

from ..detach import detach, drop_run_directory, run_directory
from ..facts.sockets import (
    errno_name,
    family_of,
    lost_segments,
    owner_of_port,
    tcp_info,
)
from ..survey.net import counters
from .handshake import (
    LINE_LIMIT,
    hello_line,
    ok_line,
    read_client,
)

if TYPE_CHECKING:
    from typing import Any

    Spec = dict[str, Any]
    Port = dict[str, Any]

BACKLOG = 4096
CONNECTION_SECONDS = 15.0
CHUNK = 65536
OUTSIDE_TRIES = 20
BORDERS_MOST = 48  # borders of rules inside the data range that get listeners on both sides
PORT_FLOOR = 1024
PORT_TOP = 65535
CONTROL = "listeners.sock"
STRANGERS_NAMED = 20

SO_ATTACH_FILTER = 26  # asm-generic/socket.h; the socket module has no name for it
ETHER_ALL = (
    3  # a tap for one protocol is not shown what leaves (net/core/dev.c, dev_queue_xmit_nit)
)
# Classic BPF: "IP of our version, TCP, SYN set", counted from the IP header (SOCK_DGRAM packet socket).
SYN_FILTERS: dict[int, tuple[tuple[int, int, int, int], ...]] = {
    socket.AF_INET: (
        (0x30, 0, 0, 0),  # ldb version
        (0x54, 0, 0, 0xF0),
        (0x15, 0, 6, 0x40),
        (0x30, 0, 0, 9),  # ldb protocol
        (0x15, 0, 4, 6),  # TCP?
        (0xB1, 0, 0, 0),  # x = header length
        (0x50, 0, 0, 13),  # ldb flags
        (0x45, 0, 1, 0x02),  # SYN?
        (0x06, 0, 0, 0xFFFF),
        (0x06, 0, 0, 0),
    ),
    socket.AF_INET6: (
        (0x30, 0, 0, 0),
        (0x54, 0, 0, 0xF0),
        (0x15, 0, 5, 0x60),
        (0x30, 0, 0, 6),
        (0x15, 0, 3, 6),
        (0x30, 0, 0, 53),
        (0x45, 0, 1, 0x02),
        (0x06, 0, 0, 0xFFFF),
        (0x06, 0, 0, 0),
    ),
}
ACK = 0x10
FLOWS_KEPT = 200000  # a scan must not fill the memory


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


def failed_port(kind: str, port: int, exc: OSError) -> Port:
    """Describe a port that could not be listened on, and who holds it."""
    holder = owner_of_port(port) if exc.errno == errno.EADDRINUSE and port else ""
    return {"kind": kind, "port": port, "error": errno_name(exc.errno or 0), "holder": holder}


def open_samples(address: str, count: int) -> tuple[list[socket.socket], list[Port]]:
    """Let the kernel choose, exactly as it does for Gloo and NCCL."""
    socks, ports = [], []
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
    socks, ports = [], []
    for port in wanted:
        try:
            sock = bind_one(address, port)
        except OSError:
            continue
        socks.append(sock)
        ports.append({"kind": "range", "port": port, "error": "", "holder": ""})
    return socks, ports


def open_named(address: str, named: list[dict[str, Any]]) -> tuple[list[socket.socket], list[Port]]:
    """Listen on every address, as TCPStore does, so that a test from outside means something."""
    anywhere = "::" if family_of(address) == socket.AF_INET6 else "0.0.0.0"  # noqa: S104 (see above)
    socks, ports = [], []
    for want in named:
        kind, port = str(want["kind"]), int(want["port"])
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


def open_tap(interface: str, family: int) -> socket.socket | None:
    """Tap the handshakes; None where the kernel or a sandbox forbids it."""
    steps = SYN_FILTERS[family]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    pointer = struct.pack("HL", len(steps), ctypes.addressof(program))
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)  # deaf until it is bound
    except OSError:
        return None
    try:
        tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, pointer)
        tap.bind((interface, ETHER_ALL))
    except OSError:
        tap.close()
        return None
    tap.setblocking(False)
    return tap


def parse_handshake(packet: bytes) -> tuple[str, str, int, bool] | None:
    """Return who asked whom on which port, and whether this is the answer to it."""
    if not packet:
        return None
    four = packet[0] >> 4 == 4  # noqa: PLR2004 (the protocol's own number)
    start, width, places = (20, 4, (12, 16)) if four else (40, 16, (8, 24))
    if four:
        start = (packet[0] & 0x0F) * 4
    try:
        family = socket.AF_INET if four else socket.AF_INET6
        near, far = (socket.inet_ntop(family, packet[p : p + width]) for p in places)
        ports = struct.unpack_from(">HH", packet, start)
        answer = bool(packet[start + 13] & ACK)
    except (struct.error, ValueError, IndexError):
        return None
    return (far, near, ports[0], True) if answer else (near, far, ports[1], False)


def by_pair(flows: set[tuple[str, str, int]]) -> dict[str, list[int]]:
    """Group ports by ``asking>asked``."""
    found: dict[str, list[int]] = {}
    for near, far, port in sorted(flows):
        found.setdefault(near + ">" + far, []).append(port)
    return found


class Visitor:
    """One connection to a listener."""

    def __init__(self, sock: socket.socket, source: str, deadline: float) -> None:
        self.sock = sock
        self.source = source
        self.deadline = deadline
        self.nonce = secrets.token_hex(16)
        self.inbox = b""
        self.outbox = b""
        self.node = ""
        self.upload = 0  # bytes still to come
        self.download = 0  # bytes still to send
        self.wanted = selectors.EVENT_READ | selectors.EVENT_WRITE  # what the selector watches for


class Server:
    """Serves the listeners until told to stop or until its time is over."""

    def __init__(self, spec: Spec, socks: list[socket.socket], control: socket.socket) -> None:
        self.token = str(spec["token"])
        self.node = str(spec["node"])
        self.ends = time.monotonic() + float(spec["lifetime"])
        self.proved: dict[str, int] = {}
        self.strangers: list[str] = []
        self.refused = 0
        self.before = counters()
        self.lost: dict[str, list[int]] = {}
        self.peers = set(spec["peers"])
        self.asked: set[tuple[str, str, int]] = set()
        self.answered: set[tuple[str, str, int]] = set()
        self.running = True
        self.selector = selectors.DefaultSelector()
        for sock in socks:
            self.selector.register(sock, selectors.EVENT_READ, self.welcome)
        self.selector.register(control, selectors.EVENT_READ, self.command)
        self.visitors: set[Visitor] = set()

    def add_tap(self, tap: socket.socket) -> None:
        """Count attempts from now on."""
        self.selector.register(tap, selectors.EVENT_READ, self.count)

    def serve(self) -> None:
        """Loop."""
        swept = time.monotonic()
        while self.running and time.monotonic() < self.ends:
            for key, events in self.selector.select(1.0):
                if isinstance(key.data, Visitor):
                    self.attend(key.data, events)
                else:
                    key.data(key.fileobj)
            now = time.monotonic()
            if now - swept >= 1.0:
                swept = now
                for visitor in [v for v in self.visitors if now > v.deadline]:
                    self.leave(visitor)

    def count(self, tap: socket.socket) -> None:
        """Note handshakes between peers on the wire: beyond our own firewall, in both directions."""
        for _ in range(256):
            try:
                packet = tap.recv(128)
            except OSError:
                return
            seen = parse_handshake(packet)
            if seen and seen[0] in self.peers and seen[1] in self.peers:
                kept = self.answered if seen[3] else self.asked
                if len(kept) < FLOWS_KEPT:
                    kept.add(seen[:3])

    def welcome(self, listener: socket.socket) -> None:
        """Accept everybody who is waiting and introduce ourselves."""
        for _ in range(256):
            try:
                sock, where = listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            source = str(where[0])
            visitor = Visitor(sock, source, time.monotonic() + CONNECTION_SECONDS)
            visitor.outbox = hello_line(self.node, visitor.nonce, time.time())
            self.visitors.add(visitor)
            self.selector.register(sock, visitor.wanted, visitor)

    def leave(self, visitor: Visitor, rude: bool = False) -> None:
        """Close a connection; rudely, with a reset, for those who have no business here."""
        self.visitors.discard(visitor)
        self.count_lost(visitor)
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(visitor.sock)
        if rude:
            linger = struct.pack("ii", 1, 0)
            with contextlib.suppress(OSError):
                visitor.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        visitor.sock.close()

    def count_lost(self, visitor: Visitor) -> None:
        """Count what had to be sent again on connections that came through; what is stuck is judged elsewhere."""
        if not visitor.node or visitor.upload or visitor.download or visitor.outbox:
            return
        info = tcp_info(visitor.sock)
        if not info["unacked"]:
            kept = self.lost.setdefault(visitor.node, [0, 0])
            kept[0] += lost_segments(info)
            kept[1] += info["segs_out"]

    def attend(self, visitor: Visitor, events: int) -> None:
        """Read and write what is possible right now."""
        try:
            if events & selectors.EVENT_READ:
                self.listen_to(visitor)
            if visitor in self.visitors:
                self.speak_to(visitor)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.leave(visitor)

    def listen_to(self, visitor: Visitor) -> None:
        """Take the introduction, then the payload."""
        data = visitor.sock.recv(CHUNK)
        if not data:
            self.leave(visitor)
        elif visitor.node:
            visitor.deadline = time.monotonic() + CONNECTION_SECONDS
            self.take_payload(visitor, len(data))
        else:
            visitor.inbox += data
            line, found, rest = visitor.inbox.partition(b"\n")
            if found:
                self.check_introduction(visitor, line, len(rest))
            elif len(visitor.inbox) > LINE_LIMIT:
                self.refuse(visitor)

    def refuse(self, visitor: Visitor) -> None:
        """Turn away whoever is not part of this run."""
        self.refused += 1
        if visitor.source not in self.strangers and len(self.strangers) < STRANGERS_NAMED:
            self.strangers.append(visitor.source)
        self.leave(visitor, rude=True)

    def check_introduction(self, visitor: Visitor, line: bytes, extra: int) -> None:
        """Let the probes of this run in."""
        said = read_client(line, self.token, visitor.nonce)
        if said is None:
            self.refuse(visitor)
            return
        visitor.node, theirs, visitor.upload = said
        visitor.download = visitor.upload
        self.proved[visitor.node] = self.proved.get(visitor.node, 0) + 1
        visitor.outbox += ok_line(self.token, self.node, visitor.nonce, theirs, visitor.source)
        self.take_payload(visitor, extra)

    @staticmethod
    def take_payload(visitor: Visitor, size: int) -> None:
        """Count the probe's bytes."""
        visitor.upload = max(0, visitor.upload - size)

    def speak_to(self, visitor: Visitor) -> None:
        """Send lines, then, after the whole upload has arrived, the payload back."""
        if not visitor.outbox and visitor.node and not visitor.upload and visitor.download:
            visitor.outbox = b"\0" * min(CHUNK, visitor.download)
            visitor.download -= len(visitor.outbox)
        if visitor.outbox:
            sent = visitor.sock.send(visitor.outbox)
            visitor.outbox = visitor.outbox[sent:]
        more = visitor.outbox or (visitor.node and not visitor.upload and visitor.download)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0)
        if wanted != visitor.wanted:  # of thousands of connections, each a call of the kernel
            visitor.wanted = wanted
            self.selector.modify(visitor.sock, wanted, visitor)

    def report(self) -> dict[str, Any]:
        """Say what was seen."""
        return {
            "proved": self.proved,
            "refused": self.refused,
            "strangers": self.strangers,
            "asked": by_pair(self.asked),
            "answered": by_pair(self.answered),
            "lost": self.lost,
            "counters": {n: v - self.before.get(n, 0) for n, v in counters().items()},
        }

    def command(self, control: socket.socket) -> None:
        """Answer on the control socket, which only root can open; ``stop`` ends the service."""
        try:
            caller, _ = control.accept()
        except OSError:
            return
        with contextlib.suppress(OSError):
            caller.settimeout(2.0)
            self.running = caller.recv(64).strip() != b"stop"
            caller.sendall(json.dumps(self.report()).encode())
        caller.close()


def open_control(path: str) -> socket.socket:
    """Make the socket through which the listeners are stopped."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(path)
    control.listen(8)
    control.setblocking(False)
    return control


def start_listeners(spec: Spec) -> dict[str, Any]:
    """Open everything, leave a server behind, return the ports."""
    address = str(spec["address"])
    socks, ports = [], []
    for opened, described in (
        open_samples(address, int(spec["samples"])),
        open_named(address, spec["named"]),
        open_outside(address, spec["allowed"]) if spec["outside"] else ([], []),
        open_spread(address, spec.get("spread", [])),
    ):
        socks += opened
        ports += described
    tap = open_tap(str(spec["interface"]), family_of(address)) if spec["interface"] else None
    control = open_control(os.path.join(run_directory(str(spec["run"]), spec["base"]), CONTROL))
    kept = socks + [control] + ([tap] if tap else [])

    def work() -> None:
        server = Server(spec, socks, control)
        if tap:
            server.add_tap(tap)
        server.serve()
        if server.running:  # nobody came to stop us
            drop_run_directory(str(spec["run"]), spec["base"])

    detach(work, [sock.fileno() for sock in kept])
    for sock in kept:
        sock.close()
    return {"ports": ports, "tapped": tap is not None}


def stop_listeners(run: str, base: str) -> dict[str, Any]:
    """Stop the server and return what it saw; empty when it is not there any more."""
    path = os.path.join(run_directory(run, base), CONTROL)
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.settimeout(5.0)
    said = b""
    try:
        caller.connect(path)
        caller.sendall(b"stop\n")
        while True:
            chunk = caller.recv(CHUNK)
            if not chunk:
                break
            said += chunk
        os.unlink(path)
    except OSError:
        pass
    finally:
        caller.close()
    report = json.loads(said.decode()) if said else {}
    return report if isinstance(report, dict) else {}
