# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Try RDMA between two nodes: exchange messages between a device here and a device of a peer.

The two ends agree over a connection to one of the probe's listeners, which authenticates both (handshake.py). Then:

client: ``{"device": ..., "port": ..., "gid": ..., "offer": ...}``    the peer's device, and the own queue pair
server: ``{"offer": ...}``                                            its queue pair, which is connected already
both:   messages over RDMA in turn, in both directions, each with data that only this run can know
both:   ``{"step": ..., "error": ..., "count": ...}``                 the step that failed, and the messages that came

Each try runs in a process of its own. It ends at its deadline, it holds at most 2 MiB of registered memory, and a crash
in a device's library costs only this try. Runs on nodes: standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import select
import signal
import socket
import time
from functools import partial
from typing import TYPE_CHECKING

from ..facts.sockets import find_address_family
from ..foreign_text import parse_foreign_json
from ..survey.job import list_gids
from ..survey.net import read_kernel_file
from . import verbs
from .handshake import LINE_LIMIT, format_client_line, parse_hello_line, parse_ok_line
from .verbs import Connection, PeerQueue, VerbsError

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..schema.ladder import ProbeOrigin, RdmaEnd, RdmaResult, RdmaTarget

BASE = "/sys/class/infiniband"
SMALL, LARGE = 64, 1 << 20
SIZES = (SMALL,) * 8 + (LARGE,) * 2
SILENT_SECONDS = 6.0  # for one message; the device reports a path that drops packets after 2 s
SECONDS = 20.0  # for one try on a busy machine
PATIENCE = 2.0  # after that, the process of a try is ended
AT_ONCE = 4
SERVED_MOST = 16
BUDGET = 15.0  # no tries of a node start after that; they are reported as not tried
UNREACHED = {"rtr", "send", "receive", "deadline"}
GID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")  # as in sysfs
MTUS = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "rx_icrc_encapsulated",
    # the names of soft-RoCE
    "out_of_seq_request",
    "rcvd_seq_err",
    "rcvd_rnr_err",
    "retry_exceeded_err",
)
ERROR_MOST = 80


class RdmaStepError(Exception):
    """A step of this program failed. *step* and *error* are the result's."""

    def __init__(self, step: str, error: str = "") -> None:
        super().__init__(step, error)
        self.step, self.error = step, error


def make_end(step: str = "", error: str = "", count: int = 0) -> RdmaEnd:
    """Describe the outcome at one end. ``step``: the step that failed, "" for none."""
    return {"step": step, "error": error, "count": count}


def find_gid_index(folder: str, gid: str) -> int:
    """Return the entry of a port's GID table with a GID: of RoCE v2, or of InfiniBand.

    Raises:
        RdmaStepError: ``gid`` if there is none, ``gid_type`` if it exists for RoCE v1 only.
    """
    found = [one for one in list_gids(folder) if one["gid"] == gid]
    if not found:
        raise RdmaStepError("gid")
    ethernet = read_kernel_file(folder + "/link_layer") == "Ethernet"
    for one in found:
        if not ethernet or "v2" in one["type"]:
            return one["index"]
    raise RdmaStepError("gid_type", found[0]["type"])


def make_connection(device: str, port: int, gid: str) -> tuple[Connection, int]:
    """Open a device and make a queue pair. Return it, and the entry of the GID table.

    Raises:
        RdmaStepError, VerbsError: the failed step.
    """
    folder = f"{BASE}/{device}/ports/{port}"
    if "/" in device or not os.path.isdir(folder):
        raise RdmaStepError("device", "ENODEV")
    state = read_kernel_file(folder + "/state").split(":")[-1].strip()
    if state != "ACTIVE":
        raise RdmaStepError("port_down", state)
    index = find_gid_index(folder, gid)
    return Connection(device, port, LARGE), index


def make_offer(made: Connection, gid: str, psn: int) -> dict[str, Any]:
    """Return the values that the peer needs."""
    return {
        "gid": gid,
        "lid": made.attributes.lid,
        "number": made.number,
        "psn": psn,
        "mtu": made.attributes.active_mtu,
    }


def parse_offer(said: Any) -> PeerQueue:
    """Parse the values of the peer.

    Raises:
        RdmaStepError: ``exchange``, if they are damaged.
    """
    held = said if isinstance(said, dict) else {}
    values = [held.get(key) for key in ("lid", "number", "psn", "mtu")]
    numbers = [one for one in values if isinstance(one, int) and 0 <= one < 1 << 24]
    gid = held.get("gid")
    if len(numbers) < len(values):
        raise RdmaStepError("exchange", "EPROTO")
    if not isinstance(gid, str) or not GID.fullmatch(gid):
        raise RdmaStepError("exchange", "EPROTO")
    return PeerQueue(gid, *numbers)


class ExchangeLines:
    """Lines of JSON over the connection between both ends."""

    def __init__(self, sock: socket.socket, deadline: float, rest: bytes = b"") -> None:
        self.sock, self.deadline, self.inbox = sock, deadline, rest

    def write(self, value: Any) -> None:
        """Send a line."""
        self.sock.settimeout(max(0.01, self.deadline - time.monotonic()))
        self.sock.sendall(json.dumps(value).encode() + b"\n")

    def read_line(self) -> bytes:
        """Read a line.

        Raises:
            RdmaStepError: ``exchange``, if none comes.
        """
        while b"\n" not in self.inbox:
            self.sock.settimeout(max(0.01, self.deadline - time.monotonic()))
            data = self.sock.recv(LINE_LIMIT)
            if not data or len(self.inbox) > LINE_LIMIT:
                raise RdmaStepError("exchange", "ECONNRESET")
            self.inbox += data
        line, _, self.inbox = self.inbox.partition(b"\n")
        return line

    def read(self) -> dict[str, Any]:
        """Read a line with an object."""
        try:
            said = parse_foreign_json(self.read_line(), most_bytes=LINE_LIMIT)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise RdmaStepError("exchange", "EPROTO")
        return said

    def has_news(self) -> bool:
        """Return whether the peer has sent a line or is gone."""
        return bool(self.inbox) or bool(select.select([self.sock], [], [], 0)[0])


def make_pattern(seed: str, number: int, size: int) -> bytes:
    """Return the data of a message, which depends on its run, direction and number."""
    return hashlib.shake_128(f"{seed}/{number}".encode()).digest(size)


class Exchange:
    """The messages of one try, at one end."""

    def __init__(self, made: Connection, seed: str, first: bool, deadline: float) -> None:
        self.made, self.seed, self.first, self.deadline = made, seed, first, deadline
        self.count = 0  # messages that came
        self.small = self.took = 0.0

    def receive(self, number: int, size: int) -> None:
        """Receive a message, and compare its data."""
        data = self.made.receive_message(self.get_deadline())
        self.count += 1
        side = "server" if self.first else "client"
        if data != make_pattern(f"{self.seed} {side}", number, size):
            raise RdmaStepError("data", f"message {number + 1} of {size} bytes")

    def send(self, number: int, size: int) -> None:
        """Send a message."""
        side = "client" if self.first else "server"
        self.made.send_message(
            make_pattern(f"{self.seed} {side}", number, size), self.get_deadline()
        )

    def get_deadline(self) -> float:
        """Return the time at which the next message counts as lost."""
        return min(self.deadline, time.monotonic() + SILENT_SECONDS)

    def run(self) -> None:
        """Exchange all messages. The first receive must be posted already.

        Raises:
            RdmaStepError, VerbsError: the failed step.
        """
        for number, size in enumerate(SIZES):
            begun = time.monotonic()
            if self.first:
                self.send(number, size)
            self.receive(number, size)
            if number + 1 < len(SIZES):
                self.made.expect_message(LARGE)
            if not self.first:
                self.send(number, size)
            took = time.monotonic() - begun
            if size == SMALL:
                self.small = min(self.small or took, took)
            else:
                self.took = min(self.took or took, took)


def describe_failure(error: Exception) -> tuple[str, str]:
    """Return the step that failed and its error."""
    if isinstance(error, RdmaStepError):
        return error.step, error.error[:ERROR_MOST]
    if isinstance(error, VerbsError):
        return error.step, verbs.describe_number(error.step, error.number)[:ERROR_MOST]
    if isinstance(error, OSError):
        name = "ETIMEDOUT" if isinstance(error, socket.timeout) else type(error).__name__
        return "exchange", name
    return "failed", type(error).__name__


def exchange_messages(
    lines: ExchangeLines, made: Connection, seed: str, first: bool
) -> tuple[RdmaEnd, RdmaEnd, Exchange]:
    """Exchange the messages, tell the peer the outcome, and return both outcomes."""
    talk = Exchange(made, seed, first, lines.deadline - 1.0)
    made.is_over = lines.has_news
    own = make_end()
    try:
        talk.run()
    except (RdmaStepError, VerbsError) as error:
        own = make_end(*describe_failure(error))
    own["count"] = talk.count
    lines.write(own)
    peer = parse_end(lines.read())
    if is_late_acknowledgement(own, peer):
        own = make_end(count=talk.count)
    elif is_late_acknowledgement(peer, own):
        peer = make_end(count=peer["count"])
    return own, peer, talk


def is_late_acknowledgement(end: RdmaEnd, other: RdmaEnd) -> bool:
    """Return whether an end only missed the last acknowledgement, because the other one already said that it is done.

    All messages have arrived then.
    """
    done = make_end(count=len(SIZES))
    return other == done and end == {**done, "step": "send"}


def parse_end(said: dict[str, Any]) -> RdmaEnd:
    """Return the peer's outcome, cut to its limits."""
    step, error, count = (said.get(key) for key in ("step", "error", "count"))
    return make_end(
        str(step or "")[:ERROR_MOST],
        str(error or "")[:ERROR_MOST],
        count if isinstance(count, int) and 0 <= count <= len(SIZES) else 0,
    )


def serve_exchange(sock: socket.socket, rest: bytes, token: str) -> None:
    """Do the server's part of a try. *rest*: what has been read already."""
    lines = ExchangeLines(sock, time.monotonic() + SECONDS, rest)
    asked = lines.read()
    psn = random.getrandbits(24)
    try:
        device, port, gid = (asked.get(key) for key in ("device", "port", "gid"))
        peer = parse_offer(asked.get("offer"))
        if not isinstance(device, str) or not isinstance(port, int) or not isinstance(gid, str):
            raise RdmaStepError("exchange", "EPROTO")
        made, index = make_connection(device, port, gid)
        made.connect(index, psn, peer)
        made.expect_message(LARGE)
    except (RdmaStepError, VerbsError) as error:
        lines.write(make_end(*describe_failure(error)))
        return
    lines.write({"offer": make_offer(made, gid, psn)})
    exchange_messages(lines, made, make_seed(token, peer.number, made.number), first=False)


def make_seed(token: str, client: int, server: int) -> str:
    """Return the seed of the data, which no other run has."""
    return f"{token} {client} {server}"


def open_exchange(target: RdmaTarget, me: ProbeOrigin, deadline: float) -> ExchangeLines:
    """Connect to the peer's listener, and authenticate both ends.

    Raises:
        RdmaStepError: ``exchange``.
    """
    sock = socket.socket(find_address_family(target["address"]), socket.SOCK_STREAM)
    sock.settimeout(max(0.01, deadline - time.monotonic()))
    sock.connect((target["address"], target["tcp_port"]))
    lines = ExchangeLines(sock, deadline)
    hello = parse_hello_line(lines.read_line())
    if hello is None or hello[0] != target["node"]:
        raise RdmaStepError("exchange", "EPROTO")
    nonce = f"{random.getrandbits(128):032x}"
    sock.sendall(format_client_line(me["token"], me["node"], hello[1], nonce, 0))
    if parse_ok_line(lines.read_line(), me["token"], target["node"], hello[1], nonce) is None:
        raise RdmaStepError("exchange", "EACCES")
    return lines


def try_target(target: RdmaTarget, me: ProbeOrigin) -> RdmaResult:
    """Do the client's part of a try."""
    deadline = time.monotonic() + SECONDS
    psn = random.getrandbits(24)
    result = describe_untried(target, "")
    try:
        made, index = make_connection(target["device"], target["port"], target["gid"])
        result["mtu"] = MTUS.get(made.attributes.active_mtu, 0)
        lines = open_exchange(target, me, deadline)
        lines.write(
            {
                "device": target["peer_device"],
                "port": target["peer_port"],
                "gid": target["peer_gid"],
                "offer": make_offer(made, target["gid"], psn),
            }
        )
        said = lines.read()
        if "offer" not in said:
            result["peer"] = parse_end(said)
            return result
        peer = parse_offer(said["offer"])
        result["peer_mtu"] = MTUS.get(peer.mtu, 0)
        made.connect(index, psn, peer)
        made.expect_message(LARGE)
        seed = make_seed(me["token"], made.number, peer.number)
        result["own"], result["peer"], talk = exchange_messages(lines, made, seed, first=True)
        result["small_us"] = round(talk.small * 1e6, 1)
        result["large_us"] = round(talk.took * 1e6, 1)
    except (RdmaStepError, VerbsError, OSError, ValueError) as error:
        result["own"] = make_end(*describe_failure(error))
    return result


def describe_untried(target: RdmaTarget, step: str, error: str = "") -> RdmaResult:
    """Describe a try without an outcome."""
    return {
        "node": target["node"],
        "device": target["device"],
        "port": target["port"],
        "gid": target["gid"],
        "peer_device": target["peer_device"],
        "peer_port": target["peer_port"],
        "peer_gid": target["peer_gid"],
        "spare": target["spare"],
        "own": make_end(step, error),
        "peer": make_end(),
        "mtu": 0,
        "peer_mtu": 0,
        "small_us": 0.0,
        "large_us": 0.0,
    }


def run_apart(work: Callable[[], Any]) -> tuple[int, int]:
    """Run *work* in a child process with a deadline of its own. Return its id, and where its result can be read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, SECONDS + PATIENCE)
        said = json.dumps(work()).encode()
        while said:
            said = said[os.write(writing, said) :]
    finally:
        os._exit(
            0
        )  # never back into Ansible's wrapper, which removes files that its first copy needs


def read_apart(child: int, reading: int, target: RdmaTarget) -> RdmaResult:
    """Return the result of a child that has ended or has closed its end."""
    said = b""
    with contextlib.suppress(OSError), os.fdopen(reading, "rb") as stream:
        said = stream.read(LINE_LIMIT * 4)
    status = os.waitpid(child, 0)[1]
    with contextlib.suppress(ValueError):  # it may have ended in the middle of its line
        result: RdmaResult = json.loads(said)
        return result
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        step = "deadline" if number == signal.SIGALRM else "crashed"
        return describe_untried(target, step, signal.Signals(number).name)
    return describe_untried(target, "crashed")


def is_unreached(result: RdmaResult) -> bool:
    """Return whether no message came through, so that the cables may be swapped."""
    steps = {result["own"]["step"], result["peer"]["step"]}
    return bool(steps & UNREACHED) and not result["own"]["count"] + result["peer"]["count"]


def try_pairs(targets: list[RdmaTarget], me: ProbeOrigin) -> list[RdmaResult]:
    """Try all pairs, then the spare ones of devices that did not reach their peer."""
    ends = time.monotonic() + BUDGET
    found = try_targets([one for one in targets if not one["spare"]], me, ends)
    lost = {(one["node"], one["device"]) for one in found if is_unreached(one)}
    spare = [one for one in targets if one["spare"] and (one["node"], one["device"]) in lost]
    return found + try_targets(spare, me, ends)


def try_targets(targets: list[RdmaTarget], me: ProbeOrigin, ends: float) -> list[RdmaResult]:
    """Try targets, a few at a time. Those that do not start in time are reported as not tried."""
    waiting = targets[::-1]
    running: dict[int, tuple[int, RdmaTarget]] = {}
    found: list[RdmaResult] = []
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            target = waiting.pop()
            if time.monotonic() > ends:
                found.append(describe_untried(target, "not_tried"))
                continue
            child, reading = run_apart(partial(try_target, target, me))
            running[reading] = (child, target)
        for reading in select.select(list(running), [], [], 1.0)[0] if running else []:
            child, target = running.pop(reading)
            found.append(read_apart(child, reading, target))
    return found


def read_counters(targets: list[RdmaTarget]) -> dict[str, int]:
    """Return the error counters of the devices that take part: ``mlx5_0:1 out_of_sequence`` -> count."""
    found: dict[str, int] = {}
    for device, port in sorted({(one["device"], one["port"]) for one in targets}):
        for name in COUNTERS:
            text = read_kernel_file(f"{BASE}/{device}/ports/{port}/hw_counters/{name}")
            if text.isdecimal():
                found[f"{device}:{port} {name}"] = int(text)
    return found


class ExchangeServers:
    """The processes that do the server's part of tries."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.children: set[int] = set()

    def start(self, sock: socket.socket, rest: bytes) -> None:
        """Serve one client in a process of its own, unless there are too many."""
        self.reap()
        if len(self.children) >= SERVED_MOST:
            return
        child = os.fork()
        if child:
            self.children.add(child)
            return
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, SECONDS + PATIENCE)
            sock.setblocking(True)
            serve_exchange(sock, rest, self.token)
        except (RdmaStepError, OSError, ValueError):
            pass  # the client reports it
        finally:
            os._exit(0)

    def reap(self) -> None:
        """Forget processes that have ended."""
        for child in list(self.children):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(child, os.WNOHANG)[0] == 0:
                    continue
            self.children.discard(child)
