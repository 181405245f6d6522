# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Query the kernel's routing decisions for packets to and from peers: rtnetlink(7), RTM_GETROUTE.

The queries are those of ``ip route get``: the route of a connection, of its answer, and of a peer's packets. They need
no iproute2 and take microseconds instead of a process. Only unusual results are reported. Standard library only.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from ..facts.sockets import errno_to_name, find_address_family, run_ip
from ..survey.net import read_interface_addresses
from ..survey.netlink import (
    FAILED,
    HEAD,
    REQUEST,
    open_route_socket,
    pack_attribute,
    unpack_attributes,
)
from ..tools import ip

if TYPE_CHECKING:
    from ..schema.ladder import Direction, LinkResult, PacketRoute, ProbeTarget
    from ..tools.ip import IpRule

GET_ROUTE = 26
LOCAL = 2  # RTN_LOCAL
DST, SRC, IIF, OIF, GATEWAY, PREFSRC = 1, 2, 3, 4, 5, 7
TABLE, MARK, UID, PROTO, SPORT, DPORT = 15, 16, 25, 27, 28, 29
BODY = struct.Struct("=BBBBBBBBI")
LOOKUP_TABLE = 0x1000  # RTM_F_LOOKUP_TABLE: the answer names the table
USUAL_TABLES = (0, 253, 254, 255)  # unknown, default, main, local
PEERS_MOST, PORTS_MOST, CHOICES_MOST, WAYS_MOST = 256, 8, 4, 512
# The meaning of an errno, ip-route(8). A table without an entry and a throw route both give ENETUNREACH.
REFUSING = {
    "EINVAL": "blackhole",
    "EACCES": "prohibit",
    "EHOSTUNREACH": "unreachable",
    "ENETUNREACH": "throw",
}
ANYBODY = -1


class RouteSelector(NamedTuple):
    """Selectors of a route apart from the address: the packet's mark and its user."""

    mark: int
    uid: int


class RouteReply(TypedDict):
    """The kernel's answer: its error, or the interface, next hop, source and table. *local*: it is for this node."""

    error: str
    dev: str
    via: str
    source: str
    local: bool
    table: int


def pack_route_request(family: int, numbers: dict[int, int], addresses: dict[int, str]) -> bytes:
    """Pack one query. *numbers* and *addresses* are keyed by attribute."""
    packed = {kind: socket.inet_pton(family, text) for kind, text in addresses.items() if text}
    bits = {kind: 8 * len(raw) for kind, raw in packed.items()}
    body = BODY.pack(family, bits.get(DST, 0), bits.get(SRC, 0), 0, 0, 0, 0, 0, LOOKUP_TABLE)
    for kind, raw in packed.items():
        body += pack_attribute(kind, raw)
    for kind, number in numbers.items():
        form = {PROTO: "=B", SPORT: "!H", DPORT: "!H"}.get(kind, "=I")
        body += pack_attribute(kind, struct.pack(form, number))
    return HEAD.pack(HEAD.size + len(body), GET_ROUTE, REQUEST, 1, 0) + body


def parse_route_reply(raw: bytes, family: int) -> RouteReply:
    """Parse the kernel's answer."""
    kind = HEAD.unpack_from(raw)[1]
    rest = raw[HEAD.size :]
    if kind == FAILED:
        error = -struct.unpack_from("=i", rest)[0]
        return {
            "error": errno_to_name(error),
            "dev": "",
            "via": "",
            "source": "",
            "local": False,
            "table": 0,
        }
    held = unpack_attributes(rest[BODY.size :])

    def address(one: int) -> str:
        return socket.inet_ntop(family, held[one]) if one in held else ""

    dev = ""
    if OIF in held:
        try:
            dev = socket.if_indextoname(struct.unpack("=I", held[OIF])[0])
        except OSError:
            dev = ""
    local = BODY.unpack_from(rest)[7] == LOCAL
    return {
        "error": "",
        "dev": dev,
        "via": address(GATEWAY),
        "source": address(PREFSRC),
        "local": local,
        "table": struct.unpack("=I", held[TABLE])[0] if TABLE in held else 0,
    }


class KernelRoutes:
    """Queries one kernel."""

    def __init__(self, own: str, interface: str, prefix: str) -> None:
        self.own, self.interface, self.family = own, interface, find_address_family(own)
        self.next_door = ipaddress.ip_interface(prefix).network
        self.index = socket.if_nametoindex(interface)
        self.sock = open_route_socket()

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()

    def ask(self, numbers: dict[int, int], addresses: dict[int, str]) -> RouteReply:
        """Send one query."""
        self.sock.send(pack_route_request(self.family, numbers, addresses))
        return parse_route_reply(self.sock.recv(8192), self.family)

    def decide(
        self, direction: Direction, peer: str, port: int, choice: RouteSelector
    ) -> RouteReply:
        """Return the routing decision for a packet of a TCP connection with a peer."""
        numbers = {PROTO: socket.IPPROTO_TCP}
        if choice[0]:
            numbers[MARK] = choice[0]
        if choice[1] != ANYBODY:
            numbers[UID] = choice[1]
        if direction == "out":
            return self.ask({**numbers, DPORT: port}, {DST: peer})
        if direction == "answer":
            return self.ask({**numbers, SPORT: port}, {DST: peer, SRC: self.own})
        return self.ask({**numbers, DPORT: port, IIF: self.index}, {DST: self.own, SRC: peer})

    def odd(self, direction: Direction, peer: str, answer: RouteReply) -> bool:
        """Return whether an answer differs from the cluster's interface with its address.

        A next hop is unexpected if the peer is in the same network.
        """
        if answer["error"]:
            return True
        if direction == "in":
            return not answer["local"]
        astray = answer["dev"] != self.interface or (
            bool(answer["via"]) and ipaddress.ip_address(peer) in self.next_door
        )
        return astray or (direction == "out" and answer["source"] not in ("", self.own))


def read_routing_rules() -> list[IpRule]:
    """Return the rules that choose a routing table."""
    try:
        return ip.parse_rules(run_ip(*ip.SHOW_RULES[1:]))
    except ValueError:
        return []


def list_route_selectors(held: list[IpRule]) -> list[RouteSelector]:
    """Return the selectors of these rules apart from addresses and ports: none, marks, and accounts."""
    found = [RouteSelector(0, ANYBODY)]
    for rule in held:
        if rule["mark"]:
            found.append(RouteSelector(int(rule["mark"], 0), ANYBODY))
        if rule["uid"] is not None:
            found.append(RouteSelector(0, rule["uid"]))
    return found[: 1 + CHOICES_MOST]


def is_destination_of(text: str, peer: str) -> bool:
    """Return whether a destination in the format of ``ip route`` contains the peer."""
    try:
        if text == "default":
            return True
        return ipaddress.ip_address(peer) in ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False


def find_refusing_route(peer: str, error: str) -> str:
    """Return the route or rule that rejects a peer with this error, in ip's format, or ""."""
    kind = REFUSING.get(error, "")
    version = "-6" if ":" in peer else "-4"
    best, longest = "", -1
    for line in run_ip(version, "-o", "route", "show", "table", "all").splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == kind and is_destination_of(words[1], peer):
            length = int(words[1].partition("/")[2] or 128) if words[1] != "default" else 0
            if length > longest:
                best, longest = " ".join(words), length
    for line in run_ip(version, "rule", "show").splitlines():
        if kind in line.split() and not best:
            best = "rule " + " ".join(line.split())
    return best[:200]


def find_leading_rule(peer: str, own: str, table: int) -> str:
    """Return the routing rule that leads to a table, in ip's format, or "" for the usual tables."""
    if table in USUAL_TABLES:
        return ""
    shown = run_ip("-6" if ":" in peer else "-4", "-N", "rule", "show")
    wanted = ("lookup", str(table))
    rules = [one for one in map(str.split, shown.splitlines()) if wanted in zip(one, one[1:])]
    rules.sort(key=lambda words: own not in words)
    return " ".join(["rule", *rules[0]])[:200] if rules else ""


def describe_decision(
    kernel: KernelRoutes, peer: str, choice: RouteSelector, answer: RouteReply
) -> str:
    """Return the route or rule that makes a decision unusual."""
    if answer["error"]:
        return find_refusing_route(peer, answer["error"])
    return find_leading_rule(peer, kernel.own, answer["table"]) if choice.uid == ANYBODY else ""


def choose_query_ports(
    peer: str, targets: list[ProbeTarget], records: list[LinkResult]
) -> list[int]:
    """Choose the ports of a peer to query: failed ones first, then as many others, far apart."""
    shut = [r["port"] for r in records if r["address"] == peer and r["verdict"] != "open"]
    rest = sorted(t["port"] for t in targets if t["address"] == peer and t["kind"] != "outside")
    step = max(1, len(rest) // PORTS_MOST)
    return list(dict.fromkeys([*shut[: PORTS_MOST // 2], *rest[::step]]))[:PORTS_MOST]


def find_unusual_routes(
    own: str, targets: list[ProbeTarget], records: list[LinkResult]
) -> list[PacketRoute]:
    """Return the unusual routing decisions for the peers. Ports with the same result are grouped."""
    held = {
        prefix.split("/")[0]: (name, prefix)
        for name, listed in read_interface_addresses().items()
        for prefix in listed
    }
    if own not in held:
        return []
    try:
        kernel = KernelRoutes(own, *held[own])
    except (OSError, ValueError):
        return []
    try:
        return query_all_routes(kernel, targets, records)
    except (OSError, struct.error):
        return []
    finally:
        kernel.close()


def query_all_routes(
    kernel: KernelRoutes, targets: list[ProbeTarget], records: list[LinkResult]
) -> list[PacketRoute]:
    """Query every combination of peer, port and selector."""
    found: dict[tuple[object, ...], PacketRoute] = {}
    asked = list_route_selectors(read_routing_rules())
    directions: tuple[Direction, ...] = ("out", "answer", "in")
    for peer in sorted({t["address"] for t in targets})[:PEERS_MOST]:
        for port in choose_query_ports(peer, targets, records):
            for direction in directions:
                for choice in asked if direction != "in" else asked[:1]:
                    answer = kernel.decide(direction, peer, port, choice)
                    if not kernel.odd(direction, peer, answer):
                        continue
                    key = (peer, direction, choice, *answer.values())
                    if key not in found and len(found) < WAYS_MOST:
                        found[key] = {
                            "peer": peer,
                            "direction": direction,
                            "ports": [],
                            "error": answer["error"],
                            "dev": answer["dev"],
                            "via": answer["via"],
                            "source": answer["source"],
                            "mark": choice.mark,
                            "uid": choice.uid,
                            "rule": describe_decision(kernel, peer, choice, answer),
                        }
                    if key in found:
                        found[key]["ports"].append(port)
    return list(found.values())
