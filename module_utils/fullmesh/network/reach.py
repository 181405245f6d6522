# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Check how a node is reached and which nodes it reaches: sessions, duplicate addresses, peers.

Standard library only.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import select
import socket
import struct
import time
from typing import TYPE_CHECKING

from ..node_values import MAC
from ..tools import ip

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..commands import SplitRunner
    from ..tools.ip import IpLink


# Time between a probe and its repetition. RFC 5227 2.1.1 allows 1-2 s, hosts in a rack answer within milliseconds.
PROBE_SECONDS = 0.5
POLL_SECONDS = 0.3
# The kernel gives up on a neighbour after three probes, a second each (neigh/*/mcast_solicit, retrans_time_ms).
REACH_SECONDS = 4.0
SSH_PORT = 22
ARP_FRAME = 42
HERE = (errno.EHOSTUNREACH, errno.ENETUNREACH)
# A bond without an active port drops packets and reports these errors (seen with 802.3ad).
NOT_SENT = (errno.ENOBUFS, errno.ENETDOWN)
PORT_SECONDS = 6.0  # LACP's slow start: a port is taken in within some seconds
# Words of the kernel for a neighbour that has answered just now, and for one that may have gone since.
ANSWERED = {"REACHABLE", "PERMANENT"}
REMEMBERED = {"REACHABLE", "STALE", "DELAY"}
# Before a change: nodes that are up answer within milliseconds, and silent ones are not required afterwards.
BEFORE_SECONDS = 1.5


# --- this session -----------------------------------------------------------------------------


def find_carrier(address: str, seen: Mapping[str, IpLink]) -> str:
    """Return the interface that has *address* (without prefix), or ""."""
    for name, state in seen.items():
        if any(one["address"].split("/")[0] == address for one in state["addresses"]):
            return name
    return ""


def find_return_address(
    keeps: list[str], touched: list[str], server: str, seen: Mapping[str, IpLink]
) -> str:
    """Return the address for the new connection after a change, or "" if the present one stays.

    Args:
        keeps: addresses after the change, with or without prefix.
        touched: interfaces whose addresses change (a bond takes those of its members).
        server: the node's address of this connection.
        seen: the present interfaces.
    """
    keeps = [value.split("/")[0] for value in keeps]
    if not server or server in keeps or find_carrier(server, seen) not in touched:
        return ""
    family = ipaddress.ip_address(server).version
    same = [value for value in keeps if ipaddress.ip_address(value).version == family]
    return (same or keeps)[0]


# --- duplicates -------------------------------------------------------------------------------


def mac_to_bytes(mac: str) -> bytes:
    """Convert a MAC from its usual form."""
    return bytes.fromhex(mac.replace(":", ""))


def build_arp_probe(source: bytes, address: str) -> bytes:
    """Build an ARP request for *address* that does not claim it (RFC 5227 2.1.1)."""
    head = b"\xff" * 6 + source + struct.pack("!H", 0x0806)
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
    return head + body + source + b"\0" * 4 + b"\0" * 6 + socket.inet_aton(address)


def parse_arp_owner(frame: bytes, own: Collection[bytes], address: str) -> str:
    """Return the MAC of another host with *address* from an ARP frame, or "". *own*: the MACs of this one."""
    if len(frame) < ARP_FRAME or frame[12:14] != b"\x08\x06":
        return ""
    sender, sender_address = frame[22:28], frame[28:32]
    if sender in own or sender_address != socket.inet_aton(address):
        return ""
    return ":".join(f"{byte:02x}" for byte in sender)


def find_duplicate_host(interface: str, seen: Mapping[str, IpLink], address: str) -> str:
    """Return the MAC of another host on the link with *address*, or "".

    Other interfaces of this host on the same link (two rails at one switch) answer for it too, unless arp_ignore is 1.

    Args:
        interface: of the link.
        seen: the host's interfaces.
        address: an IPv4 address.
    """
    source = mac_to_bytes(seen[interface]["mac"])
    own = {mac_to_bytes(one["mac"]) for one in seen.values() if MAC.match(one["mac"])}
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as link:
        link.bind((interface, 0))
        for _ in range(2):
            if not send_frame(link, build_arp_probe(source, address)):
                return (
                    ""  # the probe is not possible, but the later check of the peers still applies
                )
            end = time.monotonic() + PROBE_SECONDS
            while time.monotonic() < end:
                link.settimeout(max(end - time.monotonic(), 0.001))
                try:
                    owner = parse_arp_owner(link.recv(2048), own, address)
                except socket.timeout:
                    break
                if owner:
                    return owner
    return ""


def send_frame(link: socket.socket, frame: bytes) -> bool:
    """Send a frame as soon as the link accepts one. Return whether it did."""
    end = time.monotonic() + PORT_SECONDS
    while True:
        try:
            link.send(frame)
            return True
        except OSError as error:
            if error.errno not in NOT_SENT:
                raise
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_SECONDS)


# --- peers ------------------------------------------------------------------------------------


def find_silent_peers(
    addresses: list[str], run: SplitRunner, seconds: float = REACH_SECONDS
) -> dict[str, str]:
    """Return the *addresses* that cannot be reached, and why.

    All are probed at once.

    A peer's firewall does not count as a fault: any answer counts, including a refusal, or a fresh MAC of the neighbour
    in the kernel.
    """
    refresh_neighbours(addresses, run)
    waiting: dict[int, tuple[socket.socket, str]] = {}
    faults: dict[str, str] = {}
    for address in addresses:
        probe, error = start_ssh_probe(address)
        if error in (*HERE, *NOT_SENT):
            faults[address] = os.strerror(error)
        if error == errno.EINPROGRESS and probe is not None:
            waiting[probe.fileno()] = (probe, address)
    end = time.monotonic() + seconds
    while waiting and time.monotonic() < end:
        ready = select.select([], list(waiting), [], max(end - time.monotonic(), 0.0))[1]
        for handle in ready:
            probe, address = waiting.pop(handle)
            error = probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            probe.close()
            if error in HERE:
                faults[address] = os.strerror(error)
    for probe, address in waiting.values():
        probe.close()
        faults[address] = "no answer"
    return {one: why for one, why in faults.items() if not is_live_neighbour(one, run)}


def start_ssh_probe(address: str) -> tuple[socket.socket | None, int]:
    """Start a connection to a peer's ssh. Return the socket and an immediate error."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    probe = socket.socket(family, socket.SOCK_STREAM)
    probe.setblocking(False)
    error = probe.connect_ex((address, SSH_PORT))
    if error == errno.EINPROGRESS:
        return probe, error
    probe.close()
    return None, error


def run_if_answered(run: SplitRunner, command: list[str]) -> str:
    """Return a command's output, or "" if it fails."""
    rc, out, _ = run(command)
    return out if rc == 0 else ""


def refresh_neighbours(addresses: list[str], run: SplitRunner) -> None:
    """Let the kernel refresh its neighbours. Their entries from before a change prove nothing."""
    for one in ip.parse_neighbours(run_if_answered(run, ip.build_neighbours_command())):
        if one["address"] in addresses and REMEMBERED & set(one["states"]):
            run(["ip", "neigh", "change", one["address"], "dev", one["dev"], "nud", "probe"])


def is_live_neighbour(address: str, run: SplitRunner) -> bool:
    """Return whether the kernel sends to *address* directly, and has just received an answer."""
    routes = ip.parse_routes(run_if_answered(run, ip.build_route_command(address)))
    if not routes or routes[0]["via"] or not routes[0]["dev"]:
        return False
    command = ip.build_neighbours_command("to", address, "dev", routes[0]["dev"])
    known = ip.parse_neighbours(run_if_answered(run, command))
    return any(ANSWERED & set(one["states"]) for one in known)


def wait_for_peers(
    master: str, peers: list[str], run: SplitRunner, seconds: float
) -> dict[str, str]:
    """Wait until the master and another node have answered or time is over.

    Return the silent ones, and why.

    The others may be in the middle of their own change, so silent ones are probed again.

    Args:
        master: its address, "" if it need not answer.
        peers: the addresses of nodes that are up, including the master.
        run: of commands.
        seconds: how long.
    """
    why, end = dict.fromkeys(peers, "not asked"), time.monotonic() + seconds
    while True:
        left = max(end - time.monotonic(), BEFORE_SECONDS)
        why = find_silent_peers(list(why), run, min(left, REACH_SECONDS))
        if not describe_silent_peers(master, peers, why) or time.monotonic() >= end:
            return why
        time.sleep(POLL_SECONDS)


def describe_silent_peers(master: str, peers: list[str], why: dict[str, str]) -> list[str]:
    """Describe required peers that are silent: the master, and all of the others together."""
    others = [one for one in peers if one != master]
    found = [f"the master {master} ({why[master]})"] if master in why else []
    if others and all(one in why for one in others):
        found.append("any other node: " + ", ".join(f"{one} ({why[one]})" for one in others))
    return found
