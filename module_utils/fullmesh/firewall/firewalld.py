# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""firewalld on a node: our files, what others have, what the kernel really does. Stdlib only."""

from __future__ import annotations

import hashlib
import importlib
import ipaddress
import json
import os
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from ..files import look
from ..schema.ports import parse_span
from . import ruleset

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Entry = dict[str, Any]
    Runner = Callable[[list[str]], tuple[int, str]]

ETC = "/etc/firewalld"
LIB = "/usr/lib/firewalld"
MARK = "Written by Fullmesh (role peer_firewall); changes here are overwritten."
HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<!-- ' + MARK + " -->\n"
# Before every policy of the user and of firewalld itself (allow-host-ipv6 has -15000): ssh always stays open.
SSH_PRIORITY = -20000
# After ssh; before every zone, which a policy with a negative priority is (firewalld.policy(5)).
JOB_PRIORITY = -19000
# Modes in which the peers are bound to a zone of ours, and so lose what the zone that judged them let in.
BINDING = ("peers_only",)
WHOLE = "a protocol"  # what a rule accepts that names no port
FAMILIES = (("4", "ipv4", "inet"), ("6", "ipv6", "inet6"))


# --- our files ----------------------------------------------------------------------------------


def by_family(addresses: list[str]) -> dict[str, list[str]]:
    """Sort addresses and networks into families; no doubles, no loopback, no scope, mapped v4 addresses as v4.

    What lies in another network is left out: nftables refuses a set whose intervals overlap.
    """
    found: dict[str, set[Any]] = {"4": set(), "6": set()}
    for text in addresses:
        network: Any = ipaddress.ip_network(text.split("%")[0], strict=False)
        mapped = network.version == 6 and network.network_address.ipv4_mapped  # noqa: PLR2004 (IP version)
        if mapped and network.prefixlen == network.max_prefixlen:
            network = ipaddress.ip_network(mapped)
        if not network.is_loopback:
            found[str(network.version)].add(network)
    return {family: [written(one) for one in sorted(outermost(found[family]))] for family in found}


def outermost(networks: set[Any]) -> list[Any]:
    """Leave out the networks that lie in another one of the same family."""
    return [
        one
        for one in networks
        if not any(one != other and one.subnet_of(other) for other in networks)
    ]


def written(network: Any) -> str:
    """Write a network; one of a single address as that address."""
    single = network.prefixlen == network.max_prefixlen
    return str(network.network_address if single else network)


def ipset_xml(short: str, family: str, entries: list[str]) -> str:
    """Print a set of addresses, or of networks where one is among them."""
    inet = {number: name for number, _, name in FAMILIES}[family]
    kind = "net" if any("/" in entry for entry in entries) else "ip"
    lines = [f'<ipset type="hash:{kind}">', f"  <short>{short}</short>"]
    lines.append(f'  <option name="family" value="{inet}"/>')
    lines += [f"  <entry>{entry}</entry>" for entry in entries]
    return HEAD + "\n".join([*lines, "</ipset>"]) + "\n"


def port_tag(port: str, indent: str) -> str:
    """Print ``50000-54095/tcp``; always a port with its protocol, a protocol alone would open all of it."""
    number, protocol = port.split("/")
    return f"{indent}<port port={quoteattr(number)} protocol={quoteattr(protocol)}/>"


def zone_xml(zone: str, families: list[str]) -> str:
    """Print the peers' zone of `peers_only`: it opens nothing, so all that no policy lets in is rejected, but ICMP."""
    lines = ["<zone>", f"  <short>{zone}</short>"]
    lines.append("  <description>The nodes of the cluster, by their addresses.</description>")
    lines += [f'  <source ipset="{zone}-peers{family}"/>' for family in families]
    return HEAD + "\n".join([*lines, "</zone>"]) + "\n"


def policy_xml(zone: str, who: str, families: list[str], ports: list[str]) -> str:
    """Print the policy that opens ports to the controllers or to the peers, whatever zone they come through.

    A policy only adds: a zone of their own would take away what they may reach today. Without ports it opens all.
    """
    name, priority = {"controllers": ("ssh", SSH_PRIORITY), "peers": ("job", JOB_PRIORITY)}[who]
    lines = [f'<policy target="CONTINUE" priority="{priority}">']
    lines.append(f"  <short>{zone}-{name}</short>")
    lines += ['  <ingress-zone name="ANY"/>', '  <egress-zone name="HOST"/>']
    names = {number: name for number, name, _ in FAMILIES}
    for family in families:
        for port in ports or [""]:
            lines.append(f'  <rule family="{names[family]}">')
            lines.append(f'    <source ipset="{zone}-{who}{family}"/>')
            lines += [port_tag(port, "    ")] if port else []
            lines += ["    <accept/>", "  </rule>"]
    return HEAD + "\n".join([*lines, "</policy>"]) + "\n"


def service_xml(ssh_ports: list[int]) -> str:
    """Print what the service ``ssh`` means on this node."""
    lines = ["<service>", "  <short>SSH</short>"]
    lines += [port_tag(f"{port}/tcp", "  ") for port in ssh_ports]
    return HEAD + "\n".join([*lines, "</service>"]) + "\n"


def paths(zone: str) -> dict[str, str]:
    """Name every file that can be ours."""
    found = {"zone": f"{ETC}/zones/{zone}.xml"}
    found["policy"] = f"{ETC}/policies/{zone}-ssh.xml"
    found["job"] = f"{ETC}/policies/{zone}-job.xml"
    found["ufw"] = f"{ETC}/policies/{zone}-ufw.xml"
    found["service"] = ETC + "/services/ssh.xml"
    for family, _, _ in FAMILIES:
        for who in ("peers", "controllers"):
            found[who + family] = f"{ETC}/ipsets/{zone}-{who}{family}.xml"
    return found


def files(want: Entry) -> dict[str, str]:
    """Render every file; empty content means that it shall not exist.

    *want*: zone, mode, peers, controllers, ports, ssh_ports, own_service, ufw_policy.
    """
    zone, ssh = want["zone"], sorted(set(want["ssh_ports"]))
    place = paths(zone)
    result = dict.fromkeys(place.values(), "")
    peers, controllers = by_family(want["peers"]), by_family(want["controllers"])
    for family, _, _ in FAMILIES:
        for who, entries in (("peers", peers[family]), ("controllers", controllers[family])):
            if entries:
                short = f"{zone} {who}"
                result[place[who + family]] = ipset_xml(short, family, entries)
    doors = [f"{port}/tcp" for port in ssh]
    with_peers = [family for family in sorted(peers) if peers[family]]
    if want["mode"] in BINDING:
        result[place["zone"]] = zone_xml(zone, with_peers)
    result[place["job"]] = policy_xml(zone, "peers", with_peers, job_ports(want))
    with_controllers = [family for family in sorted(controllers) if controllers[family]]
    if with_controllers:
        result[place["policy"]] = policy_xml(zone, "controllers", with_controllers, doors)
    if want["own_service"]:
        result[place["service"]] = service_xml(ssh)
    result[place["ufw"]] = want["ufw_policy"]
    return result


def job_ports(want: Entry) -> list[str]:
    """List what the peers' policy opens: ssh and the plan's ports; empty where it opens everything."""
    if want["mode"] == "peers_trusted":
        return []
    doors = [f"{port}/tcp" for port in sorted(set(want["ssh_ports"]))]
    return doors + [port for port in want["ports"] if port not in doors]


# --- what others have ---------------------------------------------------------------------------


def tree(root: str, kind: str, name: str) -> Any:
    """Parse one object's file as firewalld would find it; None where there is none or it is broken."""
    for base in (ETC, LIB):
        text = look(f"{root}{base}/{kind}/{name}.xml")
        if text:
            try:
                return ElementTree.fromstring(text)  # noqa: S314 (root's own files on this node)
            except ElementTree.ParseError:
                return None
    return None


def object_names(root: str, kind: str) -> list[str]:
    """Name every zone (service, ipset ...) that has a file."""
    names: set[str] = set()
    for base in (ETC, LIB):
        try:
            entries = os.listdir(f"{root}{base}/{kind}")
        except OSError:
            continue
        names.update(entry[:-4] for entry in entries if entry[-4:] == ".xml")
    return sorted(names)


def conf_value(root: str, key: str, default: str) -> str:
    """Read one setting of firewalld.conf."""
    found = re.search(rf"^\s*{key}\s*=\s*(\S+)", look(root + ETC + "/firewalld.conf"), re.M)
    return found.group(1) if found else default


def has_port(node: Any, port: int, protocol: str = "tcp") -> bool:
    """Say whether a zone's, service's or rule's <port> tags let a port in."""
    for tag in node.findall("port"):
        span = parse_span(tag.get("port", ""))
        if span and port in span and tag.get("protocol") == protocol:
            return True
    return any(tag.get("value") == protocol for tag in node.findall("protocol"))


def service_has(root: str, name: str, port: int, protocol: str, depth: int = 0) -> bool:
    """Say whether a service, or one that it includes, has a port."""
    node = tree(root, "services", name)
    if node is None or depth > 5:  # noqa: PLR2004 (a service that includes itself)
        return False
    inside = [tag.get("service", "") for tag in node.findall("include")]
    return has_port(node, port, protocol) or any(
        service_has(root, one, port, protocol, depth + 1) for one in inside
    )


def zone_allows(root: str, zone: str, port: int, protocol: str = "tcp") -> bool:
    """Say whether a zone, as it stands on disk, lets everybody who comes through it to a port."""
    node = tree(root, "zones", zone)
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
        if has_port(one, port, protocol) or any(
            service_has(root, name, port, protocol) for name in names
        ):
            return True
    return False


def zone_has_service(root: str, zone: str, name: str) -> bool:
    """Say whether a zone lists a service."""
    node = tree(root, "zones", zone)
    return node is not None and any(tag.get("name") == name for tag in node.findall("service"))


def zone_sources(root: str, zone: str) -> list[str]:
    """List the networks a zone claims, ipsets resolved; MAC addresses are left out."""
    node = tree(root, "zones", zone)
    found: list[str] = []
    for tag in [] if node is None else node.findall("source"):
        if tag.get("address"):
            found.append(tag.get("address"))
        elif tag.get("ipset"):
            ipset = tree(root, "ipsets", tag.get("ipset"))
            entries = [] if ipset is None else ipset.findall("entry")
            found += [str(entry.text).strip() for entry in entries]
    return found


def claims(root: str, own: str, peers: list[str]) -> list[str]:
    """Say which other zones claim a peer's address: firewalld asks only one zone, so they would decide."""
    addresses = [ipaddress.ip_address(one) for both in by_family(peers).values() for one in both]
    found = []
    for zone in object_names(root, "zones"):
        for source in zone_sources(root, zone) if zone != own else []:
            try:
                network = ipaddress.ip_network(source, strict=False)
            except ValueError:
                continue
            inside = [str(one) for one in addresses if one in network]
            if inside:
                found.append("zone {} claims {} ({})".format(zone, source, ", ".join(inside[:3])))
    return found


def interface_zones(root: str, run: Runner, interface: str, running: bool) -> list[tuple[str, str]]:
    """Return (zone, who says so) for an interface: firewalld's files, the daemon, NetworkManager, ifcfg files."""
    found = []
    for zone in object_names(root, "zones"):
        node = tree(root, "zones", zone)
        tags = [] if node is None else node.findall("interface")
        if any(tag.get("name") == interface for tag in tags):
            found.append((zone, "its file"))
    if running:
        rc, out = run(["firewall-cmd", "--get-zone-of-interface=" + interface])
        found += [(out.strip(), "firewalld at runtime")] if rc == 0 and out.strip() else []
    found += networkmanager_zone(run, interface)
    text = look(f"{root}/etc/sysconfig/network-scripts/ifcfg-{interface}")
    named = re.search(r"^ZONE=[\"']?([^\s\"']+)", text, re.M)
    return found + ([(named.group(1), "ifcfg-" + interface)] if named else [])


def networkmanager_zone(run: Runner, interface: str) -> list[tuple[str, str]]:
    """Ask NetworkManager for connection.zone of the profile that an interface has; empty without NetworkManager."""
    rc, name = run(["nmcli", "-g", "GENERAL.CONNECTION", "device", "show", interface])
    if rc != 0 or not name.strip():
        return []
    rc, zone = run(["nmcli", "-g", "connection.zone", "connection", "show", name.strip()])
    text = f"connection.zone of NetworkManager's profile {name.strip()!r}"
    return [(zone.strip(), text)] if rc == 0 and zone.strip() else []


def parse_zones(text: str) -> dict[str, Entry]:
    """Read ``firewall-cmd --list-all-zones`` or ``--list-all-policies``."""
    zones: dict[str, Entry] = {}
    now: Entry = {}
    key = ""
    for line in text.splitlines():
        if line and not line[0].isspace():
            now = zones.setdefault(line.split()[0], {})
        elif line.startswith("\t") and key:
            now[key] = sorted([*now.get(key, []), line.strip()])
        elif ":" in line:
            key, _, value = line.strip().partition(":")
            now[key] = sorted(value.split())
    return zones


def own_names(zone: str) -> set[str]:
    """Name our zone, policies and ipsets: what is at runtime only there is what a reload shall drop."""
    return {os.path.basename(path)[:-4] for path in paths(zone).values()} - {"ssh"}


def unsaved(runtime: str, permanent: str, own: str, kind: str = "zone") -> list[str]:
    """Say what other zones (policies) allow at runtime only: a reload would drop it. Interfaces: see `unbound`."""
    ran, kept = parse_zones(runtime), parse_zones(permanent)
    found = []
    for name in sorted(set(ran) - own_names(own)):
        for key in sorted(set(ran[name]) - {"interfaces"}):
            if ran[name][key] != kept.get(name, {}).get(key, []):
                found.append(
                    "{} {}, {}: {}".format(kind, name, key, " ".join(ran[name][key]) or "none")
                )
    return found


# Their owners hear of a reload (the signal Reloaded) and bind them again: moby's firewalld.go, libvirt's network
# driver, NetworkManager for shared connections.
REBOUND = frozenset(["docker", "docker-forwarding", "libvirt", "libvirt-routed", "nm-shared"])


def unbound(run: Runner, runtime: str, permanent: str, passed: list[str]) -> list[str]:
    """Say which interfaces a reload would move to the default zone.

    They come back from the files and from NetworkManager only (firewalld's own reload(), 1.3.3). *passed*: zones that
    do not matter, the default one among them.
    """
    ran, kept = parse_zones(runtime), parse_zones(permanent)
    found = []
    for zone in sorted(set(ran) - set(passed) - REBOUND):
        for interface in ran[zone].get("interfaces", []):
            if interface in kept.get(zone, {}).get("interfaces", []):
                continue
            if zone not in [name for name, _ in networkmanager_zone(run, interface)]:
                found.append(f"zone {zone}, interfaces: {interface}")
    return found


def flushes_all(root: str) -> bool:
    """Say whether a reload drops interfaces, direct rules and ipset entries, too, as it does unless told otherwise."""
    return conf_value(root, "FlushAllOnReload", "yes").lower() not in ("no", "false")


def tidy(zone: str) -> str:
    """Return the command, for sh, that takes out of our sets at runtime what their files do not have.

    With FlushAllOnReload=no firewalld adds every old entry again after a reload (its own reload(), 1.3.3).
    """
    names = [
        f"{zone}-{who}{family}" for family, _, _ in FAMILIES for who in ("peers", "controllers")
    ]
    return (
        "for s in {}; do "
        'k=" $(firewall-cmd --permanent --ipset=$s --get-entries 2>/dev/null | tr "\\n" " ") "; '
        "firewall-cmd --ipset=$s --get-entries 2>/dev/null | while read -r e; do "
        'case "$k" in *" $e "*) ;; *) firewall-cmd --ipset=$s --remove-entry="$e" </dev/null ;; esac; '
        "done; done"
    ).format(" ".join(names))


def only_now(run: Runner, own: str) -> list[str]:
    """Say which entries of others' ipsets and which direct rules are there at runtime only."""
    asked = [("direct rule", ["--direct", "--get-all-rules"])]
    names = run(["firewall-cmd", "--get-ipsets"])[1].split()
    for name in sorted(set(names) - own_names(own)):
        asked.append(("ipset " + name, ["--ipset=" + name, "--get-entries"]))
    found = []
    for what, words in asked:
        rc, ran = run(["firewall-cmd", *words])
        kept_rc, kept = run(["firewall-cmd", "--permanent", *words])
        # A set with a timeout has no entries to ask for.
        lost = sorted(set(ran.splitlines()) - set(kept.splitlines())) if rc == kept_rc == 0 else []
        if lost:
            more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""  # noqa: PLR2004 (examples)
            found.append("{}: {}{}".format(what, ", ".join(lost[:3]), more))
    return found


# --- the kernel ---------------------------------------------------------------------------------


def library(command: str) -> tuple[int, str]:
    """Ask libnftables itself: Debian's firewalld brings the library without the command nft."""
    try:
        nftables = importlib.import_module("nftables")  # the OS's own; absent on a bare node
    except ImportError as exc:
        return 127, str(exc)
    link = nftables.Nftables()
    link.set_json_output(True)
    rc, out, said = link.cmd(command)
    return int(rc), str(out) if rc == 0 else str(said)


def binding(command: str = "list table inet firewalld") -> str:
    """Return what libnftables lists, empty where it does not."""
    rc, out = library(command)
    return out if rc == 0 else ""


def kernel_table(run: Runner) -> list[Entry]:
    """Return the rules that the kernel has from firewalld; empty when there are none."""
    rc, out = run(["nft", "-j", "list", "table", "inet", "firewalld"])
    text = out if rc == 0 and out.strip() else binding()
    try:
        return list(json.loads(text)["nftables"])
    except (ValueError, KeyError, TypeError):
        return []


def with_iptables(root: str) -> bool:
    """Say whether firewalld was told to use iptables and ipset instead of nftables (EL 7 knows nothing else)."""
    return conf_value(root, "FirewallBackend", "nftables") == "iptables"


def iptables_table(run: Runner, family: str) -> list[Entry]:
    """Return what firewalld's iptables backend has in the kernel for a family, in the words of the other backend."""
    save = {"4": "iptables-save", "6": "ip6tables-save"}[family]
    rc, out = run([save, "-t", "filter"])
    told = ruleset.parse_save(out, family) if rc == 0 else {"chains": {}}
    items: list[Entry] = []
    for key in told["chains"]:
        name = "filter_" + key[2]
        for rule in told["chains"][key]["rules"] if re.match(r"IN_|INPUT", key[2]) else ():
            parts = [simpler(part) for part in rule["expr"]]
            items.append({"rule": {"chain": name, "handle": None, "expr": parts}})
    if not any("ZONES" in item["rule"]["chain"] for item in items):
        return []
    sets = ruleset.parse_ipset(run(["ipset", "save"])[1])
    return items + [{"set": {"name": name, "elem": sets[name]}} for name in sorted(sets)]


# What firewalld's iptables backend has in the tables, by the source of 1.3.3 (core/ipXtables.py, core/fw_policy.py)
# and what it loaded: chains of its own, and a few rules in the built-in ones. FWDI_, FWDO_ and ZONES_SOURCE are older.
OWN_CHAIN = re.compile(
    r"(?:INPUT|FORWARD|OUTPUT|PREROUTING|POSTROUTING)_(?:direct|(?:IN_|OUT_)?ZONES\w*|POLICIES_(?:pre|post))\Z"
    r"|(?:IN|OUT|FWD|FWDI|FWDO|PRE|POST)_|RFC3964_IPv4\Z"
)
OWN_RULE = re.compile(
    r"-m conntrack --ctstate (?:RELATED,ESTABLISHED(?:,DNAT)? -j ACCEPT|INVALID -j DROP)\Z|-[io] lo -j ACCEPT\Z"
    r"|-j REJECT --reject-with (?:icmp-host|icmp6-adm)-prohibited\Z|-m rpfilter .*--invert -j DROP\Z"
    r"|-p ipv6-icmp -m icmp6 --icmpv6-type 13[45] -j ACCEPT\Z"
    r"|.*-j LOG --log-prefix \"(?:STATE_INVALID_DROP|FINAL_REJECT|rpfilter_DROP): \""
)


def rules_beside(run: Runner) -> list[str]:
    """Return the rules in iptables that are not firewalld's."""
    found: list[str] = []
    for tool in ("iptables-save", "ip6tables-save"):
        rc, out = run([tool])
        for line in out.splitlines() if rc == 0 else ():
            words = line.split(None, 2)
            if words[:1] != ["-A"] or OWN_CHAIN.match(words[1]):
                continue
            rule = words[2] if len(words) > 2 else ""  # noqa: PLR2004 (-A, chain, rule)
            leads = re.search(r"(?:^|\s)-[jg] (\S+)", rule)
            if not (leads and OWN_CHAIN.match(leads.group(1))) and not OWN_RULE.match(rule):
                found.append(line)
    return found


def simpler(part: Entry) -> Entry:
    """Say one expression of iptables as firewalld's own nftables rules say it."""
    for word in ("goto", "jump"):
        if word in part:
            return {word: {"target": "filter_" + str(part[word]["target"])}}
    right = part.get("match", {}).get("right")
    if isinstance(right, dict) and len(right.get("set", ())) == 1:
        return {"match": dict(part["match"], right=right["set"][0])}
    return part


def kernel_tables(run: Runner, root: str = "") -> list[tuple[list[Entry], tuple[str, ...]]]:
    """Return firewalld's rules in the kernel with the families that they speak for."""
    if with_iptables(root):
        return [(iptables_table(run, family), (family,)) for family in ("4", "6")]
    return [(kernel_table(run), ("4", "6"))]


def elements(table: list[Entry], name: str) -> list[str] | None:
    """Return a set's addresses as `joined` has them; None where the kernel has no such set."""
    for item in table:
        if item.get("set", {}).get("name") == name:
            found: list[Any] = []
            for one in item["set"].get("elem", []):
                found += networks_of(
                    one["elem"]["val"] if isinstance(one, dict) and "elem" in one else one
                )
            return joined(found)
    return None


def networks_of(value: Any) -> list[Any]:
    """Return the networks of one element; libnftables may join neighbours to a range or prefix."""
    if not isinstance(value, dict):
        return [ipaddress.ip_network(value)]
    if "prefix" in value:
        return [ipaddress.ip_network("{addr}/{len}".format(**value["prefix"]))]
    first, last = [ipaddress.ip_address(one) for one in value["range"]]
    return list(ipaddress.summarize_address_range(first, last))


def joined(networks: list[Any]) -> list[str]:
    """Write what addresses a list of networks holds, the same whoever put it together."""
    return [written(one) for one in ipaddress.collapse_addresses(networks)]


def chain_rules(table: list[Entry], chain: str) -> list[list[Entry]]:
    """Return the expressions of every rule of a chain, in order."""
    rules = [item["rule"] for item in table if "rule" in item]
    return [rule["expr"] for rule in rules if rule["chain"] == chain]


def accepted(expressions: list[Entry]) -> str:
    """Return the ports that a rule accepts, ``a-b/tcp``; ``*`` for one that accepts without asking for a port."""
    if not any("accept" in part for part in expressions):
        return ""
    for part in expressions:
        left = part.get("match", {}).get("left", {})
        payload = left.get("payload", {}) if isinstance(left, dict) else {}
        if payload.get("field") == "dport":
            right = part["match"]["right"]
            if isinstance(right, dict):
                right = "{}-{}".format(*right["range"])
            return "{}/{}".format(right, payload["protocol"])
    return "*"


def jumps(table: list[Entry], chain: str) -> list[tuple[str, str]]:
    """Return (set, target) of every rule of a chain that sends a source set somewhere."""
    found = []
    for expressions in chain_rules(table, chain):
        goto = [part.get("goto", part.get("jump")) for part in expressions]
        rights = [part["match"].get("right") for part in expressions if "match" in part]
        targets = [one["target"] for one in goto if one]
        sets = [one[1:] for one in rights if isinstance(one, str) and one[:1] == "@"]
        if targets and sets:
            found.append((sets[0], str(targets[0])))
    return found


def runtime_faults(run: Runner, root: str, want: Entry) -> list[str]:
    """Compare the kernel's rules with our files, whatever backend firewalld uses."""
    found = []
    spoken = [*want["peers"], *want["controllers"]]
    for table, families in kernel_tables(run, root):
        # A kernel without IPv6 has no ip6tables; nobody misses it where all addresses are v4.
        if table or "4" in families or by_family(spoken)["6"]:
            found += [text for text in kernel_faults(table, want, families) if text not in found]
    return found


def kernel_faults(
    table: list[Entry], want: Entry, families: tuple[str, ...] = ("4", "6")
) -> list[str]:
    """Compare the kernel's rules with our files: every difference in one sentence."""
    if not table:
        return ["the kernel has no table of firewalld"]
    zone, found = want["zone"], []
    sets = {"peers": by_family(want["peers"]), "controllers": by_family(want["controllers"])}
    for who in sorted(sets):
        for family in families:
            name = f"{zone}-{who}{family}"
            seen = elements(table, name) or []
            if seen != joined([ipaddress.ip_network(one) for one in sets[who][family]]):
                found.append("set {} holds {}".format(name, ", ".join(seen) or "nothing"))
    for family in families:
        name = f"{zone}-peers{family}"
        bound = dispatched(table, name, zone)
        if sets["peers"][family] and want["mode"] in BINDING and not bound:
            found.append(f"no rule sends set {name} to zone {zone}")
        if want["mode"] not in BINDING and bound:
            found.append(f"set {name} is sent to zone {zone}")
    ssh = {port for _, port in opened(table, zone + "-ssh")}
    for port in want["ssh_ports"] if any(sets["controllers"][one] for one in families) else []:
        if f"{port}/tcp" not in ssh:
            found.append(f"controllers do not reach ssh on port {port}")
    found += port_faults(table, want, [one for one in families if sets["peers"][one]])
    return found + ufw_faults(table, want, families)


def opened(table: list[Entry], name: str) -> set[tuple[str, str]]:
    """Return (source set, port) of what a policy of ours accepts; nothing where no zone's packets come to it."""
    if not led_to(table, name):
        return set()
    found = set()
    for expressions in policy_rules(table, name, "allow"):
        rights = [part["match"].get("right") for part in expressions if "match" in part]
        sets = [one[1:] for one in rights if isinstance(one, str) and one[:1] == "@"]
        port = accepted(expressions)
        # Everything from a set is one condition; another one beside it means a protocol, ICMP or the like.
        port = WHOLE if port == "*" and len(rights) > 1 else port
        if port:
            found.add(("".join(sets), port))
    return found


def led_to(table: list[Entry], name: str) -> bool:
    """Say whether any chain leads to a policy's own; which one does has changed with firewalld's versions."""
    wanted = ("filter_IN_policy_" + name, "filter_IN_" + name)
    return any(
        part.get("jump", part.get("goto", {})).get("target") in wanted
        for item in table
        if "rule" in item
        for part in item["rule"]["expr"]
        if "jump" in part or "goto" in part
    )


def policy_rules(table: list[Entry], name: str, step: str) -> list[list[Entry]]:
    """Return a policy's rules; the iptables backend names its chains without the word."""
    rules = chain_rules(table, f"filter_IN_policy_{name}_{step}")
    return rules or chain_rules(table, f"filter_IN_{name}_{step}")


def ufw_faults(table: list[Entry], want: Entry, families: tuple[str, ...]) -> list[str]:
    """Say whether rules that we carried over from ufw are missing."""
    wanted = sum(want["ufw_policy"].count(f'<rule family="ipv{one}"') for one in families)
    seen = len(policy_rules(table, want["zone"] + "-ufw", "post"))
    return [f"{seen} of {wanted} rules carried over from ufw"] if seen < wanted else []


def dispatched(table: list[Entry], name: str, zone: str) -> bool:
    """Say whether a source set reaches a zone's input chain."""
    chains = {rule["rule"]["chain"] for rule in table if "rule" in rule}
    return any(
        (name, "filter_IN_" + zone) in jumps(table, chain) for chain in chains if "INPUT" in chain
    )


def port_faults(table: list[Entry], want: Entry, families: list[str]) -> list[str]:
    """Compare the ports that the peers' policy accepts with those it shall accept, no more and no less."""
    seen, found = opened(table, want["zone"] + "-job"), []
    for family in families:
        name = "{}-peers{}".format(want["zone"], family)
        now = {port for one, port in seen if one == name}
        wanted = set(job_ports(want)) or {"*"}
        version = " over IPv" + family if len(families) > 1 else ""
        found += [f"{port} is closed{version}" for port in sorted(wanted - now - {"*", WHOLE})]
        found += [f"{port} is open and not ours" for port in sorted(now - wanted - {"*", WHOLE})]
        if "*" in wanted - now:
            found.append("the peers' policy does not accept everything" + version)
        if {"*", WHOLE} & (now - wanted):
            found.append("a rule opens a whole protocol")
    strangers = sorted(port for one, port in seen if not one)
    return found + [f"{port} is open to everybody" for port in strangers]


def fingerprint_rules(table: list[Entry], zone: str) -> list[str]:
    """Print what the kernel does for us, without handles and other numbers that change by themselves.

    A jump to a policy counts once, whoever makes it: newer versions of firewalld have one for each zone, and zones
    come and go with Docker and others.
    """
    name = re.compile(rf"(^|_){re.escape(zone)}(_|-|$)")
    lines = set()
    for item in table:
        if "set" in item and name.search(item["set"]["name"]):
            entries = elements(table, item["set"]["name"]) or []
            lines.add("set {} {}".format(item["set"]["name"], " ".join(entries)))
        elif "rule" in item:
            text = json.dumps(item["rule"]["expr"], sort_keys=True)
            ours = name.search(item["rule"]["chain"])
            if ours or f"@{zone}-" in text or f'"filter_IN_{zone}"' in text:
                lines.add("rule {} {}".format(item["rule"]["chain"], text))
    found = [one for one in own_names(zone) if one != zone and led_to(table, one)]
    return sorted(lines) + ["jump " + one for one in sorted(found)]


def permanent_text(zone: str, root: str = "") -> str:
    """Return the files of our zone, policies and ipsets as one text."""
    kept = [(path, look(root + path)) for path in sorted(paths(zone).values())]
    return "\n".join(path + "\n" + text for path, text in kept if text)


def fingerprint(names: list[str], run: Runner, root: str = "") -> dict[str, dict[str, str]]:
    """Return {name: {"permanent": sha256, "runtime": sha256}}: our files under a name, and the kernel's own rules.

    The kernel is asked, not the daemon: a flushed ruleset is seen as well as a port taken out at runtime,
    in one call of a few milliseconds (firewall-cmd needs 0.3 s for each question). Where neither backend's rules can
    be read the daemon is asked.
    """
    table = [item for one, _ in kernel_tables(run, root) for item in one]
    words = () if table else ("--list-all-zones", "--list-all-policies")
    fallback: dict[str, Entry] = {}
    for word in words:
        fallback.update(parse_zones(run(["firewall-cmd", word])[1]))
    result = {}
    for name in names:
        told = {one: fallback[one] for one in own_names(name) if one in fallback}
        for one in told.values():
            one.pop("interfaces", None)  # not ours, and NetworkManager moves them
        rules = fingerprint_rules(table, name) if table else [json.dumps(told, sort_keys=True)]
        pair = {"permanent": permanent_text(name, root), "runtime": "\n".join(rules)}
        result[name] = {kind: hashlib.sha256(pair[kind].encode()).hexdigest() for kind in pair}
    return result


# --- the hardware -------------------------------------------------------------------------------

ROCE_PORT = "4791/udp"  # RoCE v2, IANA


def has_roce(root: str = "") -> bool:
    """Say whether a network card does RDMA over Ethernet: InfiniBand's own links say ``InfiniBand`` there."""
    base = root + "/sys/class/infiniband"
    try:
        ports = [f"{base}/{name}/ports" for name in os.listdir(base)]
        places = [f"{port}/{number}/link_layer" for port in ports for number in os.listdir(port)]
    except OSError:
        return False
    return any(look(place).strip() == "Ethernet" for place in places)


def version_of(text: str) -> tuple[int, ...]:
    """Read ``1.3.3`` or ``0.9.11-rc1``; empty where it is no version."""
    found = re.match(r"\s*(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()
