# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the listeners of a node without a firewall that others may use, and their connected clients.

A socket does not show its future clients, so every listener counts that is not on loopback. UDP has no listeners: a
socket without a peer counts, unless it has an ephemeral port, which clients have. Raw sockets have no ports. Their
protocol number is used instead, such as ``112/ip`` (VRRP, of keepalived).
"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

from ..facts import sockets
from ..facts.node import map_global_addresses
from ..files import read_text_or_empty
from ..schema.ports import KERNEL_RANGE, PortRange, parse_port_range
from . import firewalld_others
from .firewalld_files import IP

if TYPE_CHECKING:
    from ..commands import Runner
    from .types import FirewallListener


TABLES = (
    ("tcp", "tcp"),
    ("tcp6", "tcp"),
    ("udp", "udp"),
    ("udp6", "udp"),
    ("raw", IP),
    ("raw6", IP),
)
# Ports of DHCP clients (firewalld lets their answers in), of chrony and ntpd as clients, and of local names (mDNS,
# LLMNR), which systemd-resolved opens on every node. Raw sockets of protocols that firewalld lets in or whose ports it
# filters, and those that only send (0, 255).
RAW = frozenset(f"{number}/{IP}" for number in (0, 1, 2, 6, 17, 58, 255))
QUIET = RAW | {"68/udp", "546/udp", "123/udp", "5353/udp", "5355/udp", "5355/tcp"}
NAMED = 3  # clients of a listener that a message names


class ProtocolSocketRow(sockets.SocketRow):
    """A socket with its protocol: tcp or udp."""

    protocol: str  # and IP for a raw one


def read_protocol_sockets(proc: str) -> list[ProtocolSocketRow]:
    """Return every TCP, UDP and raw socket of this network namespace with its protocol."""
    found: list[ProtocolSocketRow] = []
    for name, protocol in TABLES:
        for row in sockets.parse_socket_table(read_text_or_empty(f"{proc}/net/{name}")):
            found.append({**row, "protocol": protocol})
    return found


def read_ephemeral_ports(proc: str) -> PortRange:
    """Return the range of ports that the kernel gives to clients."""
    return (
        parse_port_range(read_text_or_empty(proc + "/sys/net/ipv4/ip_local_port_range"))
        or KERNEL_RANGE
    )


def is_waiting_socket(row: ProtocolSocketRow, ephemeral: PortRange) -> bool:
    """Return whether a socket waits for packets from other machines."""
    if ipaddress.ip_address(row["address"]).is_loopback:
        return False
    if row["protocol"] == "tcp":
        return bool(row["state"] == sockets.LISTEN)
    client = row["protocol"] == "udp" and row["port"] in ephemeral
    return bool(row["state"] == sockets.CLOSE and not row["peer_port"] and not client)


def find_listeners(proc: str = "/proc") -> list[FirewallListener]:
    """Return the listeners for other machines, by port: port, addresses, process, clients."""
    held, ephemeral = read_protocol_sockets(proc), read_ephemeral_ports(proc)
    found: dict[str, FirewallListener] = {}
    waiting = [row for row in held if is_waiting_socket(row, ephemeral)]
    names = map_socket_processes(proc) if waiting else {}
    for row in waiting:
        port = "{port}/{protocol}".format(**row)
        if port in QUIET:
            continue
        one = found.setdefault(port, {"port": port, "addresses": [], "process": "", "clients": []})
        one["addresses"].append(row["address"])
        one["process"] = one["process"] or names.get(row["inode"], "")
        one["clients"] = list_listener_clients(held, row)
    return sorted(found.values(), key=lambda one: (int(one["port"].split("/")[0]), one["port"]))


def list_listener_clients(held: list[ProtocolSocketRow], row: ProtocolSocketRow) -> list[str]:
    """Return the clients that are connected to a listener."""
    alive = [one for one in held if one["state"] == sockets.ESTABLISHED and one["peer_port"]]
    mine = [
        one for one in alive if (one["protocol"], one["port"]) == (row["protocol"], row["port"])
    ]
    found = {one["peer"] for one in mine}
    return sorted(one for one in found if not ipaddress.ip_address(one).is_loopback)


def map_socket_processes(proc: str) -> dict[str, str]:
    """Return {inode of a socket: name of a process that holds it}."""
    found: dict[str, str] = {}
    for pid in sorted(filter(str.isdecimal, os.listdir(proc)), key=int):
        base = f"{proc}/{pid}/fd"
        try:
            links = [os.readlink(base + "/" + name) for name in os.listdir(base)]
        except OSError:
            continue  # it ended meanwhile
        for link in links:
            if link.startswith("socket:["):
                found.setdefault(link[8:-1], read_text_or_empty(f"{proc}/{pid}/comm").strip())
    return found


def map_interface_addresses(run: Runner) -> dict[str, list[str]]:
    """Return {interface: its addresses}, without loopback."""
    found = map_global_addresses(run)
    return {
        name: [text.split("/")[0] for text in found[name]] for name in sorted(found) if name != "lo"
    }


def map_interface_zones(run: Runner, root: str, running: bool, default: str) -> dict[str, str]:
    """Return {interface: the zone that filters its incoming packets}."""
    found = {}
    for name in map_interface_addresses(run):
        said = firewalld_others.find_interface_zones(root, run, name, running)
        found[name] = said[0][0] if said else default
    return found


def list_listener_interfaces(one: FirewallListener, held: dict[str, list[str]]) -> list[str]:
    """Return the interfaces over which a listener is reachable."""
    own = [name for name in held if set(held[name]) & set(one["addresses"])]
    wild = any(ipaddress.ip_address(text).is_unspecified for text in one["addresses"])
    return sorted(held) if wild or not own else own


def describe_listeners(found: list[FirewallListener]) -> str:
    """Describe listeners: ``8000/tcp (python3; 10.0.0.12 is connected)``."""
    texts = []
    for one in found:
        who = one["process"] or "an unknown process"
        more = ", ".join(one["clients"][:NAMED])
        more += " and {} more".format(len(one["clients"]) - NAMED) * (len(one["clients"]) > NAMED)
        verb = "is" if len(one["clients"]) == 1 else "are"
        who += f"; {more} {verb} connected" if one["clients"] else ""
        number, _, protocol = one["port"].partition("/")
        what = f"IP protocol {number}" if protocol == IP else one["port"]
        texts.append(f"{what} ({who})")
    return ", ".join(texts)


def build_open_option(one: FirewallListener) -> str:
    """Return firewall-cmd's option that opens a zone for a listener."""
    number, _, protocol = one["port"].partition("/")
    return f"--add-protocol={number}" if protocol == IP else "--add-port=" + one["port"]
