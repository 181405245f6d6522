# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define patterns for all values from nodes or users that reach a file, a path, a command or an inventory.

Answers of nodes are not trusted: a node can be broken or compromised. ``fullmesh.contract`` checks each answer against
CHECKED, so that later code can use the values directly. A node omits values that do not match, so that a good node with
an odd interface is not rejected.

Runs on nodes as well: standard library only. Each pattern matches a whole text.
"""

from __future__ import annotations

import re

# The kernel accepts any byte but "/", ":" and white space (net/core/dev.c, dev_valid_name). These are the names that
# udev, systemd, NetworkManager and people use.
INTERFACE_NAME = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,14}\Z")
INTERFACE_OR_NONE = re.compile(r"\A(?:[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,14})?\Z")
MAC = re.compile(r"\A(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}\Z")
# Of any kind of interface: InfiniBand's has 20 bytes, a tunnel's is an IP address.
HARDWARE_ADDRESS = re.compile(r"\A[0-9A-Fa-f:.]{0,64}\Z")
# An IPv6 zone is a name, and ``ipaddress`` takes any text for it, line feeds too.
ADDRESS = re.compile(r"\A[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,14})?\Z")
ADDRESS_OR_NONE = re.compile(
    r"\A(?:[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,14})?)?\Z"
)
PREFIXED_ADDRESS = re.compile(r"\A[0-9A-Fa-f:.]{2,45}/[0-9]{1,3}\Z")
# A port of a switch, as its LLDP names it: Ethernet1/7, swp3s0, "Unit 1 Port 4".
SWITCH_PORT = re.compile(r"\A(?:[A-Za-z0-9][A-Za-z0-9 ._:/-]{0,63})?\Z")
# RFC 1123 2.1
HOST_NAME = re.compile(r"\A(?!-)[A-Za-z0-9-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\Z")
# A machine's own name, which RFC 1123 does not always allow.
OWN_NAME = re.compile(r"\A(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,252})?\Z")
# resolv.conf(5). A leading "~" marks a routing-only domain (systemd.network(5)).
SEARCH_DOMAIN = re.compile(
    r"\A(?:~\.|~?[A-Za-z0-9_][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62}){0,30}\.?)\Z"
)
# One word: a distribution's version, a machine's architecture, a package manager.
WORD = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_.+~-]{0,63}\Z")
WORD_OR_NONE = re.compile(r"\A(?:[A-Za-z0-9][A-Za-z0-9_.+~-]{0,63})?\Z")
# An interface's name, a word, or nothing.
NAME_OR_NONE = re.compile(r"\A(?:[A-Za-z0-9_][A-Za-z0-9_.@+~-]{0,63})?\Z")
# A distribution's name and release, which may have blanks.
SYSTEM_NAME = re.compile(r"\A(?:[A-Za-z0-9][A-Za-z0-9 _.+~-]{0,63})?\Z")
PYTHON_VERSION = re.compile(r"\A(?:[0-9]{1,2}\.[0-9]{1,3})?\Z")
FULL_PYTHON_VERSION = re.compile(r"\A[0-9]{1,2}\.[0-9]{1,3}(?:\.[0-9A-Za-z+]{1,16})?\Z")
# A line of ssh_host_*_key.pub: kind, key, and a remark.
PUBLIC_KEY = re.compile(
    r"\A([a-z0-9][a-z0-9@.-]{0,63}) ([A-Za-z0-9+/]{16,16000}={0,2})(?: [ -~]{0,500})?\Z"
)
# A key of WireGuard: 32 bytes in base64, so the last letter has two unused bits.
WIREGUARD_KEY = re.compile(r"\A[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\Z")
WIREGUARD_KEY_OR_NONE = re.compile(r"\A(?:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)?\Z")
# A port of an RDMA device: mlx5_0:1. An entry of its GID table, by its number. A counter of its driver.
RDMA_PORT = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}:[0-9]{1,3}\Z")
GID_ENTRY = re.compile(r"\A[0-9A-Fa-f:]{1,39}\Z")
COUNTER = re.compile(r"\A[a-z][a-z0-9_.]{0,39}\Z")
SHA256 = re.compile(r"\A[0-9a-f]{64}\Z")
# An absolute path without "..", control characters and template marks.
PATH_OR_NONE = re.compile(r"\A(?:(?!.*/\.\.(?:/|\Z))/[^\x00-\x1f\x7f{}]{0,1023})?\Z")

# Record of ``fullmesh.observed`` -> field -> pattern. A field of lists or mappings: each text in it, keys too.
CHECKED = {
    "node.Interface": {
        "name": INTERFACE_NAME,
        "kind": WORD_OR_NONE,
        "mac": HARDWARE_ADDRESS,
        "state": WORD_OR_NONE,
        "addresses": PREFIXED_ADDRESS,
    },
    "node.PortGid": {"gid": ADDRESS, "interface": INTERFACE_OR_NONE},
    "node.Port": {"device": WORD, "driver": WORD_OR_NONE, "layer": WORD_OR_NONE},
    "node.Accelerator": {"vendor": WORD, "driver": WORD_OR_NONE},
    "node.Accelerators": {"nvidia_driver": WORD_OR_NONE},
    "node.Observations": {"hcas": WORD, "container": WORD_OR_NONE},
    "node.Python": {"executable": PATH_OR_NONE},
    "node.Facts": {
        "distribution": SYSTEM_NAME,
        "distribution_version": WORD_OR_NONE,
        "distribution_major_version": WORD_OR_NONE,
        "distribution_release": SYSTEM_NAME,
        "os_family": WORD_OR_NONE,
        "pkg_mgr": WORD_OR_NONE,
        "service_mgr": WORD_OR_NONE,
        "hostname": OWN_NAME,
        "nodename": OWN_NAME,
        "fqdn": OWN_NAME,
        "architecture": WORD,
        "kernel": WORD,
        "python_version": FULL_PYTHON_VERSION,
    },
    "hang.RankRdmaPort": {
        "port": RDMA_PORT,
        "interface": INTERFACE_OR_NONE,
        "state": WORD_OR_NONE,
    },
    "hang.RdmaPortState": {"gids": GID_ENTRY, "errors": COUNTER},
    "first_look.Default": {"via": ADDRESS_OR_NONE, "dev": INTERFACE_OR_NONE},
    "first_look.NicPort": {
        "nic": INTERFACE_NAME,
        "chip": HARDWARE_ADDRESS,
        "port": WORD_OR_NONE,
    },
    "first_look.NicNeighbor": {"nic": INTERFACE_NAME, "mac": MAC},
    "first_look.LldpNeighbor": {
        "nic": INTERFACE_NAME,
        "mac": HARDWARE_ADDRESS,
        "system": OWN_NAME,
        "port": SWITCH_PORT,
    },
    "first_look.Ways": {
        "owners": NAME_OR_NONE,
        "leased": INTERFACE_NAME,
        "dns": ADDRESS,
        "search": SEARCH_DOMAIN,
    },
    "torch.VenvSeen": {"python": PYTHON_VERSION, "machine": WORD_OR_NONE, "have": SHA256},
}

# Further checks for records that a diagnosis reads. It drops other values, because findings use these in commands.
NAMED = {
    "survey.Nic": {
        "name": INTERFACE_NAME,
        "mac": HARDWARE_ADDRESS,
        "state": WORD_OR_NONE,
        "duplex": WORD_OR_NONE,
        "addresses": PREFIXED_ADDRESS,
        "master": INTERFACE_OR_NONE,
        "master_kind": WORD_OR_NONE,
    },
    "survey.TunnelState": {"public_key": WIREGUARD_KEY_OR_NONE},
    "survey.TunnelPeerState": {"public_key": WIREGUARD_KEY},
    "survey.ShapedQueue": {"card": INTERFACE_NAME},
    "survey.Route": {"via": ADDRESS_OR_NONE, "dev": INTERFACE_OR_NONE, "src": ADDRESS_OR_NONE},
    "survey.Neighbour": {"mac": HARDWARE_ADDRESS, "dev": INTERFACE_OR_NONE},
    "survey.Listener": {"address": ADDRESS},
    "survey.RdmaPort": {"device": WORD},
    "survey.Gid": {"gid": ADDRESS},
    "ladder.RdmaResult": {
        "device": WORD,
        "gid": ADDRESS,
        "peer_device": WORD,
        "peer_gid": ADDRESS,
    },
    "ladder.PlannedNic": {"name": INTERFACE_OR_NONE},
    "ladder.RailLink": {
        "own": ADDRESS,
        "address": ADDRESS,
        "dev": INTERFACE_OR_NONE,
        "via": ADDRESS_OR_NONE,
        "mac": HARDWARE_ADDRESS,
    },
    "ladder.RailOwner": {"mac": HARDWARE_ADDRESS},
}
