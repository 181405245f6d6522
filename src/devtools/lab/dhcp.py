"""A lab whose nodes have one network interface with a lease, as an installer leaves a machine.

On the cluster bridge only, this machine is router and DHCP server. As the controller, it has an address beyond that
router. So a node needs the right gateway to answer it, as in any larger network.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from devtools.lab import host
from devtools.lab.errors import StepError
from devtools.lab.paths import Paths
from devtools.lab.plan import Node
from devtools.lab.state import Lab

PACKAGES = {"dnsmasq-base": "dnsmasq"}
LEASE = "1h"


def own_addresses(lab: Lab) -> list[tuple[str, str]]:
    """Return this machine's addresses and their interfaces: router on the bridge, and the controller behind it."""
    bridge = lab.bridges[1]
    found = [(f"10.78.{lab.index}.1/24", bridge), (f"10.77.{lab.index}.1/32", "lo")]
    if lab.ipv6:
        found += [(f"fd78:0:0:{lab.index:x}::1/64", bridge), (f"{lab.controller}/128", "lo")]
    return found


def host_entry(node: Node) -> str:
    """Return the option that gives a node the same lease each time, by its MAC."""
    address = node.management_address
    return f"--dhcp-host={node.mac},{f'[{address}]' if ':' in address else address},{LEASE}"


def command(lab: Lab, folder: Path) -> list[str]:
    """Return dnsmasq's arguments: DHCP on one bridge, no name service, no settings from /etc."""
    argv = ["dnsmasq", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--port=0"]
    argv += ["--user=root", f"--interface={lab.bridges[1]}", "--except-interface=lo"]
    argv += ["--bind-interfaces", "--dhcp-authoritative", "--dhcp-no-override", "--no-ping"]
    argv += [f"--pid-file={folder}/dnsmasq.pid", f"--dhcp-leasefile={folder}/leases"]
    argv += [f"--log-facility={folder}/dnsmasq.log"]
    # Otherwise dnsmasq announces itself as name server, which it is not here, and lookups in the nodes wait for it.
    argv += ["--dhcp-option=6", "--dhcp-option=option6:dns-server"]
    if lab.ipv6:
        net = f"fd78:0:0:{lab.index:x}"
        argv += ["--enable-ra", f"--dhcp-range={net}::f000,{net}::ffff,64,{LEASE}"]
    else:
        net = f"10.78.{lab.index}"
        argv += [f"--dhcp-range={net}.200,{net}.250,{LEASE}", f"--dhcp-option=3,{net}.1"]
    return argv + [host_entry(node) for node in lab.nodes if not node.outsider]


def serve(paths: Paths, lab: Lab, folder: Path) -> None:
    """Give this machine its addresses and start the server, unless it runs."""
    host.ensure_packages(paths, PACKAGES)
    bridge = lab.bridges[1]
    if lab.ipv6:
        Path(f"/proc/sys/net/ipv6/conf/{bridge}/disable_ipv6").write_text("0\n")
    # A router does not answer ARP for addresses behind it, and asks with its own address. So a node that takes the
    # controller for a neighbor is wrong, and must not learn the controller's hardware address from an ARP request.
    for name, value in (("arp_ignore", "1"), ("arp_announce", "2")):
        Path(f"/proc/sys/net/ipv4/conf/{bridge}/{name}").write_text(f"{value}\n")
    for address, interface in own_addresses(lab):
        nodad = ["nodad"] if ":" in address else []
        host.capture(["ip", "address", "replace", address, "dev", interface, *nodad])
    # Packets to other addresses of the lab's networks never leave this machine.
    host.route("replace", "unreachable", f"10.77.{lab.index}.0/24")
    if running(folder):
        return
    done = host.capture(command(lab, folder))
    if done.returncode:
        raise StepError(f"dnsmasq: exit {done.returncode}: {done.stderr.strip()}")


def running(folder: Path) -> int:
    """Return the server's process id, 0 if it does not run."""
    file = folder / "dnsmasq.pid"
    if not file.exists():
        return 0
    number = file.read_text().strip()
    name = Path(f"/proc/{number}/comm")
    return int(number) if name.exists() and name.read_text().strip() == "dnsmasq" else 0


def stop(lab: Lab, folder: Path) -> None:
    """End the server of this lab, and remove this machine's addresses that are not on a bridge."""
    number = running(folder)
    if number:
        os.kill(number, signal.SIGTERM)
    if lab.dhcp:
        for address, interface in own_addresses(lab):
            host.capture(["ip", "address", "del", address, "dev", interface])
        host.route("del", "unreachable", f"10.77.{lab.index}.0/24")
