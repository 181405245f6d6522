# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the rule of this node's packet filter that blocks a packet of the probe, with nft(8) monitor trace.

A few closed connections are tried again at both ends at once. The kernel reports the rules that each first packet meets
if a rule has marked the packet (``meta nftrace set 1``). That rule is in a separate table, which makes no decisions and
belongs to its ``nft`` process (flag ``owner``, Linux 5.12). The kernel removes the table when that process ends, for
any reason.

Called by library/ladder_trace.py, or for all nodes at once. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, cast

from .pairs import ProbeMesh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..schema.ladder import (
        LadderTraceResult,
        ProbeOrigin,
        ProbeTarget,
        TracedPacket,
        TracedPeer,
    )

TABLE = "fullmesh_trace"
BEFORE_ALL = -450  # before raw (-300) and any rule of the administrator
RATE = 60  # packets a second: some dozen tries, repeated once each
READY_SECONDS = 2.0
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# the other end begins within this, as both are asked at once
TOGETHER_SECONDS = 0.5
NETFILTER = "12"  # NETLINK_NETFILTER, the column Eth of /proc/net/netlink
MOST_TEXT = 4 << 20
WORD = r"trace id (\w+) (\w+) (\S+) (\S+) "
PACKET = re.compile(
    WORD + r"packet: .*?\bip6? saddr (\S+) ip6? daddr (\S+) .*?\btcp sport (\d+) tcp dport (\d+) "
)
RULE = re.compile(WORD + r"rule (.*) # handle (\d+) \(verdict drop\)\s*$")
POLICY = re.compile(WORD + r"policy drop\s*$")


def build_trace_commands(ends: list[TracedPeer], table: str) -> Iterator[str]:
    """Yield the commands that create the table.

    It traces packets to and from these listeners and decides nothing.
    """
    yield f"add table inet {table} {{ flags owner; }}"
    for name, hook in (("come", "prerouting"), ("go", "output")):
        yield (
            f"add chain inet {table} {name} "
            f"{{ type filter hook {hook} priority {BEFORE_ALL}; policy accept; }}"
        )
        for end in ends:
            family = "ip6" if ":" in end["address"] else "ip"
            peer = "saddr" if hook == "prerouting" else "daddr"
            ports = ", ".join(str(port) for port in sorted({*end["mine"], *end["theirs"]}))
            for side in ("sport", "dport"):
                yield (
                    f"add rule inet {table} {name} {family} {peer} {end['address']} tcp {side} "
                    f"{{ {ports} }} limit rate {RATE}/second burst {RATE} packets meta nftrace set 1"
                )


def parse_trace(text: str) -> list[TracedPacket]:
    """Return the blocked packets, each combination of rule, listener and peer once."""
    packets: dict[str, tuple[str, str, int, int]] = {}
    found: dict[tuple[Any, ...], TracedPacket] = {}
    for line in text.splitlines():
        packet = PACKET.match(line)
        if packet:
            source, target, sport, dport = packet.groups()[4:]
            packets.setdefault(packet[1], (source, target, int(sport), int(dport)))
            continue
        stop = RULE.match(line) or POLICY.match(line)
        if not stop or stop[1] not in packets:
            continue
        rule, handle = (stop[5], int(stop[6])) if stop.re is RULE else ("policy drop", 0)
        source, target, sport, dport = packets[stop[1]]
        one: TracedPacket = {
            "family": stop[2],
            "table": stop[3],
            "chain": stop[4],
            "handle": handle,
            "source": source,
            "target": target,
            "sport": sport,
            "dport": dport,
            "rule": rule,
        }
        found.setdefault((*stop.groups()[1:4], handle, source, target, dport), one)
    return list(found.values())


def is_receiving_traces(pid: int) -> bool:
    """Return whether a process receives the packet filter's traces."""
    try:
        with open("/proc/net/netlink") as stream:
            rows = [line.split() for line in stream]
    except OSError:
        return False
    # sk Eth Pid Groups ...
    return any(row[1] == NETFILTER and row[2] == str(pid) and int(row[3], 16) for row in rows[1:])


def has_trace_table(table: str) -> bool:
    """Return whether the table exists."""
    return not subprocess.call(
        ["nft", "list", "table", "inet", table],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def start_trace(ends: list[TracedPeer], into: Any) -> list[subprocess.Popen[bytes]]:
    """Start the process that owns the table, and the one that receives traces.

    Raises:
        OSError: nft is missing, or prints nothing.
    """
    table = f"{TABLE}_{os.getpid()}"
    owner = subprocess.Popen(
        ["nft", "-i"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    running = [owner]
    libc = ctypes.CDLL(None)

    def mortal() -> None:
        # Its reader may be killed. The table's owner then reads the end of its input, but this process reads nothing.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    try:
        given = cast("Any", owner.stdin)
        given.write(("; ".join(build_trace_commands(ends, table)) + "\n").encode())
        given.flush()
        teller = subprocess.Popen(
            ["nft", "-a", "monitor", "trace"],
            stdin=subprocess.DEVNULL,
            stdout=into,
            stderr=subprocess.DEVNULL,
            preexec_fn=mortal,  # noqa: PLW1509 (this process has no threads)
        )
        running.append(teller)
        deadline = time.monotonic() + READY_SECONDS
        while not is_receiving_traces(teller.pid):
            if time.monotonic() > deadline or teller.poll() is not None or owner.poll() is not None:
                raise OSError("nft monitor trace did not start")
            time.sleep(0.02)
        while not has_trace_table(table):
            if time.monotonic() > deadline:
                raise OSError("nft made no table with the flag owner (Linux 5.12)")
            time.sleep(0.02)
    except BaseException:
        stop_trace(running)
        raise
    return running


def stop_trace(running: list[subprocess.Popen[bytes]]) -> None:
    """End the processes. The table disappears with its owner."""
    for process in running[::-1]:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        if process.stdin:
            with contextlib.suppress(OSError):
                process.stdin.close()


def trace_targets(
    ends: list[TracedPeer], targets: list[ProbeTarget], me: ProbeOrigin, seconds: float
) -> list[TracedPacket]:
    """Try the targets while the kernel traces, and wait until the other ends have tried theirs.

    Raises:
        OSError: tracing is not possible here.
    """
    with tempfile.TemporaryFile() as output:
        begun = time.monotonic()
        running = start_trace(ends, output)
        try:
            time.sleep(max(0.0, TOGETHER_SECONDS - (time.monotonic() - begun)))
            # one round is enough: a packet without an answer is sent again after a second
            ProbeMesh(me["node"], me["address"], me["token"], me["payload"]).round(targets, seconds)
            # a round of the other end, which may have begun that much later
            rest = TOGETHER_SECONDS * 2 + seconds - (time.monotonic() - begun)
            time.sleep(max(0.1, rest))
        finally:
            stop_trace(running)
        output.seek(0)
        return parse_trace(output.read(MOST_TEXT).decode("utf-8", "replace"))


def trace_rules(**want: Any) -> LadderTraceResult:
    """Return the rules that block the tried connections. *want*: the parameters of ladder_trace."""
    me = cast("ProbeOrigin", {key: want[key] for key in ("node", "address", "token", "payload")})
    if os.geteuid() != 0:
        return {"traced": [], "why": "not root"}
    try:
        return {
            "traced": trace_targets(want["ends"], want["targets"], me, want["seconds"]),
            "why": "",
        }
    except OSError as error:
        return {"traced": [], "why": str(error)}
