"""Run look-alike listeners of Gloo, NCCL and TCPStore on one node for the duration of a probe.

The module binds the sockets, so that failures are reported at once, and a detached process serves them. A packet tap
sees handshakes on the wire: incoming ones before this node's firewall, outgoing ones after it. The taps of both ends
together show which node blocks a packet.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import socket
import struct
import time
from typing import TYPE_CHECKING, TypedDict

from ..detach import remove_run_directory, run_detached, run_directory
from ..facts.sockets import (
    count_lost_segments,
    find_address_family,
    read_tcp_info,
)
from ..foreign_text import parse_tool_json
from ..lease import POLL_SECONDS, is_lease_lost
from ..survey.net import read_network_counters
from .bound import (
    open_named_ports,
    open_outside_port,
    open_rail_ports,
    open_range_ports,
    open_sample_ports,
)
from .drops import DropTracer
from .handshake import (
    LINE_LIMIT,
    format_hello_line,
    format_ok_line,
    parse_client_line,
)
from .tap import group_ports_by_pair, open_tap, parse_handshake

if TYPE_CHECKING:
    from ..schema.ladder import (
        ListenerReport,
        NamedPort,
        OpenedListeners,
        ProbePort,
        RailAddress,
    )
    from .rdma import ExchangeServers

CONNECTION_SECONDS = 15.0
CHUNK = 65536
CONTROL = "listeners.sock"
STRANGERS_NAMED = 20
INFINIBAND = "/sys/class/infiniband"

FLOWS_KEPT = 200000  # a scan must not fill the memory


class ListenerSpec(TypedDict):
    """The listeners to open, and their allowed clients.

    Attributes:
        run: its directory below *base* has the control socket.
        token: clients prove with it that they belong to the run.
        node: the name of this node.
        address: of the plan.
        interface: its handshakes are recorded, "" for none.
        samples: the number of ports that the kernel chooses.
        named: ports of the plan.
        spread: ports of the data range.
        outside: whether to open one port outside the *allowed* ranges as well.
        peers: addresses whose handshakes count.
        lifetime: seconds until everything ends by itself.
        leased: whether it also ends with the run's lease.
        rails: addresses on rails, each with one more listener.
    """

    run: str
    base: str
    token: str
    node: str
    address: str
    interface: str
    samples: int
    named: list[NamedPort]
    outside: bool
    allowed: list[list[int]]
    lifetime: float
    leased: bool
    spread: list[int]
    peers: list[str]
    rails: list[RailAddress]


class ListenerConnection:
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
        self.wanted = (
            selectors.EVENT_READ | selectors.EVENT_WRITE
        )  # the events that the selector watches for


class ListenerServer:
    """Serves the listeners until a stop command comes or its time is over."""

    def __init__(
        self,
        spec: ListenerSpec,
        socks: list[socket.socket],
        control: socket.socket,
        exchanges: ExchangeServers | None = None,
    ) -> None:
        self.token = spec["token"]
        self.node = spec["node"]
        self.ends = time.monotonic() + spec["lifetime"]
        self.folder = run_directory(spec["run"], spec["base"]) if spec["leased"] else ""
        self.proved: dict[str, int] = {}
        self.strangers: list[str] = []
        self.refused = 0
        self.before = read_network_counters()
        self.drops = DropTracer()
        self.lost: dict[str, list[int]] = {}
        self.peers = set(spec["peers"])
        self.asked: set[tuple[str, str, int]] = set()
        self.answered: set[tuple[str, str, int]] = set()
        self.running = True
        self.selector = selectors.DefaultSelector()
        for sock in socks:
            self.selector.register(sock, selectors.EVENT_READ, self.welcome)
        self.selector.register(control, selectors.EVENT_READ, self.command)
        self.visitors: set[ListenerConnection] = set()
        self.exchanges = exchanges

    def add_tap(self, tap: socket.socket) -> None:
        """Record handshakes from now on."""
        self.selector.register(tap, selectors.EVENT_READ, self.count)

    def serve(self) -> None:
        """Run the event loop."""
        swept = time.monotonic()
        while self.running and time.monotonic() < self.ends:
            for key, events in self.selector.select(POLL_SECONDS):
                if isinstance(key.data, ListenerConnection):
                    self.attend(key.data, events)
                else:
                    key.data(key.fileobj)
            now = time.monotonic()
            if now - swept >= POLL_SECONDS:
                swept = now
                if self.folder and is_lease_lost(self.folder):
                    return
                for visitor in [v for v in self.visitors if now > v.deadline]:
                    self.leave(visitor)

    def count(self, tap: socket.socket) -> None:
        """Record handshakes between peers on the wire, outside of this node's firewall, in both directions."""
        for _ in range(256):
            try:
                packet, where = tap.recvfrom(128)
            except OSError:
                return
            if where[2] == socket.PACKET_OTHERHOST:
                continue  # a switch that has not learned the address also sends frames for other interfaces
            seen = parse_handshake(packet)
            if seen and seen[0] in self.peers and seen[1] in self.peers:
                kept = self.answered if seen[3] else self.asked
                if len(kept) < FLOWS_KEPT:
                    kept.add(seen[:3])

    def welcome(self, listener: socket.socket) -> None:
        """Accept all waiting clients and send the hello line."""
        for _ in range(256):
            try:
                sock, where = listener.accept()
            except OSError:
                return
            sock.setblocking(False)
            source = str(where[0])
            visitor = ListenerConnection(sock, source, time.monotonic() + CONNECTION_SECONDS)
            visitor.outbox = format_hello_line(self.node, visitor.nonce, time.time())
            self.visitors.add(visitor)
            self.selector.register(sock, visitor.wanted, visitor)

    def leave(self, visitor: ListenerConnection, rude: bool = False) -> None:
        """Close a connection. *rude*: with a reset, for clients that do not belong to the run."""
        self.visitors.discard(visitor)
        self.count_lost(visitor)
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(visitor.sock)
        if rude:
            linger = struct.pack("ii", 1, 0)
            with contextlib.suppress(OSError):
                visitor.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        visitor.sock.close()

    def count_lost(self, visitor: ListenerConnection) -> None:
        """Count retransmissions on completed connections. Stalled connections are judged elsewhere."""
        if not visitor.node or visitor.upload or visitor.download or visitor.outbox:
            return
        info = read_tcp_info(visitor.sock)
        if not info["unacked"]:
            kept = self.lost.setdefault(visitor.node, [0, 0])
            kept[0] += count_lost_segments(info)
            kept[1] += info["segs_out"]

    def attend(self, visitor: ListenerConnection, events: int) -> None:
        """Read and write as much as possible now."""
        try:
            if events & selectors.EVENT_READ:
                self.listen_to(visitor)
            if visitor in self.visitors:
                self.speak_to(visitor)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.leave(visitor)

    def listen_to(self, visitor: ListenerConnection) -> None:
        """Read the greeting, then the payload."""
        data = visitor.sock.recv(CHUNK)
        if not data:
            self.leave(visitor)
        elif visitor.node:
            visitor.deadline = time.monotonic() + CONNECTION_SECONDS
            if self.exchanges and data.startswith(b"{"):  # a payload is zeros
                self.exchanges.start(visitor.sock, data)
                self.leave(visitor)
            else:
                self.take_payload(visitor, len(data))
        else:
            visitor.inbox += data
            line, found, rest = visitor.inbox.partition(b"\n")
            if found:
                self.check_introduction(visitor, line, len(rest))
            elif len(visitor.inbox) > LINE_LIMIT:
                self.refuse(visitor)

    def refuse(self, visitor: ListenerConnection) -> None:
        """Reject a client that does not belong to this run."""
        self.refused += 1
        if visitor.source not in self.strangers and len(self.strangers) < STRANGERS_NAMED:
            self.strangers.append(visitor.source)
        self.leave(visitor, rude=True)

    def check_introduction(self, visitor: ListenerConnection, line: bytes, extra: int) -> None:
        """Accept the probes of this run."""
        said = parse_client_line(line, self.token, visitor.nonce)
        if said is None:
            self.refuse(visitor)
            return
        visitor.node, theirs, visitor.upload = said
        visitor.download = visitor.upload
        self.proved[visitor.node] = self.proved.get(visitor.node, 0) + 1
        visitor.outbox += format_ok_line(
            self.token, self.node, visitor.nonce, theirs, visitor.source
        )
        self.take_payload(visitor, extra)

    @staticmethod
    def take_payload(visitor: ListenerConnection, size: int) -> None:
        """Count the probe's bytes."""
        visitor.upload = max(0, visitor.upload - size)

    def speak_to(self, visitor: ListenerConnection) -> None:
        """Send lines, then, after the whole upload has arrived, the payload back."""
        if not visitor.outbox and visitor.node and not visitor.upload and visitor.download:
            visitor.outbox = b"\0" * min(CHUNK, visitor.download)
            visitor.download -= len(visitor.outbox)
        if visitor.outbox:
            # If tcp_wmem is a few hundred bytes, the buffer is full until the last line is acknowledged: wait for room
            with contextlib.suppress(BlockingIOError, InterruptedError):
                visitor.outbox = visitor.outbox[visitor.sock.send(visitor.outbox) :]
        more = visitor.outbox or (visitor.node and not visitor.upload and visitor.download)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0)
        if wanted != visitor.wanted:  # of thousands of connections, each a call of the kernel
            visitor.wanted = wanted
            self.selector.modify(visitor.sock, wanted, visitor)

    def report(self) -> ListenerReport:
        """Return the observations."""
        said: ListenerReport = {
            "proved": self.proved,
            "refused": self.refused,
            "strangers": self.strangers,
            "asked": group_ports_by_pair(self.asked),
            "answered": group_ports_by_pair(self.answered),
            "lost": self.lost,
            "counters": {n: v - self.before.get(n, 0) for n, v in read_network_counters().items()},
        }
        thrown = self.drops.end()
        if thrown:
            said["drops"] = thrown
        return said

    def command(self, control: socket.socket) -> None:
        """Answer on the control socket, which only root can open. ``stop`` ends the service."""
        try:
            caller, _ = control.accept()
        except OSError:
            return
        with contextlib.suppress(OSError):
            caller.settimeout(2.0)
            self.running = caller.recv(64).strip() != b"stop"
            caller.sendall(json.dumps(self.report()).encode())
        caller.close()


def open_control_socket(path: str) -> socket.socket:
    """Create the socket that stops the listeners."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.bind(path)
    control.listen(8)
    control.setblocking(False)
    return control


def prepare_exchanges(token: str, base: str = INFINIBAND) -> ExchangeServers | None:
    """Prepare for tries of RDMA if this node has devices. Other nodes do not load the code."""
    if not os.path.isdir(base) or not os.listdir(base):
        return None
    # before the module ends, which removes its archive
    from .rdma import ExchangeServers  # noqa: PLC0415 (few nodes have RDMA)

    return ExchangeServers(token)


def start_listeners(spec: ListenerSpec) -> OpenedListeners:
    """Open all listeners, leave a server running, and return the ports."""
    address = spec["address"]
    socks: list[socket.socket] = []
    ports: list[ProbePort] = []
    for opened, described in (
        open_sample_ports(address, spec["samples"]),
        open_named_ports(address, spec["named"]),
        open_outside_port(address, spec["allowed"]) if spec["outside"] else ([], []),
        open_range_ports(address, spec["spread"]),
    ):
        socks += opened
        ports += described
    rail_socks, rails = open_rail_ports(spec["rails"])
    socks += rail_socks
    tap = open_tap(spec["interface"], find_address_family(address)) if spec["interface"] else None
    control = open_control_socket(os.path.join(run_directory(spec["run"], spec["base"]), CONTROL))
    kept = socks + [control] + ([tap] if tap else [])
    exchanges = prepare_exchanges(spec["token"])

    def work() -> None:
        server = ListenerServer(spec, socks, control, exchanges)
        if tap:
            server.add_tap(tap)
        try:
            server.serve()
        finally:
            server.drops.end()
        if server.running:  # no stop command came
            remove_run_directory(spec["run"], spec["base"])

    run_detached(work, [sock.fileno() for sock in kept])
    for sock in kept:
        sock.close()
    return {"ports": ports, "tapped": tap is not None, "rails": rails}


def filter_listener_report(seen: ListenerReport, about: dict[str, str]) -> ListenerReport:
    """Reduce a report to some peers (name -> address).

    Healthy peers only keep their losses.

    With 1,000 peers the whole report is 200,000 characters per node.
    """
    addresses = set(about.values())

    def told(flows: dict[str, list[int]]) -> dict[str, list[int]]:
        return {pair: ports for pair, ports in flows.items() if addresses & set(pair.split(">"))}

    lost = seen.get("lost", {})
    made: ListenerReport = {
        **seen,
        "proved": {name: count for name, count in seen["proved"].items() if name in about},
        "asked": told(seen["asked"]),
        "answered": told(seen["answered"]),
        "lost": {name: held for name, held in lost.items() if name in about or held[0]},
    }
    return made


def stop_listeners(run: str, base: str) -> ListenerReport | None:
    """Stop the server and return its report, or None if it is gone."""
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
    report: ListenerReport | None = parse_tool_json(said.decode()) if said else None
    return report
