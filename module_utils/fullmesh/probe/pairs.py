"""Connect to every listener of every peer at once, and classify each connection.

The verdicts: open, refused, rejected, dropped, no_route, reset, wrong_source, someone_else, mtu_black_hole.
"""

from __future__ import annotations

import contextlib
import errno
import secrets
import selectors
import socket
import struct
import time
from functools import lru_cache
from typing import TYPE_CHECKING

from ..facts.sockets import (
    CONNECTED,
    count_lost_segments,
    errno_to_name,
    find_address_family,
    find_path_to,
    read_tcp_info,
)
from ..schema.ladder import BY_CHANCE, SLOW
from .handshake import LINE_LIMIT, format_client_line, parse_hello_line, parse_ok_line
from .verdicts import FULL_SIZE, classify_outcome

if TYPE_CHECKING:
    from typing import Callable

    from ..schema.ladder import LinkResult, PeerRate, ProbeOrigin, ProbeTarget, Reached

DATA_KINDS = ("sample", "range")  # ports of one range, which one rule opens or closes
SHUT = ("dropped", "rejected", "refused")
QUIET_SECONDS = 1.0  # while there is progress, a peer is only busy and nothing is decided
AT_ONCE = 64  # connections in progress (more would only wait for the same CPUs)
SILENT_SECONDS = 0.3  # a peer that is silent for so long delays no other
STALLED_SECONDS = 1.0  # nor does a connection on which nothing has moved for so long
SWEEP_SECONDS = 0.05
PATIENCE = 4  # times the deadline, then it ends in any case
CLOSED_SECONDS = 1.5  # for ports that must be closed: silence is expected, so do not retry
IN_PROGRESS = (0, errno.EINPROGRESS, errno.EAGAIN)
CHUNK = 65536
HOLE = "mtu_black_hole"
DOUBTED_MOST = 16  # peers that are tried once more
ALONE = 2  # times the deadline, for one connection to each of them
# Below this rate in Mbit/s, the transfer takes far longer than a busy machine delays it.
SLOW_ALONE = 30.0
LOSSY_LEAST, LOSSY_SHARE = 3, 0.5  # of the connections to a peer


class ConnectionProbe:
    """One connection attempt. *rate*: it only measures the speed of the upload."""

    def __init__(self, target: ProbeTarget, seconds: float, rate: bool = False) -> None:
        self.target = target
        self.rate = rate
        self.seconds = seconds
        self.sock = socket.socket(find_address_family(target["address"]), socket.SOCK_STREAM)
        self.sock.setblocking(False)
        self.nonce = secrets.token_hex(16)
        self.begun = self.wall = self.took = self.moved = 0.0
        self.error = 0
        self.info: dict[str, int] = {}
        self.connected = self.closed = self.finished = self.proved = self.at_once = False
        self.greeted: bool | None = None
        self.theirs = ""
        self.inbox = b""
        self.upload = self.download = self.came = 0
        self.outbox = b""
        self.source = self.seen_as = ""
        self.offset: float | None = None
        self.offset_error = 0.0
        self.wanted = (
            selectors.EVENT_READ | selectors.EVENT_WRITE
        )  # the events that the selector watches for
        self.turned = 0.0  # when the answer to the whole payload began

    def start(self) -> None:
        """Send the first packet."""
        self.begun, self.wall = time.monotonic(), time.time()
        self.moved = self.begun
        own = self.target.get("own")
        try:
            if own:
                self.sock.bind((own, 0))
            self.error = self.sock.connect_ex((self.target["address"], self.target["port"]))
        except OSError as exc:
            self.error = exc.errno or errno.EIO
        if self.error in IN_PROGRESS:
            self.error = 0
        else:
            self.at_once = True
            self.finish()

    def finish(self) -> None:
        """Read the kernel's final state of the connection."""
        self.finished = True
        self.info = read_tcp_info(self.sock)
        if not self.error:
            self.error = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not self.connected and self.info["state"] in CONNECTED and not self.error:
            self.connected = True  # the handshake was through, this process was too slow to notice
        try:
            self.source = str(self.sock.getsockname()[0])
        except OSError:
            self.source = ""
        if self.connected and (self.upload or self.outbox or self.download):
            # What a slow link still has to carry of this connection would delay the next one.
            with contextlib.suppress(OSError):
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    @property
    def complete(self) -> bool:
        """Return whether the payload was sent and came back."""
        return self.proved and not self.upload and not self.download and not self.outbox


class ProbeMesh:
    """All connections of one round."""

    def __init__(
        self, node: str, own: str, token: str, payload: int, at_once: int = AT_ONCE
    ) -> None:
        self.node, self.own, self.token, self.payload = node, own, token, payload
        self.at_once = at_once
        self.selector = selectors.DefaultSelector()
        self.open: set[ConnectionProbe] = set()
        self.silent: set[ConnectionProbe] = set()

    def round(
        self, targets: list[ProbeTarget], seconds: float, rate: bool = False
    ) -> list[ConnectionProbe]:
        """Connect to all targets and wait until all are complete or time is over.

        The deadline is extended for late peers, not for silent ones. On a busy machine the last of several hundred
        healthy connections got their turn after 3 s and looked like an MTU black hole (64 hosts, load 11).
        """
        probes = [
            ConnectionProbe(t, CLOSED_SECONDS if t["kind"] == "outside" else seconds, rate)
            for t in targets
        ]
        waiting = probes[::-1]
        moved = swept = time.monotonic()
        while waiting or self.open:
            while waiting and len(self.open) - len(self.silent) < self.at_once:
                self.launch(waiting.pop())
            happened = self.selector.select(SWEEP_SECONDS if self.open else 0)
            now = time.monotonic()
            moved = now if happened else moved
            for key, events in happened:
                key.data.moved = now
                self.step(key.data, events)
            if now - swept >= SWEEP_SECONDS:
                swept = now
                self.sweep(now, moved)
        return probes

    def launch(self, probe: ConnectionProbe) -> None:
        """Send the first packet of a probe."""
        probe.start()
        if not probe.finished:
            self.open.add(probe)
            self.selector.register(probe.sock, probe.wanted, probe)

    def watch(self, probe: ConnectionProbe, wanted: int) -> None:
        """Watch for other events. Unchanged ones are skipped, since each change is a system call."""
        if wanted != probe.wanted:
            probe.wanted = wanted
            self.selector.modify(probe.sock, wanted, probe)

    def sweep(self, now: float, moved: float) -> None:
        """Give up overdue probes, and note silent peers."""
        for probe in [p for p in self.open if now > self.ends(p, moved)]:
            self.end(probe)
        self.silent = {
            p
            for p in self.open
            if now - p.moved > (STALLED_SECONDS if p.connected else SILENT_SECONDS)
        }

    @staticmethod
    def ends(probe: ConnectionProbe, moved: float) -> float:
        """Return the time at which an incomplete probe is given up."""
        due = probe.begun + probe.seconds
        if probe.rate or probe.target["kind"] == "outside":
            return due
        return min(max(due, moved + QUIET_SECONDS), probe.begun + PATIENCE * probe.seconds)

    def end(self, probe: ConnectionProbe) -> None:
        """Remove a probe from the list."""
        self.selector.unregister(probe.sock)
        self.open.discard(probe)
        self.silent.discard(probe)
        probe.finish()

    def step(self, probe: ConnectionProbe, events: int) -> None:
        """Do the steps that are possible now."""
        try:
            if not probe.connected:
                probe.error = probe.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if probe.error:
                    self.end(probe)
                    return
                probe.connected = True
                probe.took = time.monotonic() - probe.begun
                self.watch(probe, selectors.EVENT_READ)
                # The listener is the service itself, so only reachability counts. Its own first bytes (gRPC) are no
                # payload: they once looked like an MTU black hole (load 9).
                probe.proved = probe.target["kind"] == "held"
                if probe.proved:
                    self.end(probe)
                    return
            if events & selectors.EVENT_READ:
                self.read(probe)
            if not probe.finished and (probe.outbox or probe.upload):
                self.write(probe)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as exc:
            probe.error = exc.errno or errno.EIO
            self.end(probe)
        if not probe.finished and probe.complete:
            self.end(probe)

    def write(self, probe: ConnectionProbe) -> None:
        """Send the greeting, then the payload."""
        if not probe.outbox:
            probe.outbox = b"\0" * min(CHUNK, probe.upload)
            probe.upload -= len(probe.outbox)
        probe.outbox = probe.outbox[probe.sock.send(probe.outbox) :]
        more = probe.outbox or probe.upload
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if more else 0)
        self.watch(probe, wanted)

    def read(self, probe: ConnectionProbe) -> None:
        """Read the listener's lines, then the returned payload."""
        data = probe.sock.recv(CHUNK)
        if not data:
            probe.closed = True
            if probe.greeted is None:
                probe.greeted = False  # it closed without a greeting: not a listener of Fullmesh
            self.end(probe)
            return
        if probe.proved:
            probe.download -= len(data)
            probe.came += len(data)
            if not probe.turned:  # the other end sends nothing before it has the whole upload
                probe.turned = time.monotonic()
                if probe.rate:
                    self.end(probe)
            return
        probe.inbox += data
        while not probe.finished and b"\n" in probe.inbox and not probe.proved:
            line, _, probe.inbox = probe.inbox.partition(b"\n")
            self.hear(probe, line)
        if probe.proved:
            probe.download -= len(probe.inbox)
        elif not probe.finished and len(probe.inbox) > LINE_LIMIT:
            probe.greeted = False
            self.end(probe)

    def hear(self, probe: ConnectionProbe, line: bytes) -> None:
        """Process one line: first the greeting, then the acceptance."""
        if probe.greeted is None:
            hello = parse_hello_line(line)
            probe.greeted = hello is not None and hello[0] == probe.target["node"]
            if hello is None or not probe.greeted:
                self.end(probe)
                return
            probe.theirs = hello[1]
            now = time.time()
            probe.offset = hello[2] - (probe.wall + now) / 2
            probe.offset_error = (now - probe.wall) / 2
            if probe.target["kind"] == "outside":
                probe.proved = True  # that it could be reached at all is the answer
                return
            # Further ports of the range only show whether they are open. The payload size does not depend on the port.
            size = self.payload if probe.rate or probe.target["kind"] != "range" else 0
            probe.outbox = format_client_line(
                self.token, self.node, probe.theirs, probe.nonce, size
            )
            probe.upload = probe.download = size
            self.watch(probe, selectors.EVENT_READ | selectors.EVENT_WRITE)
            return
        seen = parse_ok_line(line, self.token, probe.target["node"], probe.theirs, probe.nonce)
        if seen is None:
            probe.greeted = False
            self.end(probe)
            return
        probe.proved, probe.seen_as = True, seen


def describe_probe(
    probe: ConnectionProbe, own: str, attempts: int, route: Callable[[str, str], dict[str, str]]
) -> LinkResult:
    """Convert a finished probe to the record for the controller."""
    own = probe.target.get("own", own)
    path = {} if probe.connected else route(probe.target["address"], probe.target.get("own", ""))
    word, remark = classify_outcome(
        {
            "error": probe.error,
            "at_once": probe.at_once,
            "state": probe.info["state"],
            "connected": probe.connected,
            "closed": probe.closed,
            "neighbour": path.get("neighbour", "unknown"),
            "source": probe.seen_as or probe.source,
            "own": own,
            "greeted": probe.greeted,
            "proved": probe.proved,
            "complete": probe.complete,
            # Bytes in this kernel's send buffer have not arrived.
            "uploaded": probe.proved and not has_unsent_payload(probe),
            "unacked": probe.info["unacked"],
            "retransmitted": probe.info["total_retrans"],
            "moved": probe.info["acked"] if has_unsent_payload(probe) else probe.came,
        }
    )
    return {
        "node": probe.target["node"],
        "address": probe.target["address"],
        "port": probe.target["port"],
        "kind": probe.target["kind"],
        "verdict": word,
        "remark": remark,
        "errno": errno_to_name(probe.error),
        "ms": round(probe.took * 1000, 3),
        "rtt_ms": round(probe.info["rtt_us"] / 1000.0, 3) if probe.connected else 0.0,
        "source": probe.seen_as or probe.source,
        "device": path.get("dev", ""),
        "neighbour": path.get("neighbour", ""),
        "attempts": attempts,
        "reached": find_probe_stage(probe),
        "lost": count_lost_segments(probe.info),
        "segments": probe.info["segs_out"],
        "offset": probe.offset,
        "offset_error": probe.offset_error,
    }


def has_unsent_payload(probe: ConnectionProbe) -> bool:
    """Return whether some of the payload has not arrived at the other end."""
    return bool(probe.upload or probe.outbox or probe.info["unacked"])


def find_probe_stage(probe: ConnectionProbe) -> Reached:
    """Return the last stage that the connection reached: asked, connected, greeted, proved, uploaded, complete."""
    if probe.complete:
        return "complete"
    if probe.proved:
        return "proved" if has_unsent_payload(probe) else "uploaded"
    if probe.greeted:
        return "greeted"
    return "connected" if probe.connected else "asked"


def is_probe_settled(probe: ConnectionProbe) -> bool:
    """Return whether a second try would change nothing."""
    if probe.complete or probe.target["kind"] == "outside" or probe.greeted is False:
        return True
    return bool(probe.error) and probe.error not in (errno.EHOSTUNREACH, errno.ETIMEDOUT)


def find_doubtful_ports(results: list[LinkResult]) -> set[tuple[str, int]]:
    """Return data ports (node, port) that were open at a peer with other closed ones."""
    data = [r for r in results if r["kind"] in DATA_KINDS]
    shut = {r["node"] for r in data if r["verdict"] in SHUT}
    return {(r["node"], r["port"]) for r in data if r["verdict"] == "open" and r["node"] in shut}


def probe_links(
    targets: list[ProbeTarget], me: ProbeOrigin, seconds: float, window: int, at_once: int = AT_ONCE
) -> list[LinkResult]:
    """Probe every target, at most *window* at a time.

    Targets without an answer are tried a second time.

    A data port that is open among closed ones is also tried again, and only counts if it is open from another source
    port as well. Of a range that firewalld rejected, 1 of 19 ports was open in 2 of about 60 diagnoses, for unknown
    reasons.

    *at_once* limits connections in progress. Silent ones do not count.
    """
    route = lru_cache(maxsize=None)(find_path_to)

    def ask(wanted: list[ProbeTarget]) -> list[ConnectionProbe]:
        probes: list[ConnectionProbe] = []
        for start in range(0, len(wanted), window):
            mesh = ProbeMesh(me["node"], me["address"], me["token"], me["payload"], at_once)
            probes += mesh.round(wanted[start : start + window], seconds)
        return probes

    first = ask(targets)
    results = [describe_probe(p, me["address"], 1, route) for p in first if is_probe_settled(p)]
    again = ask([p.target for p in first if not is_probe_settled(p)])
    results += [describe_probe(p, me["address"], 2, route) for p in again]
    doubted = find_doubtful_ports(results)
    if not doubted:
        return results
    third = ask(
        [t for t in targets if t["kind"] in DATA_KINDS and (t["node"], t["port"]) in doubted]
    )
    described = [describe_probe(p, me["address"], 3, route) for p in third]
    return discard_doubtful_ports(results, [r for r in described if r["verdict"] in SHUT])


def discard_doubtful_ports(results: list[LinkResult], denied: list[LinkResult]) -> list[LinkResult]:
    """Leave out data ports that were open and then *denied*. The results of their closed neighbours are enough."""
    chance: dict[str, list[int]] = {}
    for record in denied:
        chance.setdefault(record["node"], []).append(record["port"])
    kept: list[LinkResult] = []
    for record in results:
        ports = chance.get(record["node"], []) if record["kind"] in DATA_KINDS else []
        if record["port"] in ports:
            continue
        remark = record["remark"]
        if ports and record["verdict"] in SHUT and not remark:
            once = ", ".join(str(port) for port in ports)
            remark = f"{BY_CHANCE}, so not counted: {once}"
        kept.append({**record, "remark": remark})
    return kept


def is_doubtful_link(records: list[LinkResult]) -> bool:
    """Return whether a link loses large packets, or so many that it may only be slow for many connections at once."""
    lossy = sum(r["verdict"] == "open" and bool(r["lost"]) for r in records)
    hole = any(r["verdict"] == HOLE for r in records)
    return hole or (lossy >= LOSSY_LEAST and lossy >= LOSSY_SHARE * len(records))


def choose_doubtful_targets(
    results: list[LinkResult], targets: list[ProbeTarget]
) -> list[ProbeTarget]:
    """Return one listener of each peer whose packets seem to be lost, one with lost large packets first."""
    by_peer: dict[str, list[LinkResult]] = {}
    for record in results:
        if record["kind"] not in ("outside", "held"):
            by_peer.setdefault(record["node"], []).append(record)
    found = []
    for name, records in by_peer.items():
        if is_doubtful_link(records):
            holes = {r["port"] for r in records if r["verdict"] == HOLE}
            ports = holes or {r["port"] for r in records if r["verdict"] == "open"}
            found += [t for t in targets if t["node"] == name and t["port"] in ports][:1]
    return found[:DOUBTED_MOST]


def refute_black_holes(
    results: list[LinkResult], targets: list[ProbeTarget], me: ProbeOrigin, seconds: float
) -> tuple[list[LinkResult], list[PeerRate]]:
    """Try peers whose packets seem to be lost once more, with one connection each.

    On a slow link, many connections at once move too little in the given time, and overflow a queue. One of them gets
    through. A link that really loses packets loses some of this connection as well.

    Returns:
        The results without refuted black holes, and the rates of links that are slow.
    """
    doubted = choose_doubtful_targets(results, targets)
    mesh = ProbeMesh(me["node"], me["address"], me["token"], me["payload"])
    slow: dict[str, str] = {}
    rates = []
    for probe in mesh.round(doubted, ALONE * seconds) if doubted else []:
        if probe.complete or (probe.came >= FULL_SIZE and not has_unsent_payload(probe)):
            rate = measure_rate(probe.target, me, me["payload"], seconds)
            slow[rate["node"]] = "{}: {} Mbit/s".format(SLOW, round(rate["mbit_s"], 1))
            rates += [rate] if rate["mbit_s"] < SLOW_ALONE and not rate.get("lost") else []
    kept: list[LinkResult] = [
        {**r, "verdict": "open", "remark": slow[r["node"]]}
        if r["verdict"] == HOLE and r["node"] in slow
        else r
        for r in results
    ]
    return kept, rates


def measure_rate(target: ProbeTarget, me: ProbeOrigin, size: int, seconds: float) -> PeerRate:
    """Send up to *size* bytes to one listener for at most *seconds*. Returns bits/s of acknowledged data."""
    mesh = ProbeMesh(me["node"], me["address"], me["token"], size)
    probe = mesh.round([target], seconds, rate=True)[0]
    spent = max((probe.turned or time.monotonic()) - probe.begun - probe.took, 1e-6)
    moved = (
        size if probe.turned else max(0, probe.info.get("acked", 0) - 1)
    )  # the SYN counts as a byte
    return {
        "node": target["node"],
        "bytes": moved,
        "seconds": round(spent, 4),
        "mbit_s": round(moved * 8 / spent / 1e6, 3),
        "lost": count_lost_segments(probe.info),
        "complete": bool(probe.turned),
    }


def measure_rates(
    links: list[LinkResult], targets: list[ProbeTarget], me: ProbeOrigin, size: int, seconds: float
) -> list[PeerRate]:
    """Measure one rate per reachable peer, one after the other. Each node starts with its successor."""
    good = {
        (r["node"], r["port"])
        for r in links
        if r["verdict"] == "open" and r["kind"] not in ("outside", "held")
    }
    chosen: dict[str, ProbeTarget] = {}
    for target in targets:
        if (target["node"], target["port"]) in good:
            chosen.setdefault(target["node"], target)
    names = sorted(chosen)
    later = [name for name in names if name > me["node"]]
    return [
        measure_rate(chosen[n], me, size, seconds) for n in later + names[: len(names) - len(later)]
    ]
