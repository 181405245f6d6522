# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""firewalld on a node: our files, what others have, what the kernel really does. Python 3.6, stdlib only."""

import hashlib
import importlib
import ipaddress
import json
import os
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

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
FAMILIES = (("4", "ipv4", "inet"), ("6", "ipv6", "inet6"))


# --- our files ----------------------------------------------------------------------------------


def by_family(addresses):  # type: (list[str]) -> dict[str, list[str]]
    """Sort addresses into families; no doubles, no loopback, no scope, mapped v4 addresses as v4."""
    found = {"4": set(), "6": set()}  # type: dict[str, set[Any]]
    for text in addresses:
        address = ipaddress.ip_address(text.split("%")[0])  # type: Any
        if address.version == 6 and address.ipv4_mapped:  # noqa: PLR2004 (IP version)
            address = address.ipv4_mapped
        if not address.is_loopback:
            found[str(address.version)].add(address)
    return {family: [str(one) for one in sorted(found[family])] for family in found}


def ipset_xml(short, family, entries):  # type: (str, str, list[str]) -> str
    """Print a set of single addresses."""
    inet = {number: name for number, _, name in FAMILIES}[family]
    lines = ['<ipset type="hash:ip">', "  <short>{}</short>".format(short)]
    lines.append('  <option name="family" value="{}"/>'.format(inet))
    lines += ["  <entry>{}</entry>".format(entry) for entry in entries]
    return HEAD + "\n".join([*lines, "</ipset>"]) + "\n"


def port_tag(port, indent):  # type: (str, str) -> str
    """Print ``50000-54095/tcp``; always a port with its protocol, a protocol alone would open all of it."""
    number, protocol = port.split("/")
    return "{}<port port={} protocol={}/>".format(indent, quoteattr(number), quoteattr(protocol))


def zone_xml(zone, mode, families, ports):  # type: (str, str, list[str], list[str]) -> str
    """Print the peers' zone; without a target it rejects the rest and lets ICMP through, firewalld.zone(5)."""
    target = ' target="ACCEPT"' if mode == "peers_trusted" else ""
    lines = ["<zone{}>".format(target), "  <short>{}</short>".format(zone)]
    lines.append("  <description>The nodes of the cluster, by their addresses.</description>")
    lines += ['  <source ipset="{}-peers{}"/>'.format(zone, family) for family in families]
    if not target:
        lines += [port_tag(port, "  ") for port in ports]
    return HEAD + "\n".join([*lines, "</zone>"]) + "\n"


def policy_xml(zone, families, ssh_ports):  # type: (str, list[str], list[int]) -> str
    """Print the policy that keeps ssh open to controllers, whatever zone they come through.

    A policy only adds: a zone of their own would take away what they may reach today.
    """
    lines = ['<policy target="CONTINUE" priority="{}">'.format(SSH_PRIORITY)]
    lines.append("  <short>{}-ssh</short>".format(zone))
    lines += ['  <ingress-zone name="ANY"/>', '  <egress-zone name="HOST"/>']
    names = {number: name for number, name, _ in FAMILIES}
    for family in families:
        for port in ssh_ports:
            lines.append('  <rule family="{}">'.format(names[family]))
            lines.append('    <source ipset="{}-controllers{}"/>'.format(zone, family))
            lines += [port_tag("{}/tcp".format(port), "    "), "    <accept/>", "  </rule>"]
    return HEAD + "\n".join([*lines, "</policy>"]) + "\n"


def service_xml(ssh_ports):  # type: (list[int]) -> str
    """Print what the service ``ssh`` means on this node."""
    lines = ["<service>", "  <short>SSH</short>"]
    lines += [port_tag("{}/tcp".format(port), "  ") for port in ssh_ports]
    return HEAD + "\n".join([*lines, "</service>"]) + "\n"


def paths(zone):  # type: (str) -> dict[str, str]
    """Name every file that can be ours."""
    found = {"zone": "{}/zones/{}.xml".format(ETC, zone)}
    found["policy"] = "{}/policies/{}-ssh.xml".format(ETC, zone)
    found["service"] = ETC + "/services/ssh.xml"
    for family, _, _ in FAMILIES:
        for who in ("peers", "controllers"):
            found[who + family] = "{}/ipsets/{}-{}{}.xml".format(ETC, zone, who, family)
    return found


def files(want):  # type: (Entry) -> dict[str, str]
    """Render every file; empty content means that it shall not exist.

    *want*: zone, mode, peers, controllers, ports, ssh_ports, own_service.
    """
    zone, ssh = want["zone"], sorted(set(want["ssh_ports"]))
    place = paths(zone)
    result = dict.fromkeys(place.values(), "")
    peers, controllers = by_family(want["peers"]), by_family(want["controllers"])
    for family, _, _ in FAMILIES:
        for who, entries in (("peers", peers[family]), ("controllers", controllers[family])):
            if entries:
                short = "{} {}".format(zone, who)
                result[place[who + family]] = ipset_xml(short, family, entries)
    ports = ["{}/tcp".format(port) for port in ssh]
    ports += [port for port in want["ports"] if port not in ports]
    result[place["zone"]] = zone_xml(
        zone, want["mode"], [f for f in sorted(peers) if peers[f]], ports
    )
    with_controllers = [family for family in sorted(controllers) if controllers[family]]
    if with_controllers:
        result[place["policy"]] = policy_xml(zone, with_controllers, ssh)
    if want["own_service"]:
        result[place["service"]] = service_xml(ssh)
    return result


# --- what others have ---------------------------------------------------------------------------


def read(path):  # type: (str) -> str
    """Return a file's text, empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def tree(root, kind, name):  # type: (str, str, str) -> Any
    """Parse one object's file as firewalld would find it; None where there is none or it is broken."""
    for base in (ETC, LIB):
        text = read("{}{}/{}/{}.xml".format(root, base, kind, name))
        if text:
            try:
                return ElementTree.fromstring(text)  # noqa: S314 (root's own files on this node)
            except ElementTree.ParseError:
                return None
    return None


def object_names(root, kind):  # type: (str, str) -> list[str]
    """Name every zone (service, ipset ...) that has a file."""
    names = set()  # type: set[str]
    for base in (ETC, LIB):
        try:
            entries = os.listdir("{}{}/{}".format(root, base, kind))
        except OSError:
            continue
        names.update(entry[:-4] for entry in entries if entry[-4:] == ".xml")
    return sorted(names)


def conf_value(root, key, default):  # type: (str, str, str) -> str
    """Read one setting of firewalld.conf."""
    found = re.search(r"^\s*{}\s*=\s*(\S+)".format(key), read(root + ETC + "/firewalld.conf"), re.M)
    return found.group(1) if found else default


def has_port(node, port):  # type: (Any, int) -> bool
    """Say whether a zone's or service's <port> tags let a TCP port in."""
    for tag in node.findall("port"):
        first, _, last = tag.get("port", "").partition("-")
        if (
            tag.get("protocol") == "tcp"
            and first.isdigit()
            and int(first) <= port <= int(last or first)
        ):
            return True
    return False


def zone_allows(root, zone, port):  # type: (str, str, int) -> bool
    """Say whether a zone, as it stands on disk, lets a TCP port in."""
    node = tree(root, "zones", zone)
    if node is None:
        return False
    if node.get("target") == "ACCEPT" or has_port(node, port):
        return True
    services = [tree(root, "services", tag.get("name", "")) for tag in node.findall("service")]
    return any(service is not None and has_port(service, port) for service in services)


def zone_has_service(root, zone, name):  # type: (str, str, str) -> bool
    """Say whether a zone lists a service."""
    node = tree(root, "zones", zone)
    return node is not None and any(tag.get("name") == name for tag in node.findall("service"))


def zone_sources(root, zone):  # type: (str, str) -> list[str]
    """List the networks a zone claims, ipsets resolved; MAC addresses are left out."""
    node = tree(root, "zones", zone)
    found = []  # type: list[str]
    for tag in [] if node is None else node.findall("source"):
        if tag.get("address"):
            found.append(tag.get("address"))
        elif tag.get("ipset"):
            ipset = tree(root, "ipsets", tag.get("ipset"))
            entries = [] if ipset is None else ipset.findall("entry")
            found += [str(entry.text).strip() for entry in entries]
    return found


def claims(root, own, peers):  # type: (str, str, list[str]) -> list[str]
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


def parse_zones(text):  # type: (str) -> dict[str, Entry]
    """Read ``firewall-cmd --list-all-zones``; interfaces are left out, they belong to NetworkManager."""
    zones = {}  # type: dict[str, Entry]
    now, key = {}, ""  # type: Entry, str
    for line in text.splitlines():
        if line and not line[0].isspace():
            now = zones.setdefault(line.split()[0], {})
        elif line.startswith("\t") and key:
            now[key] = sorted([*now.get(key, []), line.strip()])
        elif ":" in line:
            key, _, value = line.strip().partition(":")
            now[key] = sorted(value.split())
    for zone in zones.values():
        zone.pop("interfaces", None)
    return zones


def unsaved(runtime, permanent, own):  # type: (str, str, str) -> list[str]
    """Say what other zones allow at runtime only: a reload would drop it."""
    ran, kept = parse_zones(runtime), parse_zones(permanent)
    found = []
    for zone in sorted(ran):
        for key in sorted(ran[zone]):
            if zone != own and ran[zone][key] != kept.get(zone, {}).get(key, []):
                found.append(
                    "zone {}, {}: {}".format(zone, key, " ".join(ran[zone][key]) or "none")
                )
    return found


# --- the kernel ---------------------------------------------------------------------------------


def binding():  # type: () -> str
    """Ask libnftables itself: Debian's firewalld brings the library without the command nft."""
    try:
        nftables = importlib.import_module("nftables")  # the OS's own; absent on a bare node
    except ImportError:
        return ""
    link = nftables.Nftables()
    link.set_json_output(True)
    rc, out, _ = link.cmd("list table inet firewalld")
    return str(out) if rc == 0 else ""


def kernel_table(run):  # type: (Runner) -> list[Entry]
    """Return the rules that the kernel has from firewalld; empty when there are none."""
    rc, out = run(["nft", "-j", "list", "table", "inet", "firewalld"])
    text = out if rc == 0 and out.strip() else binding()
    try:
        return list(json.loads(text)["nftables"])
    except (ValueError, KeyError, TypeError):
        return []


def elements(table, name):  # type: (list[Entry], str) -> list[str] | None
    """Return a set's addresses, sorted; None where the kernel has no such set."""
    for item in table:
        if item.get("set", {}).get("name") == name:
            found = []  # type: list[str]
            for one in item["set"].get("elem", []):
                found += addresses_of(
                    one["elem"]["val"] if isinstance(one, dict) and "elem" in one else one
                )
            return sorted(found)
    return None


def addresses_of(value):  # type: (Any) -> list[str]
    """Return the addresses of one element; libnftables may join neighbours to a range or prefix."""
    if not isinstance(value, dict):
        return [str(value)]
    if "prefix" in value:
        text = "{addr}/{len}".format(**value["prefix"])
        return [str(one) for one in ipaddress.ip_network(text)]
    first, last = [ipaddress.ip_address(one) for one in value["range"]]
    return [str(first + step) for step in range(int(last) - int(first) + 1)]


def chain_rules(table, chain):  # type: (list[Entry], str) -> list[list[Entry]]
    """Return the expressions of every rule of a chain, in order."""
    rules = [item["rule"] for item in table if "rule" in item]
    return [rule["expr"] for rule in rules if rule["chain"] == chain]


def accepted(expressions):  # type: (list[Entry]) -> str
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


def jumps(table, chain):  # type: (list[Entry], str) -> list[tuple[str, str]]
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


def kernel_faults(table, want):  # type: (list[Entry], Entry) -> list[str]
    """Compare the kernel's rules with our files: every difference in one sentence."""
    if not table:
        return ["the kernel has no table of firewalld"]
    zone, found = want["zone"], []
    sets = {"peers": by_family(want["peers"]), "controllers": by_family(want["controllers"])}
    for who in sorted(sets):
        for family in sorted(sets[who]):
            name = "{}-{}{}".format(zone, who, family)
            seen = elements(table, name) or []
            if seen != sorted(sets[who][family]):
                found.append("set {} holds {}".format(name, ", ".join(seen) or "nothing"))
    for family in sorted(sets["peers"]):
        name = "{}-peers{}".format(zone, family)
        if sets["peers"][family] and not dispatched(table, name, zone):
            found.append("no rule sends set {} to zone {}".format(name, zone))
    chain = "filter_IN_policy_{}-ssh_allow".format(zone)
    ssh = {accepted(rule) for rule in chain_rules(table, chain)}
    for port in want["ssh_ports"] if any(sets["controllers"].values()) else []:
        if "{}/tcp".format(port) not in ssh:
            found.append("controllers do not reach ssh on port {}".format(port))
    return found + port_faults(table, want)


def dispatched(table, name, zone):  # type: (list[Entry], str, str) -> bool
    """Say whether a source set reaches a zone's input chain."""
    chains = {rule["rule"]["chain"] for rule in table if "rule" in rule}
    return any(
        (name, "filter_IN_" + zone) in jumps(table, chain) for chain in chains if "INPUT" in chain
    )


def port_faults(table, want):  # type: (list[Entry], Entry) -> list[str]
    """Compare the ports that the zone accepts with those it shall accept, no more and no less."""
    zone = want["zone"]
    rules = [accepted(rule) for rule in chain_rules(table, "filter_IN_{}_allow".format(zone))]
    seen = {rule for rule in rules if rule}
    if want["mode"] == "peers_trusted":
        last = [accepted(rule) for rule in chain_rules(table, "filter_IN_" + zone)]
        return [] if "*" in last else ["zone {} does not accept everything".format(zone)]
    wanted = {"{}/tcp".format(port) for port in want["ssh_ports"]} | set(want["ports"])
    found = ["{} is closed".format(port) for port in sorted(wanted - seen)]
    found += ["{} is open and not ours".format(port) for port in sorted(seen - wanted - {"*"})]
    if "*" in seen:
        found.append("a rule opens a whole protocol")
    return found


def fingerprint_rules(table, zone):  # type: (list[Entry], str) -> list[str]
    """Print what the kernel does for a zone, without handles and other numbers that change by themselves."""
    name = re.compile(r"(^|_){}(_|-|$)".format(re.escape(zone)))
    lines = []
    for item in table:
        if "set" in item and name.search(item["set"]["name"]):
            entries = elements(table, item["set"]["name"]) or []
            lines.append("set {} {}".format(item["set"]["name"], " ".join(entries)))
        elif "rule" in item:
            text = json.dumps(item["rule"]["expr"], sort_keys=True)
            ours = name.search(item["rule"]["chain"])
            if ours or "@{}-".format(zone) in text or '"filter_IN_{}"'.format(zone) in text:
                lines.append("rule {} {}".format(item["rule"]["chain"], text))
    return sorted(lines)


def permanent_text(zone, root=""):  # type: (str, str) -> str
    """Return a zone's files as one text: the zone and every ipset it names."""
    node = tree(root, "zones", zone)
    names = [] if node is None else [tag.get("ipset") for tag in node.findall("source")]
    places = [("zones", zone)] + [("ipsets", name) for name in names if name]
    parts = []
    for kind, name in places:
        for base in (ETC, LIB):
            text = read("{}{}/{}/{}.xml".format(root, base, kind, name))
            if text:
                parts.append("{} {}\n{}".format(kind, name, text))
                break
    return "\n".join(parts)


def zone_fingerprint(zones, run, root=""):
    # type: (list[str], Runner, str) -> dict[str, dict[str, str]]
    """Return {zone: {"permanent": sha256, "runtime": sha256}}: the files, and the kernel's own rules.

    The kernel is asked, not the daemon: a flushed ruleset is seen as well as a port taken out at runtime,
    in one call of a few milliseconds (firewall-cmd needs 0.3 s for each question). The iptables backend has no
    such table; there the daemon is asked.
    """
    table = kernel_table(run)
    fallback = "" if table else run(["firewall-cmd", "--list-all-zones"])[1]
    result = {}
    for zone in zones:
        told = parse_zones(fallback).get(zone, {})
        rules = fingerprint_rules(table, zone) if table else [json.dumps(told, sort_keys=True)]
        runtime = "\n".join(rules)
        pair = {"permanent": permanent_text(zone, root), "runtime": runtime}
        result[zone] = {kind: hashlib.sha256(pair[kind].encode()).hexdigest() for kind in pair}
    return result


# --- our own way in -----------------------------------------------------------------------------


def ssh_connection(environ, pid, proc="/proc"):  # type: (Any, int, str) -> list[str]
    """Return SSH_CONNECTION's four words; sudo drops the variable, so the parents are asked as well."""
    words = str(environ.get("SSH_CONNECTION", "")).split()
    while not words and pid > 1:
        try:
            with open("{}/{}/environ".format(proc, pid), "rb") as stream:
                pairs = stream.read().split(b"\0")
            found = [pair for pair in pairs if pair.startswith(b"SSH_CONNECTION=")]
            words = found[0].decode().split("=", 1)[1].split() if found else []
            pid = int(stat_fields(pid, proc)[1])
        except (OSError, ValueError, IndexError):
            break
    return words if len(words) == 4 else []  # noqa: PLR2004 (sshd(8): client, port, server, port)


def stat_fields(pid, proc):  # type: (int, str) -> list[str]
    """Return /proc/<pid>/stat after the command's name: state, parent, ..."""
    return read("{}/{}/stat".format(proc, pid)).rpartition(")")[2].split()


def listening(proc="/proc"):  # type: (str) -> dict[str, int]
    """Return {socket inode: port} of every TCP listener that is not on loopback."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in read("{}/net/{}".format(proc, name)).splitlines()[1:]:
            words = line.split()
            address, _, port = words[1].partition(":")
            local = address[-2:] == "7F" if name == "tcp" else address == "0" * 24 + "01000000"
            if words[3] == "0A" and not local:
                found[words[9]] = int(port, 16)
    return found


def sshd_ports(proc="/proc"):  # type: (str) -> list[int]
    """Return the ports of the sshd that systemd started; a session's own forwardings are not among them."""
    sockets, found = listening(proc), set()  # type: dict[str, int], set[int]
    for pid in [name for name in os.listdir(proc) if name.isdigit()]:
        if read("{}/{}/comm".format(proc, pid)).strip() != "sshd":
            continue
        fields = stat_fields(int(pid), proc)
        if len(fields) > 1 and fields[1] == "1":
            found |= {sockets[one] for one in socket_inodes(pid, proc) if one in sockets}
    return sorted(found)


def socket_inodes(pid, proc):  # type: (str, str) -> list[str]
    """Return the inodes of a process' sockets."""
    base = "{}/{}/fd".format(proc, pid)
    found = []
    try:
        for name in os.listdir(base):
            link = os.readlink(base + "/" + name)
            if link.startswith("socket:["):
                found.append(link[8:-1])
    except OSError:
        return found
    return found
