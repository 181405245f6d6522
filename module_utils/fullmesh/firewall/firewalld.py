# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Compare the kernel's rules from firewalld with Fullmesh's files. Standard library only."""

from __future__ import annotations

import hashlib
import importlib
import ipaddress
import json
import os
import re
from typing import TYPE_CHECKING

from ..files import SPACE, read_text_or_empty
from ..tools import nft
from ..tools.firewalld import parse_zones
from .firewalld_files import (
    BINDING,
    IP,
    find_protocol_number,
    format_network,
    group_by_family,
    list_job_ports,
    list_own_names,
    map_own_paths,
)
from .firewalld_others import read_firewalld_setting

if TYPE_CHECKING:
    from typing import Any

    from ..commands import Runner
    from .types import FirewallSettings

    # libnftables-json(5): the tool's own JSON
    Json = dict[str, Any]

FAMILIES = ("4", "6")
WHOLE = "a protocol"  # ports of a rule that accepts all


def run_libnftables(command: str) -> tuple[int, str]:
    """Use libnftables: Debian's firewalld depends on the library, but not on the command nft."""
    try:
        nftables = importlib.import_module(
            "nftables"
        )  # the OS's own Python (missing on a minimal node)
    except ImportError as exc:
        return 127, str(exc)
    link = nftables.Nftables()
    link.set_json_output(True)
    rc, out, said = link.cmd(command)
    return int(rc), str(out) if rc == 0 else str(said)


def query_libnftables(command: str = "list table inet firewalld") -> str:
    """Return the output of libnftables, or "" if it fails."""
    rc, out = run_libnftables(command)
    return out if rc == 0 else ""


def read_nftables_table(run: Runner) -> list[Json]:
    """Return firewalld's rules in the kernel, [] if there are none."""
    rc, out = run(nft.SHOW_FIREWALLD)
    text = out if rc == 0 and out.strip(SPACE) else query_libnftables()
    try:
        return nft.parse_objects(text)
    except ValueError:
        return []


def has_iptables_backend(root: str) -> bool:
    """Return whether firewalld is set to use iptables and ipset instead of nftables."""
    return read_firewalld_setting(root, "FirewallBackend", "nftables") == "iptables"


def list_set_elements(table: list[Json], name: str) -> list[str] | None:
    """Return a set's addresses like `collapse_networks`. None if the kernel has no such set."""
    for item in table:
        if item.get("set", {}).get("name") == name:
            found: list[Any] = []
            for one in item["set"].get("elem", []):
                found += parse_element_networks(
                    one["elem"]["val"] if isinstance(one, dict) and "elem" in one else one
                )
            return collapse_networks(found)
    return None


def parse_element_networks(value: Any) -> list[Any]:
    """Return the networks of one element. libnftables may join neighbours to a range or prefix."""
    if not isinstance(value, dict):
        return [ipaddress.ip_network(value)]
    if "prefix" in value:
        return [ipaddress.ip_network("{addr}/{len}".format(**value["prefix"]))]
    first, last = [ipaddress.ip_address(one) for one in value["range"]]
    return list(ipaddress.summarize_address_range(first, last))


def collapse_networks(networks: list[Any]) -> list[str]:
    """Return a canonical list of a list of networks."""
    return [format_network(one) for one in ipaddress.collapse_addresses(networks)]


def list_chain_rules(table: list[Json], chain: str) -> list[list[Json]]:
    """Return the expressions of every rule of a chain, in order."""
    rules = [item["rule"] for item in table if "rule" in item]
    return [rule["expr"] for rule in rules if rule["chain"] == chain]


PORTS = ("6", "17")  # tcp, udp


def find_accepted_port(expressions: list[Json]) -> str:
    """Return the ports that a rule accepts, ``a-b/tcp``, or ``*`` for a rule without a port.

    A protocol without ports is its number, ``112/ip``.
    """
    if not any("accept" in part for part in expressions):
        return ""
    whole = "*"
    for part in expressions:
        left = part.get("match", {}).get("left", {})
        payload = left.get("payload", {}) if isinstance(left, dict) else {}
        if payload.get("field") == "dport":
            right = part["match"]["right"]
            if isinstance(right, dict):
                right = "{}-{}".format(*right["range"])
            return "{}/{}".format(right, payload["protocol"])
        if isinstance(left, dict) and left.get("meta", {}).get("key") == "l4proto":
            number = find_protocol_number(str(part["match"]["right"]))
            whole = whole if number in PORTS else f"{number}/{IP}"
    return whole


def list_set_jumps(table: list[Json], chain: str) -> list[tuple[str, str]]:
    """Return (set, target) of every rule of a chain that dispatches a source set."""
    found = []
    for expressions in list_chain_rules(table, chain):
        goto = [part.get("goto", part.get("jump")) for part in expressions]
        rights = [part["match"].get("right") for part in expressions if "match" in part]
        targets = [one["target"] for one in goto if one]
        sets = [one[1:] for one in rights if isinstance(one, str) and one[:1] == "@"]
        if targets and sets:
            found.append((sets[0], str(targets[0])))
    return found


def find_ruleset_faults(table: list[Json], want: FirewallSettings) -> list[str]:
    """Compare the kernel's rules with Fullmesh's files. Return one sentence per difference."""
    if not table:
        return ["the kernel has no table of firewalld"]
    zone, found = want["zone"], []
    sets = {
        "peers": group_by_family(want["peers"]),
        "controllers": group_by_family(want["controllers"]),
        "tunnel": group_by_family(want["tunnel_peers"]),
    }
    for who in sorted(sets):
        for family in FAMILIES:
            name = f"{zone}-{who}{family}"
            seen = list_set_elements(table, name) or []
            if seen != collapse_networks([ipaddress.ip_network(one) for one in sets[who][family]]):
                found.append("set {} holds {}".format(name, ", ".join(seen) or "nothing"))
    for family in FAMILIES:
        name = f"{zone}-peers{family}"
        bound = is_set_dispatched(table, name, zone)
        if sets["peers"][family] and want["mode"] in BINDING and not bound:
            found.append(f"no rule sends set {name} to zone {zone}")
        if want["mode"] not in BINDING and bound:
            found.append(f"set {name} is sent to zone {zone}")
    ssh = {port for _, port in list_policy_ports(table, zone + "-ssh")}
    for port in want["ssh_ports"] if any(sets["controllers"].values()) else []:
        if f"{port}/tcp" not in ssh:
            found.append(f"controllers do not reach ssh on port {port}")
    if any(sets["controllers"].values()):
        shut = [port for port in want["controller_ports"] if port not in ssh]
        found += [f"controllers do not reach {port}" for port in shut]
        stale = sorted(ssh - {*want["controller_ports"], *(f"{p}/tcp" for p in want["ssh_ports"])})
        found += [f"controllers reach {port}, which Fullmesh did not open" for port in stale]
    found += find_tunnel_port_faults(table, want)
    public = {port for _, port in list_policy_ports(table, zone + "-all")}
    found += [f"{port} is closed to others" for port in sorted({*want["public_ports"]} - public)]
    found += [f"{port} is open to everybody" for port in sorted(public - {*want["public_ports"]})]
    found += find_peer_port_faults(table, want, [one for one in FAMILIES if sets["peers"][one]])
    return found + find_carried_rule_faults(table, want)


def find_tunnel_port_faults(table: list[Json], want: FirewallSettings) -> list[str]:
    """Compare the ports that the tunnel's policy accepts, and from which set, with the wanted ones."""
    zone = want["zone"]
    peers = group_by_family(want["tunnel_peers"])
    wanted = {
        (f"{zone}-tunnel{family}", port)
        for family in FAMILIES
        if peers[family]
        for port in want["tunnel_ports"]
    }
    seen = list_policy_ports(table, f"{zone}-tun")
    found = [f"{port} is closed to {name}" for name, port in sorted(wanted - seen)]
    return found + [
        f"{port} is open to {name or 'everybody'}" for name, port in sorted(seen - wanted)
    ]


def list_policy_ports(table: list[Json], name: str) -> set[tuple[str, str]]:
    """Return (source set, port) pairs that Fullmesh's policy accepts. Empty if no zone's packets reach it."""
    if not is_policy_reached(table, name):
        return set()
    found = set()
    for expressions in list_policy_rules(table, name, "allow"):
        rights = [part["match"].get("right") for part in expressions if "match" in part]
        sets = [one[1:] for one in rights if isinstance(one, str) and one[:1] == "@"]
        port = find_accepted_port(expressions)
        # Accepting everything from a set is one condition. With another one, the rule is for a protocol or ICMP.
        port = WHOLE if port == "*" and len(rights) > 1 else port
        if port:
            found.add(("".join(sets), port))
    return found


def is_policy_reached(table: list[Json], name: str) -> bool:
    """Return whether a chain jumps to a policy. The jumping chain depends on firewalld's version."""
    wanted = "filter_IN_policy_" + name
    return any(
        part.get("jump", part.get("goto", {})).get("target") == wanted
        for item in table
        if "rule" in item
        for part in item["rule"]["expr"]
        if "jump" in part or "goto" in part
    )


def list_policy_rules(table: list[Json], name: str, step: str) -> list[list[Json]]:
    """Return the rules of one step of a policy."""
    return list_chain_rules(table, f"filter_IN_policy_{name}_{step}")


def find_carried_rule_faults(table: list[Json], want: FirewallSettings) -> list[str]:
    """Return a fault if rules that were carried over from ufw are missing."""
    wanted = sum(want["ufw_policy"].count(f'<rule family="ipv{one}"') for one in FAMILIES)
    seen = len(list_policy_rules(table, want["zone"] + "-ufw", "post"))
    return [f"{seen} of {wanted} rules carried over from ufw"] if seen < wanted else []


def is_set_dispatched(table: list[Json], name: str, zone: str) -> bool:
    """Return whether a source set reaches a zone's input chain."""
    chains = {rule["rule"]["chain"] for rule in table if "rule" in rule}
    return any(
        (name, "filter_IN_" + zone) in list_set_jumps(table, chain)
        for chain in chains
        if "INPUT" in chain
    )


def find_peer_port_faults(
    table: list[Json], want: FirewallSettings, families: list[str]
) -> list[str]:
    """Compare the ports that the peers' policy accepts with the wanted ones."""
    seen, found = list_policy_ports(table, want["zone"] + "-job"), []
    for family in families:
        name = "{}-peers{}".format(want["zone"], family)
        now = {port for one, port in seen if one == name}
        wanted = set(list_job_ports(want)) or {"*"}
        version = " over IPv" + family if len(families) > 1 else ""
        found += [f"{port} is closed{version}" for port in sorted(wanted - now - {"*", WHOLE})]
        found += [
            f"{port} is open, but Fullmesh did not open it"
            for port in sorted(now - wanted - {"*", WHOLE})
        ]
        if "*" in wanted - now:
            found.append("the peers' policy does not accept everything" + version)
        if {"*", WHOLE} & (now - wanted):
            found.append("a rule opens a whole protocol")
    strangers = sorted(port for one, port in seen if not one)
    return found + [f"{port} is open to everybody" for port in strangers]


def render_own_rules(table: list[Json], zone: str) -> list[str]:
    """Render Fullmesh's rules in the kernel, without handles and other changing numbers.

    A jump to a policy counts once. Newer versions of firewalld have one for each zone, and Docker and others add and
    remove zones.
    """
    name = re.compile(rf"(^|_){re.escape(zone)}(_|-|$)")
    lines = set()
    for item in table:
        if "set" in item and name.search(item["set"]["name"]):
            entries = list_set_elements(table, item["set"]["name"]) or []
            lines.add("set {} {}".format(item["set"]["name"], " ".join(entries)))
        elif "rule" in item:
            text = json.dumps(item["rule"]["expr"], sort_keys=True)
            ours = name.search(item["rule"]["chain"])
            if ours or f"@{zone}-" in text or f'"filter_IN_{zone}"' in text:
                lines.add("rule {} {}".format(item["rule"]["chain"], text))
    found = [one for one in list_own_names(zone) if one != zone and is_policy_reached(table, one)]
    return sorted(lines) + ["jump " + one for one in sorted(found)]


def read_permanent_text(zone: str, root: str = "") -> str:
    """Return the files of Fullmesh's zone, policies and ipsets as one text."""
    kept = [
        (path, read_text_or_empty(root + path)) for path in sorted(map_own_paths(zone).values())
    ]
    return "\n".join(path + "\n" + text for path, text in kept if text)


def fingerprint_zones(names: list[str], run: Runner, root: str = "") -> dict[str, dict[str, str]]:
    """Return {name: {"permanent": sha256, "runtime": sha256}} of Fullmesh's files and the kernel's rules.

    The kernel is queried instead of the daemon. This detects a flushed ruleset and a port that was removed at runtime,
    in one call of a few milliseconds (firewall-cmd needs 0.3 s for each query). If the rules are unreadable, the daemon
    is queried.
    """
    table = read_nftables_table(run)
    words = () if table else ("--list-all-zones", "--list-all-policies")
    fallback: dict[str, dict[str, list[str]]] = {}
    for word in words:
        fallback.update(parse_zones(run(["firewall-cmd", word])[1]))
    result = {}
    for name in names:
        zones = {one: fallback[one] for one in list_own_names(name) if one in fallback}
        for one in zones.values():
            one.pop("interfaces", None)  # not Fullmesh's, and NetworkManager moves them
        rules = render_own_rules(table, name) if table else [json.dumps(zones, sort_keys=True)]
        pair = {"permanent": read_permanent_text(name, root), "runtime": "\n".join(rules)}
        result[name] = {kind: hashlib.sha256(pair[kind].encode()).hexdigest() for kind in pair}
    return result


ROCE_PORT = "4791/udp"  # RoCE v2, IANA


def has_roce_device(root: str = "") -> bool:
    """Return whether a network interface supports RDMA over Ethernet (InfiniBand links report ``InfiniBand``)."""
    base = root + "/sys/class/infiniband"
    try:
        ports = [f"{base}/{name}/ports" for name in os.listdir(base)]
        places = [f"{port}/{number}/link_layer" for port in ports for number in os.listdir(port)]
    except OSError:
        return False
    return any(read_text_or_empty(place).strip(SPACE) == "Ethernet" for place in places)


def parse_firewalld_version(text: str) -> tuple[int, ...]:
    """Parse ``1.3.3`` or ``0.9.11-rc1``. Empty if it is not a version."""
    found = re.match(r"\s*(\d+(?:\.\d+)+)", text, re.ASCII)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()
