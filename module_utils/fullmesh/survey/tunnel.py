# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the WireGuard tunnel of role wireguard: its public key and its peers, never a private key."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal
from ..node_values import WIREGUARD_KEY

if TYPE_CHECKING:
    from ..schema.survey import TunnelPeerState, TunnelState

# As in the cluster plan. Other WireGuard interfaces are not read.
INTERFACE = "fullmesh-wg"
CONFIG = f"/etc/wireguard/{INTERFACE}.conf"
CLASS = "/sys/class/net"
SECONDS = 5
MOST_PEERS, MOST_NETWORKS = 4096, 4
LARGEST_PORT, LARGEST = 65535, 1 << 62


def ask_wg(what: str) -> list[list[str]]:
    """Return the fields of ``wg show INTERFACE WHAT``, [] if it prints nothing."""
    done = subprocess.run(
        ["wg", "show", INTERFACE, what],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=SECONDS,
    )
    lines = done.stdout.decode("ascii", "replace").split("\n")
    return [line.split("\t") for line in lines if line][:MOST_PEERS]


def survey_tunnel() -> TunnelState | None:
    """Return the state of the tunnel. None if the node has none, or if only root could read it."""
    if os.geteuid() != 0:
        return None
    there = os.path.isdir(os.path.join(CLASS, INTERFACE))
    if not there and not os.path.exists(CONFIG):
        return None
    found: TunnelState = {"up": there and is_up(), "public_key": "", "port": 0, "peers": []}
    if not there:
        return found
    keys = [row[0] for row in ask_wg("public-key") if WIREGUARD_KEY.match(row[0])]
    ports = [parse_decimal(row[0], LARGEST_PORT) for row in ask_wg("listen-port")]
    found["public_key"], found["port"] = (keys or [""])[0], (ports or [0])[0] or 0
    found["peers"] = list_peers(time.time())
    return found


def is_up() -> bool:
    """Return whether the interface is up."""
    with open(os.path.join(CLASS, INTERFACE, "flags"), encoding="ascii") as stream:
        return bool(int(stream.read(), 16) & 1)


def list_peers(now: float) -> list[TunnelPeerState]:
    """List the peers with the age of their last handshake and their counters."""
    networks = {row[0]: row[1:] for row in ask_wg("allowed-ips")}
    ages = {row[0]: read_age(row[-1], now) for row in ask_wg("latest-handshakes")}
    counters = {row[0]: row[1:] for row in ask_wg("transfer")}
    found = []
    for key, allowed in networks.items():
        if not WIREGUARD_KEY.match(key):
            continue
        received, sent = [parse_decimal(one, LARGEST) or 0 for one in counters.get(key, [])] or [
            0,
            0,
        ]
        peer: TunnelPeerState = {
            "public_key": key,
            "networks": " ".join(allowed).split()[:MOST_NETWORKS],
            "age": ages.get(key, -1),
            "received": received,
            "sent": sent,
        }
        found.append(peer)
    return found


def read_age(text: str, now: float) -> int:
    """Return the seconds since a handshake, -1 if there was none."""
    at = parse_decimal(text, LARGEST)
    return max(0, int(now - at)) if at else -1
