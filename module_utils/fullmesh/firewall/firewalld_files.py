# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Render Fullmesh's files in firewalld's configuration: zone, policies, ipsets, services. Standard library only."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import TYPE_CHECKING

from ..tools.firewalld import ETC

if TYPE_CHECKING:
    from typing import Any

    from .types import FirewallSettings


# Instead of tcp or udp, for the number of a protocol without ports.
IP = "ip"
MARK = "Written by Fullmesh (role peer_firewall); changes here are overwritten."
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<!-- ' + MARK + " -->\n"
# Before every policy of the user and of firewalld itself (allow-host-ipv6 has -15000): ssh always stays open.
SSH_PRIORITY = -20000
# After ssh, and before every zone, because its priority is negative (firewalld.policy(5)).
JOB_PRIORITY = -19000
# Ports for every client, including peers in Fullmesh's zone: before every zone as well.
ALL_PRIORITY = -18900
TUNNEL_PRIORITY = -18950
# Modes that bind the peers to Fullmesh's zone, so that they lose the ports of their previous zone.
BINDING = ("peers_only",)

# Kinds of addresses, each with an ipset for each family.
SETS = ("peers", "controllers", "tunnel")
FAMILIES = (("4", "ipv4", "inet"), ("6", "ipv6", "inet6"))


def group_by_family(addresses: list[str]) -> dict[str, list[str]]:
    """Group addresses and networks by family, without duplicates, loopback and scope.

    Mapped v4 addresses become v4.

    Networks inside of others are left out, because nftables rejects a set with overlapping intervals.
    """
    found: dict[str, set[Any]] = {"4": set(), "6": set()}
    for text in addresses:
        network: Any = ipaddress.ip_network(text.split("%")[0], strict=False)
        mapped = network.version == 6 and network.network_address.ipv4_mapped  # noqa: PLR2004 (IP version)
        if mapped and network.prefixlen == network.max_prefixlen:
            network = ipaddress.ip_network(mapped)
        if not network.is_loopback:
            found[str(network.version)].add(network)
    return {
        family: [format_network(one) for one in sorted(drop_nested_networks(found[family]))]
        for family in found
    }


def drop_nested_networks(networks: set[Any]) -> list[Any]:
    """Leave out networks that are inside of another one of the same family."""
    return [
        one
        for one in networks
        if not any(one != other and one.subnet_of(other) for other in networks)
    ]


def format_network(network: Any) -> str:
    """Format a network. A single address has no prefix."""
    single = network.prefixlen == network.max_prefixlen
    return str(network.network_address if single else network)


def render_ipset(short: str, family: str, entries: list[str]) -> str:
    """Render a set of addresses, or of networks if one is among them."""
    inet = {number: name for number, _, name in FAMILIES}[family]
    kind = "net" if any("/" in entry for entry in entries) else "ip"
    lines = [f'<ipset type="hash:{kind}">', f"  <short>{short}</short>"]
    lines.append(f'  <option name="family" value="{inet}"/>')
    lines += [f"  <entry>{entry}</entry>" for entry in entries]
    return HEAD + "\n".join([*lines, "</ipset>"]) + "\n"


def find_protocol_number(name: str) -> str:
    """Return a protocol's number (``vrrp``: 112, /etc/protocols). Unknown names stay unchanged."""
    try:
        return str(socket.getprotobyname(name))
    except OSError:
        return name


def quote_xml_value(text: str) -> str:
    """Quote an attribute's value. xml.sax.saxutils would import ssl, which takes 25 ms on each call."""
    for one, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(one, entity)
    return f'"{text}"'


def render_port_tag(port: str, indent: str) -> str:
    """Render ``50000-54095/tcp``, or ``112/ip``.

    A protocol alone would open all its ports, so only those without ports do.
    """
    number, protocol = port.split("/")
    if protocol == IP:
        return f"{indent}<protocol value={quote_xml_value(number)}/>"
    return f"{indent}<port port={quote_xml_value(number)} protocol={quote_xml_value(protocol)}/>"


def render_peer_zone(zone: str, families: list[str]) -> str:
    """Render the peers' zone of `peers_only`.

    It opens nothing, so everything but ICMP is rejected unless a policy allows it.
    """
    lines = ["<zone>", f"  <short>{zone}</short>"]
    lines.append("  <description>The nodes of the cluster, by their addresses.</description>")
    lines += [f'  <source ipset="{zone}-peers{family}"/>' for family in families]
    return HEAD + "\n".join([*lines, "</zone>"]) + "\n"


def render_policy(zone: str, who: str, families: list[str], ports: list[str]) -> str:
    """Render the policy that opens ports to the controllers, the peers or the tunnel's peers in every zone.

    A policy only adds. A separate zone would close ports that they can reach today. Without ports it opens all.
    """
    name, priority = {
        "controllers": ("ssh", SSH_PRIORITY),
        "peers": ("job", JOB_PRIORITY),
        "tunnel": ("tun", TUNNEL_PRIORITY),
    }[who]
    lines = [f'<policy target="CONTINUE" priority="{priority}">']
    lines.append(f"  <short>{zone}-{name}</short>")
    lines += ['  <ingress-zone name="ANY"/>', '  <egress-zone name="HOST"/>']
    names = {number: name for number, name, _ in FAMILIES}
    for family in families:
        for port in ports or [""]:
            lines.append(f'  <rule family="{names[family]}">')
            lines.append(f'    <source ipset="{zone}-{who}{family}"/>')
            lines += [render_port_tag(port, "    ")] if port else []
            lines += ["    <accept/>", "  </rule>"]
    return HEAD + "\n".join([*lines, "</policy>"]) + "\n"


def render_public_policy(zone: str, ports: list[str]) -> str:
    """Render the policy that opens ports of services to all clients."""
    lines = [
        f'<policy target="CONTINUE" priority="{ALL_PRIORITY}">',
        f"  <short>{zone}-all</short>",
    ]
    lines += ['  <ingress-zone name="ANY"/>', '  <egress-zone name="HOST"/>']
    lines += [render_port_tag(port, "  ") for port in ports]
    return HEAD + "\n".join([*lines, "</policy>"]) + "\n"


def render_ssh_service(ssh_ports: list[int]) -> str:
    """Render the service ``ssh`` for this node's ports."""
    lines = ["<service>", "  <short>SSH</short>"]
    lines += [render_port_tag(f"{port}/tcp", "  ") for port in ssh_ports]
    return HEAD + "\n".join([*lines, "</service>"]) + "\n"


def map_own_paths(zone: str) -> dict[str, str]:
    """Return every file that Fullmesh may own, by name."""
    found = {"zone": f"{ETC}/zones/{zone}.xml"}
    found["policy"] = f"{ETC}/policies/{zone}-ssh.xml"
    found["job"] = f"{ETC}/policies/{zone}-job.xml"
    found["all"] = f"{ETC}/policies/{zone}-all.xml"
    found["ufw"] = f"{ETC}/policies/{zone}-ufw.xml"
    found["tun"] = f"{ETC}/policies/{zone}-tun.xml"
    found["service"] = ETC + "/services/ssh.xml"
    for family, _, _ in FAMILIES:
        for who in SETS:
            found[who + family] = f"{ETC}/ipsets/{zone}-{who}{family}.xml"
    return found


def render_own_files(want: FirewallSettings) -> dict[str, str]:
    """Render every file.

    Empty content means that the file should not exist.

    *want*: zone, mode, peers, controllers, ports, controller_ports, public_ports, tunnel_peers, tunnel_ports,
    ssh_ports, own_service, ufw_policy.
    """
    zone, ssh = want["zone"], sorted(set(want["ssh_ports"]))
    place = map_own_paths(zone)
    result = dict.fromkeys(place.values(), "")
    peers, controllers = group_by_family(want["peers"]), group_by_family(want["controllers"])
    tunnel = group_by_family(want["tunnel_peers"])
    for family, _, _ in FAMILIES:
        for who, held in {"peers": peers, "controllers": controllers, "tunnel": tunnel}.items():
            if held[family]:
                short = f"{zone} {who}"
                result[place[who + family]] = render_ipset(short, family, held[family])
    doors = [f"{port}/tcp" for port in ssh]
    doors += [port for port in want["controller_ports"] if port not in doors]
    with_peers = [family for family in sorted(peers) if peers[family]]
    if want["mode"] in BINDING:
        result[place["zone"]] = render_peer_zone(zone, with_peers)
    result[place["job"]] = render_policy(zone, "peers", with_peers, list_job_ports(want))
    with_controllers = [family for family in sorted(controllers) if controllers[family]]
    if with_controllers:
        result[place["policy"]] = render_policy(zone, "controllers", with_controllers, doors)
    with_tunnel = [family for family in sorted(tunnel) if tunnel[family]]
    if with_tunnel:
        result[place["tun"]] = render_policy(zone, "tunnel", with_tunnel, want["tunnel_ports"])
    if want["public_ports"]:
        result[place["all"]] = render_public_policy(zone, want["public_ports"])
    if want["own_service"]:
        result[place["service"]] = render_ssh_service(ssh)
    result[place["ufw"]] = want["ufw_policy"]
    return result


def list_job_ports(want: FirewallSettings) -> list[str]:
    """Return the ports of the peers' policy: ssh and the plan's ports. [] if it opens everything."""
    if want["mode"] == "peers_trusted":
        return []
    doors = [f"{port}/tcp" for port in sorted(set(want["ssh_ports"]))]
    return doors + [port for port in want["ports"] if port not in doors]


def list_own_names(zone: str) -> set[str]:
    """Return the names of Fullmesh's zone, policies and ipsets. A reload may drop their run-time settings."""
    return {os.path.basename(path)[:-4] for path in map_own_paths(zone).values()} - {"ssh"}


def build_ipset_cleanup(zone: str) -> str:
    """Return the sh command that removes run-time entries of Fullmesh's sets that their files lack.

    With FlushAllOnReload=no firewalld adds every old entry again after a reload (its own reload(), 1.3.3).
    """
    names = [f"{zone}-{who}{family}" for family, _, _ in FAMILIES for who in SETS]
    return (
        "for s in {}; do "
        'k=" $(firewall-cmd --permanent --ipset=$s --get-entries 2>/dev/null | tr "\\n" " ") "; '
        "firewall-cmd --ipset=$s --get-entries 2>/dev/null | while read -r e; do "
        'case "$k" in *" $e "*) ;; *) firewall-cmd --ipset=$s --remove-entry="$e" </dev/null ;; esac; '
        "done; done"
    ).format(" ".join(names))
