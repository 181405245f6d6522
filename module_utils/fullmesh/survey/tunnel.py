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
from ..schema.links import TUNNEL_INTERFACE

if TYPE_CHECKING:
    from ..schema.survey import TunnelPeerState, TunnelState

CONFIG = f"/etc/wireguard/{TUNNEL_INTERFACE}.conf"
CLASS = "/sys/class/net"
SECONDS = 5
MOST_PEERS, MOST_NETWORKS = 4096, 4
LARGEST = 1 << 62


def ask_wg(what: str) -> list[list[str]]:
    """Return the fields of ``wg show INTERFACE WHAT``, [] if it prints nothing."""
    done = subprocess.run(
        ["wg", "show", TUNNEL_INTERFACE, what],
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
    there = os.path.isdir(os.path.join(CLASS, TUNNEL_INTERFACE))
    if not there and not os.path.exists(CONFIG):
        return None
    found: TunnelState = {"up": there and is_up(), "public_key": "", "peers": []}
    if not there:
        return found
    keys = [row[0] for row in ask_wg("public-key") if WIREGUARD_KEY.match(row[0])]
    found["public_key"], found["peers"] = (keys or [""])[0], list_peers(time.time())
    return found


def is_up() -> bool:
    """Return whether the interface is up."""
    with open(os.path.join(CLASS, TUNNEL_INTERFACE, "flags"), encoding="ascii") as stream:
        return bool(int(stream.read(), 16) & 1)


def list_peers(now: float) -> list[TunnelPeerState]:
    """List the peers with the age of their last handshake."""
    networks = {row[0]: row[1:] for row in ask_wg("allowed-ips")}
    ages = {row[0]: read_age(row[-1], now) for row in ask_wg("latest-handshakes")}
    found = []
    for key, allowed in networks.items():
        if not WIREGUARD_KEY.match(key):
            continue
        peer: TunnelPeerState = {
            "public_key": key,
            "networks": " ".join(allowed).split()[:MOST_NETWORKS],
            "age": ages.get(key, -1),
        }
        found.append(peer)
    return found


def read_age(text: str, now: float) -> int:
    """Return the seconds since a handshake, -1 if there was none."""
    at = parse_decimal(text, LARGEST)
    return max(0, int(now - at)) if at else -1
