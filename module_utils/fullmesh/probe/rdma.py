# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Try RDMA between two nodes: exchange messages between a device here and a device of a peer.

The two ends agree over a connection to one of the probe's listeners, which authenticates both (handshake.py). Then:

client: ``{"device": ..., "port": ..., "gid": ..., "offer": ...}``    the peer's device, and the own queue pair.
        ``"rate": true`` asks for a stream: then the client sends messages only, and its outcome ends the stream.
server: ``{"offer": ...}``                                            its queue pair, which is connected already
both:   messages over RDMA in turn, in both directions, each with data that only this run can know
both:   ``{"step": ..., "error": ..., "count": ...}``                 the step that failed, and the messages that came

Each try runs in a process of its own. It ends at its deadline, it registers 2 MiB of memory at most, and a crash in a
device's library costs only this try. Runs on nodes: standard library only.
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

from ..detach import drop_descriptors_except
from ..facts.nic_counters import read_losses
from ..facts.sockets import find_address_family
from ..foreign_text import parse_decimal, parse_foreign_json
from ..schema.ladder import RDMA_LARGE_COUNT, RDMA_SMALL_COUNT
from ..survey.job import list_gids
from ..survey.net import read_kernel_file
from . import verbs
from .handshake import LINE_LIMIT, format_client_line, parse_hello_line, parse_ok_line
from .verbs import Connection, PeerQueue, VerbsError

if TYPE_CHECKING:
    from typing import Any, Callable

    from ..schema.ladder import ProbeOrigin, RdmaEnd, RdmaProbe, RdmaResult, RdmaTarget

BASE = "/sys/class/infiniband"
SMALL, LARGE = 64, 1 << 20
SIZES = (SMALL,) * RDMA_SMALL_COUNT + (LARGE,) * RDMA_LARGE_COUNT
SILENT_SECONDS = 6.0  # for one message; the device reports a path that drops packets after 2 s
OUTCOME_SECONDS = 2.0  # to exchange the outcomes
SECONDS = 16.0  # for one try at each end, and the least for all tries of a node
LEAST = 8.0  # a try that would have less time is not made, because one on a path that drops packets takes so long
RATE_SECONDS = 0.3  # for the rate of one pair
PATIENCE = 1.0  # after that, the kernel ends the process of a try, and after twice that, nobody waits for it
AT_ONCE, RATES_AT_ONCE = 4, 8  # NCCL uses all NICs of a node at the same time too
SERVED_MOST = 16
UNREACHED = {"rtr", "send", "receive"}
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
STEP, ERROR = re.compile(r"[a-z_]{0,20}"), re.compile(rf"[ -~]{{0,{ERROR_MOST}}}")


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
    """Return the values that the peer needs (parse_offer)."""
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
    gid, mtu = held.get("gid"), parse_number(held.get("mtu"), 3)
    if not isinstance(gid, str) or not GID.fullmatch(gid) or mtu not in MTUS:
        raise RdmaStepError("exchange", "EPROTO")
    lid, number, psn = (
        parse_number(held.get(key), bits)
        for key, bits in (("lid", 16), ("number", 24), ("psn", 24))
    )
    return PeerQueue(gid, lid, number, psn, mtu)


def parse_number(value: Any, bits: int) -> int:
    """Return a number of the peer that has at most so many bits.

    Raises:
        RdmaStepError: ``exchange``, if it is something else.
    """
    if type(value) is not int or not 0 <= value < 1 << bits:
        raise RdmaStepError("exchange", "EPROTO")
    return value


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
            if self.first:
                self.send(number, size)
            self.receive(number, size)
            if number + 1 < len(SIZES):
                self.made.expect_message(LARGE)
            if not self.first:
                self.send(number, size)


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
) -> tuple[RdmaEnd, RdmaEnd]:
    """Exchange the messages, tell the peer the outcome, and return both outcomes.

    Raises:
        RdmaStepError, OSError: the peer's outcome does not come, and without it the own one shows no cause.
    """
    talk = Exchange(made, seed, first, lines.deadline - OUTCOME_SECONDS)
    made.is_over = lines.has_news
    own = make_end()
    try:
        talk.run()
    except (RdmaStepError, VerbsError) as error:
        own = make_end(*describe_failure(error))
    own["count"] = talk.count
    try:
        lines.write(own)
        peer = parse_end(lines.read())
    except (RdmaStepError, OSError) as error:
        if own["step"] in ("", "receive") and not own["error"]:
            raise
        peer = make_end(*describe_failure(error))
    if is_late_acknowledgement(own, peer):
        own = make_end(count=talk.count)
    elif is_late_acknowledgement(peer, own):
        peer = make_end(count=peer["count"])
    return own, peer


def is_late_acknowledgement(end: RdmaEnd, other: RdmaEnd) -> bool:
    """Return whether an end only missed the last acknowledgement, because the other one already said that it is done.

    All messages have arrived then.
    """
    done = make_end(count=len(SIZES))
    return other == done and end == {**done, "step": "send"}


def parse_end(said: dict[str, Any]) -> RdmaEnd:
    """Parse the peer's outcome.

    Raises:
        RdmaStepError: ``exchange``, if it is damaged.
    """
    step, error, count = (said.get(key) for key in ("step", "error", "count"))
    if not isinstance(step, str) or not STEP.fullmatch(step):
        raise RdmaStepError("exchange", "EPROTO")
    if not isinstance(error, str) or not ERROR.fullmatch(error):
        raise RdmaStepError("exchange", "EPROTO")
    if type(count) is not int or not 0 <= count <= len(SIZES):
        raise RdmaStepError("exchange", "EPROTO")
    return make_end(step, error, count)


def serve_exchange(sock: socket.socket, rest: bytes, token: str) -> None:
    """Do the server's part of a try. *rest*: what has been read already."""
    lines = ExchangeLines(sock, time.monotonic() + SECONDS, rest)
    asked = lines.read()
    psn = random.getrandbits(24)
    try:
        device, gid, port = (
            asked.get("device"),
            asked.get("gid"),
            parse_number(asked.get("port"), 8),
        )
        peer = parse_offer(asked.get("offer"))
        if not isinstance(device, str) or not isinstance(gid, str):
            raise RdmaStepError("exchange", "EPROTO")
        made, index = make_connection(device, port, gid)
        made.connect(index, psn, peer)
        if asked.get("rate") is True:
            made.expect_stream(LARGE)
        else:
            made.expect_message(LARGE)
    except (RdmaStepError, VerbsError) as error:
        lines.write(make_end(*describe_failure(error)))
        return
    lines.write({"offer": make_offer(made, gid, psn)})
    if asked.get("rate") is True:
        made.is_over = lines.has_news
        with contextlib.suppress(VerbsError):  # the client reports it
            made.receive_stream(LARGE, lines.deadline)
        return
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


def try_target(
    target: RdmaTarget, me: ProbeOrigin, deadline: float, rate: bool = False
) -> RdmaResult:
    """Do the client's part of a try, or of a measurement of the *rate*."""
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
                **({"rate": True} if rate else {}),
            }
        )
        said = lines.read()
        if "offer" not in said:
            result["peer"] = parse_end(said)
            return result
        peer = parse_offer(said["offer"])
        result["peer_mtu"] = MTUS.get(peer.mtu, 0)
        made.connect(index, psn, peer)
        if rate:
            speed = made.send_stream(LARGE, RATE_SECONDS, deadline)
            result["mbit_s"] = round(speed * 8 / 1e6, 1)
            lines.write(make_end())
            return result
        made.expect_message(LARGE)
        seed = make_seed(me["token"], made.number, peer.number)
        result["own"], result["peer"] = exchange_messages(lines, made, seed, first=True)
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
    }


def end_at(deadline: float) -> None:
    """Let the kernel end this process soon after its deadline."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(0.01, deadline + PATIENCE - time.monotonic()))


def run_apart(work: Callable[[], Any], deadline: float) -> tuple[int, int]:
    """Run *work* in a child process that ends soon after the deadline. Return its id, and where to read its result.

    It does not hold the node's answer open if the driver hangs.
    """
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child:
        os.close(writing)
        return child, reading
    try:
        end_at(deadline)
        drop_descriptors_except([writing])
        said = json.dumps(work()).encode()
        while said:
            said = said[os.write(writing, said) :]
    finally:
        os._exit(0)  # never back into Ansible's wrapper, which removes files that its copy needs


def read_apart(child: int, reading: int, target: RdmaTarget) -> RdmaResult:
    """Return the result of a child that has written it or has ended."""
    said = b""
    with contextlib.suppress(OSError), os.fdopen(reading, "rb") as stream:
        said = stream.read(LINE_LIMIT * 4)
    status = wait_for_end(child, time.monotonic() + PATIENCE)
    with contextlib.suppress(ValueError):  # it may have ended in the middle of its line
        result: RdmaResult = json.loads(said)
        return result
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        step = "hung" if number == signal.SIGALRM else "crashed"
        return describe_untried(target, step, signal.Signals(number).name)
    return describe_untried(target, "crashed")


def wait_for_end(child: int, deadline: float) -> int:
    """Return the status of a child, or that of its alarm if the driver does not let it end until the deadline."""
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(verbs.POLL_LEAST)
    os.kill(child, signal.SIGKILL)
    return int(signal.SIGALRM)


def is_unreached(result: RdmaResult) -> bool:
    """Return whether no message came through, so that the cables may be swapped."""
    steps = {result["own"]["step"], result["peer"]["step"]}
    return bool(steps & UNREACHED) and not result["own"]["count"] + result["peer"]["count"]


def compute_end(count: int, limit: float) -> float:
    """Return the time at which *count* tries end if all of them fail, but not after *limit*."""
    rounds = (count + AT_ONCE - 1) // AT_ONCE
    return min(limit, time.monotonic() + max(SECONDS, rounds * LEAST + PATIENCE))


def try_pairs(targets: list[RdmaTarget], me: ProbeOrigin, limit: float) -> list[RdmaResult]:
    """Try all pairs, then the spare ones of devices that did not reach their peer. Stop at *limit*."""
    first = [one for one in targets if not one["spare"]]
    found = try_targets(first, me, compute_end(len(first), limit))
    lost = {(one["node"], one["device"]) for one in found if is_unreached(one)}
    spare = [one for one in targets if one["spare"] and (one["node"], one["device"]) in lost]
    return found + try_targets(spare, me, compute_end(len(spare), limit))


def try_targets(
    targets: list[RdmaTarget], me: ProbeOrigin, ends: float, rate: bool = False
) -> list[RdmaResult]:
    """Try targets, or measure their rates, until *ends*. Those that cannot start in time are reported as not tried."""
    waiting = targets[::-1]
    running: dict[int, tuple[int, RdmaTarget]] = {}
    found: list[RdmaResult] = []
    while waiting or running:
        while waiting and len(running) < (RATES_AT_ONCE if rate else AT_ONCE):
            target = waiting.pop()
            if time.monotonic() > ends - LEAST:
                found.append(describe_untried(target, "not_tried"))
                continue
            latest = min(ends, time.monotonic() + SECONDS)
            try:
                child, reading = run_apart(partial(try_target, target, me, latest, rate), latest)
            except OSError as error:
                found.append(describe_untried(target, "fork", verbs.name_errno(error.errno or 0)))
                continue
            running[reading] = (child, target)
        for reading in select.select(list(running), [], [], 0.5)[0] if running else []:
            child, target = running.pop(reading)
            found.append(read_apart(child, reading, target))
        if time.monotonic() > ends + 2 * PATIENCE:
            found += [end_hung(child, reading, one) for reading, (child, one) in running.items()]
            running.clear()
    return found


def end_hung(child: int, reading: int, target: RdmaTarget) -> RdmaResult:
    """Leave a child that the driver does not let end to the kernel."""
    os.kill(child, signal.SIGKILL)
    os.close(reading)
    return describe_untried(target, "hung", "SIGKILL")


def list_interfaces(target: RdmaTarget) -> list[str]:
    """Return the network interfaces that have a target's own address, according to the GID table."""
    folder = f"{BASE}/{target['device']}/ports/{target['port']}"
    entries = [one["index"] for one in list_gids(folder) if one["gid"] == target["gid"]]
    return [read_kernel_file(f"{folder}/gid_attrs/ndevs/{index}") for index in entries]


def read_counters(targets: list[RdmaTarget]) -> dict[str, int]:
    """Return the error counters of the devices that take part, and the counters of lost packets of their NICs.

    As ``mlx5_0:1 out_of_sequence`` -> count, and ``ens1f0np0 rx_discards_phy`` -> count.
    """
    interfaces = {name for one in targets for name in list_interfaces(one)}
    found = {
        f"{nic} {name}": count
        for nic, held in read_losses(interfaces).items()
        for name, count in held.items()
    }
    for device, port in sorted({(one["device"], one["port"]) for one in targets}):
        for name in COUNTERS:
            text = read_kernel_file(f"{BASE}/{device}/ports/{port}/hw_counters/{name}")
            count = parse_decimal(text)
            if count is not None:
                found[f"{device}:{port} {name}"] = count
    return found


def probe_rdma(targets: list[RdmaTarget], me: ProbeOrigin, limit: float) -> RdmaProbe:
    """Try the pairs until *limit*, and return which error counters grew meanwhile."""
    before = read_counters(targets)
    pairs = try_pairs(targets, me, limit - 2 * PATIENCE)
    grown = {name: now - before.get(name, now) for name, now in read_counters(targets).items()}
    return {"pairs": pairs, "counters": {name: n for name, n in grown.items() if n > 0}}


class ExchangeServers:
    """The processes that do the server's part of tries."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.children: set[int] = set()

    def start(self, sock: socket.socket, rest: bytes) -> None:
        """Serve one client in a process of its own, unless there are too many."""
        self.reap()
        if len(self.children) >= SERVED_MOST:
            sock.send(json.dumps(make_end("busy")).encode() + b"\n")
            return
        child = os.fork()
        if child:
            self.children.add(child)
            return
        try:
            end_at(time.monotonic() + SECONDS)
            drop_descriptors_except([sock.fileno()])  # the listeners' ports are free once they stop
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
