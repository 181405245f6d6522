# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the parts of firewalld that Fullmesh does not own: zones, services, settings, and runtime state.

Standard library only.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from ..files import SPACE, read_text_or_empty, split_lines, split_words
from ..schema.ports import parse_port_range
from ..tools import firewalld, nmcli
from .firewalld_files import IP, find_protocol_number, group_by_family, list_own_names

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..commands import Runner

    # Zone, firewall-cmd's word, value.
    Addition = tuple[str, str, str]


def list_zone_names(root: str) -> list[str]:
    """Name every zone that has a file."""
    bases = (firewalld.ETC, firewalld.LIB)
    return sorted(
        {name for base in bases for name in firewalld.list_object_names(f"{root}{base}/zones")}
    )


def read_firewalld_setting(root: str, key: str, default: str) -> str:
    """Read one setting of firewalld.conf."""
    found = re.search(
        rf"^\s*{key}\s*=\s*(\S+)",
        read_text_or_empty(root + firewalld.ETC + "/firewalld.conf"),
        re.M | re.ASCII,
    )
    return found.group(1) if found else default


def has_port_tag(node: Any, port: int, protocol: str = "tcp") -> bool:
    """Return whether <port> tags of a zone, service or rule open a port."""
    for tag in node.findall("port"):
        span = parse_port_range(tag.get("port", ""))
        if span and port in span and tag.get("protocol") == protocol:
            return True
    alone = {find_protocol_number(tag.get("value", "")) for tag in node.findall("protocol")}
    return (str(port) if protocol == IP else find_protocol_number(protocol)) in alone


def has_service_port(root: str, name: str, port: int, protocol: str, depth: int = 0) -> bool:
    """Return whether a service, or one that it includes, has a port."""
    node = firewalld.read_object_file(root, "services", name)
    if node is None or depth > 5:  # noqa: PLR2004 (a service that includes itself)
        return False
    inside = [tag.get("service", "") for tag in node.findall("include")]
    return has_port_tag(node, port, protocol) or any(
        has_service_port(root, one, port, protocol, depth + 1) for one in inside
    )


def is_allowed_by_zone(root: str, zone: str, port: int, protocol: str = "tcp") -> bool:
    """Return whether a zone's file opens a port to all its clients."""
    node = firewalld.read_object_file(root, "zones", zone)
    if node is None:
        return False
    if node.get("target") == "ACCEPT":
        return True
    open_to_all = [
        rule
        for rule in node.findall("rule")
        if rule.find("accept") is not None
        and rule.find("source") is None
        and rule.find("destination") is None
    ]
    for one in [node, *open_to_all]:
        names = [tag.get("name", "") for tag in one.findall("service")]
        if has_port_tag(one, port, protocol) or any(
            has_service_port(root, name, port, protocol) for name in names
        ):
            return True
    return False


def has_zone_service(root: str, zone: str, name: str) -> bool:
    """Return whether a zone lists a service."""
    node = firewalld.read_object_file(root, "zones", zone)
    return node is not None and any(tag.get("name") == name for tag in node.findall("service"))


def list_zone_sources(root: str, zone: str) -> list[str]:
    """Return the networks of a zone, with ipsets resolved and without MAC addresses."""
    node = firewalld.read_object_file(root, "zones", zone)
    found: list[str] = []
    for tag in [] if node is None else node.findall("source"):
        if tag.get("address"):
            found.append(tag.get("address"))
        elif tag.get("ipset"):
            ipset = firewalld.read_object_file(root, "ipsets", tag.get("ipset"))
            entries = [] if ipset is None else ipset.findall("entry")
            found += [str(entry.text).strip(SPACE) for entry in entries]
    return found


def find_claiming_zones(root: str, own: str, peers: list[str]) -> list[str]:
    """Return other zones that claim a peer's address. firewalld uses only one zone, so they would decide."""
    addresses = [
        ipaddress.ip_address(one) for both in group_by_family(peers).values() for one in both
    ]
    found = []
    for zone in list_zone_names(root):
        for source in list_zone_sources(root, zone) if zone != own else []:
            try:
                network = ipaddress.ip_network(source, strict=False)
            except ValueError:
                continue
            inside = [str(one) for one in addresses if one in network]
            if inside:
                found.append("zone {} claims {} ({})".format(zone, source, ", ".join(inside[:3])))
    return found


def find_interface_zones(
    root: str, run: Runner, interface: str, running: bool
) -> list[tuple[str, str]]:
    """Return (zone, source) for an interface, from firewalld's files, the daemon, NetworkManager and ifcfg files."""
    found = []
    for zone in list_zone_names(root):
        node = firewalld.read_object_file(root, "zones", zone)
        tags = [] if node is None else node.findall("interface")
        if any(tag.get("name") == interface for tag in tags):
            found.append((zone, "its file"))
    if running:
        rc, out = run(["firewall-cmd", "--get-zone-of-interface=" + interface])
        found += (
            [(out.strip(SPACE), "firewalld at runtime")] if rc == 0 and out.strip(SPACE) else []
        )
    found += find_profile_zones(run, interface)
    text = read_text_or_empty(f"{root}/etc/sysconfig/network-scripts/ifcfg-{interface}")
    named = re.search(r"^ZONE=[\"']?([^\s\"']+)", text, re.M | re.ASCII)
    return found + ([(named.group(1), "ifcfg-" + interface)] if named else [])


def find_profile_zones(run: Runner, interface: str) -> list[tuple[str, str]]:
    """Return NetworkManager's connection.zone of the profile on an interface. Empty without NetworkManager."""
    rc, out = run(nmcli.build_value_command("GENERAL.CONNECTION", "device", interface))
    name = nmcli.parse_value(out)
    if rc != 0 or not name:
        return []
    rc, out = run(nmcli.build_value_command("connection.zone", "connection", name))
    zone = nmcli.parse_value(out)
    return (
        [(zone, f"connection.zone of NetworkManager's profile {name!r}")]
        if rc == 0 and zone
        else []
    )


def find_unsaved_settings(runtime: str, permanent: str, own: str, kind: str = "zone") -> list[str]:
    """Describe run-time settings of other zones or policies that a reload would drop.

    `find_unbound_interfaces` handles interfaces, and `find_runtime_additions` the settings that are restored.
    """
    ran, kept = firewalld.parse_zones(runtime), firewalld.parse_zones(permanent)
    found = []
    for name in sorted(set(ran) - list_own_names(own)):
        for key in sorted(set(ran[name]) - {"interfaces"}):
            then = kept.get(name, {}).get(key, [])
            back = kind == "zone" and can_add_again(key, ran[name][key], then)
            if ran[name][key] != then and not back:
                found.append(
                    "{} {}, {}: {}".format(kind, name, key, " ".join(ran[name][key]) or "none")
                )
    return found


# Run-time settings of others that are restored, with the word of firewall-cmd.
ADDED = {"sources": "source", "rich rules": "rich-rule"}


def can_add_again(key: str, ran: list[str], kept: list[str]) -> bool:
    """Return whether all run-time entries of a zone can be restored.

    Entries with a timeout cannot.

    Only rejecting rich rules are restored, such as fail2ban's bans: an accepting rule with a timeout would stay open.
    """
    more = [one for one in ran if one not in kept]
    return (
        key in ADDED
        and set(kept) <= set(ran)
        and (key == "sources" or all(map(is_rejecting_rule, more)))
    )


def is_rejecting_rule(rule: str) -> bool:
    """Return whether a rich rule rejects or drops. Quoted text is ignored."""
    words = split_words(re.sub(r'"[^"]*"', "", rule))
    return "accept" not in words and bool({"reject", "drop"} & set(words))


def build_add_command(zone: str, what: str, value: str) -> list[str]:
    """Return the command that adds a network (``source``) or a rule (``rich-rule``) to a zone at runtime."""
    return ["firewall-cmd", f"--zone={zone}", f"--add-{what}={value}"]


def find_runtime_additions(runtime: str, permanent: str, own: str) -> list[Addition]:
    """Return the run-time additions of others, which are restored after each reload.

    netavark adds container networks to zone trusted (its src/firewall/firewalld.rs), and only its
    netavark-firewalld-reload.service, which is disabled by default, would restore them. fail2ban's bans in EL's package
    are rich rules (fail2ban-firewalld), which no program restores.
    """
    ran, kept = firewalld.parse_zones(runtime), firewalld.parse_zones(permanent)
    return [
        (name, what, value)
        for name in sorted(set(ran) - list_own_names(own))
        for key, what in ADDED.items()
        for value in ran[name].get(key, [])
        if value not in kept.get(name, {}).get(key, [])
    ]


# -s NETWORK, in iptables' chain POSTROUTING, or the same in nftables' words (netavark's drivers of these names).
NETAVARK = re.compile(
    r"^-A POSTROUTING -s (\S+) .*-j NETAVARK-|\bip6? saddr (\S+) jump ", re.M | re.ASCII
)


def find_container_sources(run: Runner, saved: Iterable[str]) -> list[Addition]:
    """Return the sources that netavark would have added if firewalld had run when its containers started.

    Without them, firewalld's start blocks the containers' outgoing connections and their way to the node's name server,
    until the next start of a container. *saved*: the output of iptables-save.
    """
    rc, out = run(["nft", "list", "chain", "inet", "netavark", "POSTROUTING"])
    text = "\n".join([*saved, out if rc == 0 else ""])
    found = [one or other for one, other in NETAVARK.findall(text)]
    return [("trusted", "source", network) for network in dict.fromkeys(found)]


# Their owners hear of a reload (the signal Reloaded) and bind them again: moby's firewalld.go, libvirt's network
# driver, NetworkManager for shared connections.
REBOUND = frozenset(["docker", "docker-forwarding", "libvirt", "libvirt-routed", "nm-shared"])


def find_unbound_interfaces(
    run: Runner, runtime: str, permanent: str, passed: list[str]
) -> list[str]:
    """Return the interfaces that a reload would move to the default zone.

    A reload only restores those from the files and from NetworkManager (firewalld's own reload(), 1.3.3). *passed*:
    zones that do not matter, including the default one.
    """
    ran, kept = firewalld.parse_zones(runtime), firewalld.parse_zones(permanent)
    found = []
    for zone in sorted(set(ran) - set(passed) - REBOUND):
        for interface in ran[zone].get("interfaces", []):
            if interface in kept.get(zone, {}).get("interfaces", []):
                continue
            if zone not in [name for name, _ in find_profile_zones(run, interface)]:
                found.append(f"zone {zone}, interfaces: {interface}")
    return found


def has_full_flush(root: str) -> bool:
    """Return whether a reload drops interfaces, direct rules and ipset entries as well, which is the default."""
    return read_firewalld_setting(root, "FlushAllOnReload", "yes").lower() not in ("no", "false")


def find_unsaved_entries(run: Runner, own: str) -> list[str]:
    """Return run-time entries of foreign ipsets, and run-time direct rules."""
    asked = [("direct rule", ["--direct", "--get-all-rules"])]
    names = split_words(run(["firewall-cmd", "--get-ipsets"])[1])
    for name in sorted(set(names) - list_own_names(own)):
        asked.append(("ipset " + name, ["--ipset=" + name, "--get-entries"]))
    found = []
    for what, words in asked:
        rc, ran = run(["firewall-cmd", *words])
        kept_rc, kept = run(["firewall-cmd", "--permanent", *words])
        # The entries of a set with a timeout cannot be listed.
        lost = sorted(set(split_lines(ran)) - set(split_lines(kept))) if rc == kept_rc == 0 else []
        if lost:
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""  # noqa: PLR2004 (examples)
            found.append("{}: {}{}".format(what, ", ".join(lost[:3]), more))
    return found
