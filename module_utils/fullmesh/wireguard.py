# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Configure the WireGuard tunnel of a node: its key, its configuration and its unit.

The private key is made here. It is in two files of root's, and in no result, diff or message. Standard library only.
"""

from __future__ import annotations

import ipaddress
import os
import re
import stat
import time
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from .answer import make_diff
from .commands import NOT_FOUND
from .files import SPACE, read_text_or_empty, split_lines, write_file_atomically
from .node_values import WIREGUARD_KEY
from .schema.links import TUNNEL_SESSION_SECONDS

if TYPE_CHECKING:
    from .answer import Diff
    from .commands import SplitRunner

FOLDER = "/etc/wireguard"
PRIVATE, FOLDER_MODE = 0o600, 0o700
# wg-quick subtracts the same from the MTU of the interface with the route: 40 bytes of IPv6, 8 of UDP, 32 of WireGuard.
OVERHEAD, LOWEST_MTU = 80, 1280
# Seconds between two packets without payload. Each peer is tried all the time, so a blocked port is visible at once.
KEEPALIVE = 25
# A lost handshake is repeated after 5 s (REKEY_TIMEOUT).
HANDSHAKE_SECONDS = 20.0
PAUSE_SECONDS = 0.25
MARK = "# Ansible managed (Fullmesh, role wireguard)\n"
HIDDEN = "PrivateKey = (hidden)"
LARGEST_LINES = 3


class WireGuardPeer(TypedDict):
    """Another node: its name, its public key, its address in the tunnel, and the address and port of its link."""

    name: str
    public_key: str
    address: str
    endpoint: str


class WireGuardParams(TypedDict):
    """The parameters of wireguard_link. The module documents them."""

    state: str
    interface: str
    address: str
    port: int
    nic: str
    peers: list[WireGuardPeer]
    keep: list[str]


class WireGuardKeyResult(TypedDict):
    """The result of state key."""

    changed: bool
    public_key: str
    needs_packages: bool
    userspace: bool


class WireGuardResult(TypedDict):
    """The result of state present. *steps*: of systemctl, that the unit needed."""

    changed: bool
    diff: list[Diff]
    steps: list[str]


class WireGuardDevice(TypedDict):
    """A running interface. *peers*: public key -> the networks that it may use, as wg prints them."""

    private_key: str
    port: str
    peers: dict[str, str]


class WireGuardTarget(NamedTuple):
    """The wanted state of the interface, in addition to the parameters."""

    private: str
    mtu: int
    peers: list[WireGuardPeer]


class WireGuardError(Exception):
    """A coded sentence for the user."""


def get_config_path(interface: str) -> str:
    """Return the path of the configuration."""
    return f"{FOLDER}/{interface}.conf"


def get_key_path(interface: str) -> str:
    """Return the path of the private key."""
    return f"{FOLDER}/{interface}.key"


def get_unit(interface: str) -> str:
    """Return the unit that wireguard-tools provides for an interface."""
    return f"wg-quick@{interface}.service"


def has_kernel_module(run: SplitRunner, root: str = "") -> bool:
    """Return whether the kernel has WireGuard, loaded or not."""
    if os.path.isdir(root + "/sys/module/wireguard"):
        return True
    return run(["modprobe", "--dry-run", "--quiet", "wireguard"])[0] == 0


def ensure_key(params: WireGuardParams, run: SplitRunner, check: bool) -> WireGuardKeyResult:
    """Make the node's key if it has no usable one. Return the public half.

    Without the programs, nothing is changed, and the result says so.
    """
    missing = run(["wg", "--version"])[0] == NOT_FOUND
    userspace = not has_kernel_module(run)
    if userspace and not missing:
        missing = run(["wireguard-go", "--version"])[0] == NOT_FOUND
    found: WireGuardKeyResult = {
        "changed": missing,
        "public_key": "",
        "needs_packages": missing,
        "userspace": userspace,
    }
    if missing:
        return found
    path = get_key_path(params["interface"])
    private = read_private_key(path)
    if not private:
        found["changed"] = True
        if check:
            return found
        private = ask_wg(run, ["wg", "genkey"])
        write_private_file(path, private + "\n")
    elif stat.S_IMODE(os.stat(path).st_mode) != PRIVATE:
        found["changed"] = True
        if not check:
            os.chmod(path, PRIVATE)
    # the key goes to wg through the file: an argument or the environment is visible to others
    found["public_key"] = ask_wg(run, ["sh", "-c", 'wg pubkey < "$0"', path])
    return found


def read_private_key(path: str) -> str:
    """Return the private key in a file, or "" if there is no usable one."""
    text = read_text_or_empty(path).strip(SPACE)
    return text if WIREGUARD_KEY.match(text) else ""


def write_private_file(path: str, text: str) -> None:
    """Write a file that only root may read."""
    if not os.path.isdir(FOLDER):
        os.makedirs(FOLDER, FOLDER_MODE)
    write_file_atomically(path, text, mode=PRIVATE)


def ask_wg(run: SplitRunner, command: list[str]) -> str:
    """Return the key that wg prints."""
    rc, out, err = run(command)
    text = out.strip(SPACE)
    if rc or not WIREGUARD_KEY.match(text):
        said = (split_lines(err.strip(SPACE)) or [""])[-1] or f"exit status {rc}"
        raise WireGuardError(f"[WG-103] {command[0]} cannot make a key: {said}. Check: wg genkey")
    return text


# --- the configuration ----------------------------------------------------------------------------


def render_config(params: WireGuardParams, target: WireGuardTarget) -> str:
    """Render the configuration for wg-quick(8). Each peer may use exactly its own address."""
    lines = ["[Interface]", f"PrivateKey = {target.private}", f"Address = {params['address']}"]
    lines += [f"ListenPort = {params['port']}", f"MTU = {target.mtu}"]
    for peer in target.peers:
        lines += ["", f"# {peer['name']}", "[Peer]", f"PublicKey = {peer['public_key']}"]
        lines += [f"AllowedIPs = {format_host_network(peer['address'])}"]
        lines += [f"Endpoint = {peer['endpoint']}", f"PersistentKeepalive = {KEEPALIVE}"]
    return MARK + "\n".join(lines) + "\n"


def format_host_network(address: str) -> str:
    """Return the network of one address: 10.86.0.12/32."""
    return str(ipaddress.ip_network(address))


def parse_config_peers(text: str) -> list[WireGuardPeer]:
    """Read the peers of an earlier configuration. A section that cannot be read is left out."""
    found = []
    for block in text.split("\n# ")[1:]:
        lines = split_lines(block)
        pairs = [line.split("=", 1) for line in lines if "=" in line]
        values = {name.strip(SPACE): value.strip(SPACE) for name, value in pairs}
        try:
            network = ipaddress.ip_network(values.get("AllowedIPs", ""))
        except ValueError:
            continue
        key, endpoint = values.get("PublicKey", ""), values.get("Endpoint", "")
        if WIREGUARD_KEY.match(key) and endpoint and network.num_addresses == 1:
            peer: WireGuardPeer = {
                "name": lines[0],
                "public_key": key,
                "address": str(network.network_address),
                "endpoint": endpoint,
            }
            found.append(peer)
    return found


def choose_peers(params: WireGuardParams, earlier: str) -> list[WireGuardPeer]:
    """Return the peers of this run, and those of an earlier one that are in the plan but not in this run (--limit)."""
    given = {peer["address"]: peer for peer in params["peers"]}
    kept = [
        peer
        for peer in parse_config_peers(earlier)
        if peer["address"] in params["keep"] and peer["address"] not in given
    ]
    return sorted([*params["peers"], *kept], key=lambda peer: peer["name"])


def read_mtu(nic: str, root: str = "") -> int:
    """Return the MTU of the tunnel: that of the node's NIC without WireGuard's headers."""
    text = read_text_or_empty(f"{root}/sys/class/net/{nic}/mtu").strip(SPACE)
    mtu = int(text) - OVERHEAD if text.isdecimal() and len(text) <= len("65535") else 0
    if mtu < LOWEST_MTU:
        raise WireGuardError(
            f"[WG-104] The tunnel needs an MTU of at least {LOWEST_MTU + OVERHEAD} on {nic}, seen {text or 'none'}. "
            f"Fix: set mtu of this link in fullmesh_links"
        )
    return mtu


def mask_key(text: str) -> str:
    """Return a configuration without its private key."""
    return re.sub(r"(?m)^\s*PrivateKey\s*=.*$", HIDDEN, text)


# --- the running interface ------------------------------------------------------------------------


def parse_device(text: str) -> WireGuardDevice | None:
    """Parse ``wg show INTERFACE dump``. Return None if it is empty."""
    rows = [line.split("\t") for line in split_lines(text.strip("\n")) if line]
    head, rest = (rows[0], rows[1:]) if rows else ([], [])
    if len(head) != len(("private key", "public key", "port", "fwmark")):
        return None
    most = len(("public key", "preshared key", "endpoint", "allowed ips"))
    return {
        "private_key": head[0],
        "port": head[2],
        "peers": {row[0]: row[most - 1] for row in rest if len(row) >= most},
    }


def choose_device_steps(
    params: WireGuardParams, run: SplitRunner, target: WireGuardTarget, root: str = ""
) -> list[str]:
    """Compare the running interface with the wanted state. Return the step of its unit that corrects it."""
    rc, out, _ = run(["wg", "show", params["interface"], "dump"])
    device = parse_device(out) if rc == 0 else None
    _, shown, _ = run(["ip", "-o", "address", "show", "dev", params["interface"]])
    folder = f"{root}/sys/class/net/{params['interface']}"
    flags = read_text_or_empty(f"{folder}/flags").strip(SPACE) or "0"
    if (
        device is None
        or f" {params['address']} " not in shown
        or not int(flags, 16) & 1
        or read_text_or_empty(f"{folder}/mtu").strip(SPACE) != str(target.mtu)
        or device["private_key"] != target.private
        or device["port"] != str(params["port"])
    ):
        return ["restart"]
    wanted = {peer["public_key"]: format_host_network(peer["address"]) for peer in target.peers}
    return ["reload"] if device["peers"] != wanted else []


def install_tunnel(params: WireGuardParams, run: SplitRunner, check: bool) -> WireGuardResult:
    """Write the configuration, enable the unit, and start it or give it the new peers."""
    path, unit = get_config_path(params["interface"]), get_unit(params["interface"])
    private = read_private_key(get_key_path(params["interface"]))
    earlier = read_text_or_empty(path)
    target = WireGuardTarget(private, read_mtu(params["nic"]), choose_peers(params, earlier))
    text = render_config(params, target)
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else PRIVATE
    differs = text != earlier or mode != PRIVATE
    steps = choose_device_steps(params, run, target) if private else ["restart"]
    if text != earlier and not steps:
        steps = ["reload"]
    if run(["systemctl", "is-enabled", "--quiet", unit])[0]:
        steps = ["enable", *steps]
    if run(["systemctl", "is-active", "--quiet", unit])[0]:
        steps = [one for one in steps if one == "enable"] + ["restart"]
    if not check:
        if differs:
            write_private_file(path, text)
        for step in steps:
            run_unit_step(run, step, unit)
    diff = [make_diff(path, mask_key(earlier), mask_key(text))] if differs else []
    return {"changed": differs or bool(steps), "diff": diff, "steps": steps}


def run_unit_step(run: SplitRunner, step: str, unit: str) -> None:
    """Enable, start or reload the unit.

    Raises:
        WireGuardError: with the last lines of its journal.
    """
    rc, _, err = run(["systemctl", step, unit])
    if not rc:
        return
    _, lines, _ = run(
        ["journalctl", "--no-pager", "-o", "cat", "-n", str(LARGEST_LINES), "-u", unit]
    )
    said = "; ".join(split_lines((lines or err).strip(SPACE))) or f"exit status {rc}"
    raise WireGuardError(
        f"[WG-105] systemctl {step} {unit} failed: {said[:400]}. Check: journalctl -u {unit}"
    )


def wait_for_handshakes(params: WireGuardParams, run: SplitRunner) -> list[str]:
    """Wait until each peer has a session. Return the names of those without."""
    wanted = {peer["public_key"]: peer["name"] for peer in params["peers"]}
    end = time.monotonic() + HANDSHAKE_SECONDS
    while True:
        _, out, _ = run(["wg", "show", params["interface"], "latest-handshakes"])
        fresh = list_fresh_keys(out, time.time())
        silent = sorted(name for key, name in wanted.items() if key not in fresh)
        if not silent or time.monotonic() >= end:
            return silent
        time.sleep(PAUSE_SECONDS)


def list_fresh_keys(text: str, now: float) -> set[str]:
    """Return the public keys of the peers with a session, from ``wg show INTERFACE latest-handshakes``."""
    found = set()
    for line in split_lines(text):
        key, _, at = line.partition("\t")
        if at.isdecimal() and at != "0" and now - int(at) < TUNNEL_SESSION_SECONDS:
            found.add(key)
    return found


def check_tunnel(params: WireGuardParams, run: SplitRunner) -> None:
    """Refuse a tunnel in which a peer does not answer."""
    silent = wait_for_handshakes(params, run)
    if silent:
        port = params["port"]
        raise WireGuardError(
            f"[WG-106] {', '.join(silent)} did not answer in the tunnel within {HANDSHAKE_SECONDS:g} s. Fix: let UDP "
            f"port {port} pass between the nodes, also in a firewall outside of them. Check: wg show "
            f"{params['interface']}, and tcpdump -ni {params['nic']} udp port {port}"
        )


def stop_tunnel(interface: str, run: SplitRunner, check: bool) -> bool:
    """Stop and disable the unit, which reads its configuration for that. Return whether it was on."""
    unit = get_unit(interface)
    on = any(
        run(["systemctl", word, "--quiet", unit])[0] == 0 for word in ("is-active", "is-enabled")
    )
    if on and not check:
        run_unit_step(run, "stop", unit)
        run_unit_step(run, "disable", unit)
    return on
