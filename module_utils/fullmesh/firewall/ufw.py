# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read ufw's state and user rules on a node, and convert the rules for firewalld.

Standard library only.

ufw's user rules are the ``### tuple ###`` lines of /etc/ufw/user.rules, from which ufw writes the iptables lines below
them: action, protocol, port, to, source port, from, [applications,] direction.
"""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from ..files import (
    SPACE,
    read_bytes,
    read_text_or_empty,
    split_lines,
    split_words,
    write_file_atomically,
)
from ..schema.ports import parse_port_entry, parse_port_ranges
from ..state.observe import describe_path
from ..state.record import UndoPoint, make_empty_record
from .firewalld_files import HEAD, group_by_family

if TYPE_CHECKING:
    from ..answer import Note
    from ..commands import Runner
    from .types import UfwRule


CONF = "/etc/ufw/ufw.conf"
COMMAND = "/usr/sbin/ufw"
ROLE = "peer_firewall"
# Before firewalld's zones, as ufw came before everything, and after the controllers' ssh (SSH_PRIORITY).
PRIORITY = -10000
VERDICTS = {"allow": "<accept/>", "limit": "<accept/>", "deny": "<drop/>", "reject": "<reject/>"}
TUPLE = re.compile(r"^### tuple ### (.*)$", re.MULTILINE)
PORTS = re.compile(r"any\Z|[0-9]{1,5}(:[0-9]{1,5})?(,[0-9]{1,5}(:[0-9]{1,5})?)*\Z")
PROTOCOL = re.compile(r"[a-z0-9-]+\Z")
FIELDS, WITH_APPLICATIONS = 7, 9
RULES = (("4", "user.rules"), ("6", "user6.rules"))
SHIPPED = "/usr/share/ufw/iptables/"


def is_ufw_enabled(root: str = "") -> bool:
    """Return whether ufw is on. ufw.conf decides: its unit is `active` even without an effect."""
    lines = split_lines(read_text_or_empty(root + CONF))
    return any(line.replace(" ", "").lower() == "enabled=yes" for line in lines)


def is_ufw_installed(root: str = "") -> bool:
    """Return whether the command exists."""
    return os.path.exists(root + COMMAND)


def is_ufw_replaced(root: str = "") -> bool:
    """Return whether Fullmesh has replaced ufw earlier."""
    return get_ufw_record(root).exists()


def get_ufw_record(root: str = "") -> UndoPoint:
    """Return the record of ufw's state before the role's first change. It is removed with the role's own."""
    return UndoPoint(root, ROLE, "ufw")


def save_ufw_state(root: str, in_kernel: bool) -> None:
    """Save ufw.conf and whether the rules are in the kernel. A later `ufw enable` and take-over replaces this."""
    before, conf = get_ufw_record(root), os.path.realpath(root + CONF)
    record = make_empty_record(ROLE)
    record["files"][CONF] = describe_path(conf, CONF)
    record["part"]["ufw"] = {"loaded": in_kernel, "modified_ns": os.stat(conf).st_mtime_ns}
    before.save(record, {CONF: read_bytes(conf)})


def was_ufw_loaded(root: str = "") -> bool:
    """Return whether ufw's rules were in the kernel before the role's first change."""
    part = get_ufw_record(root).load()["part"]
    return "ufw" in part and part["ufw"]["loaded"]


def is_ufw_conf_original(root: str = "") -> bool:
    """Return whether ufw.conf is as it was before the role's first change."""
    before = get_ufw_record(root)
    then = before.load()["files"].get(CONF)
    if then is None:
        return True
    return os.path.isfile(root + CONF) and before.blob(then) == read_bytes(root + CONF)


def restore_ufw_conf(root: str = "") -> None:
    """Restore ufw.conf with its old mode and time."""
    before = get_ufw_record(root)
    record, conf = before.load(), os.path.realpath(root + CONF)
    then = record["files"].get(CONF)
    if then is None:
        return
    write_file_atomically(conf, before.blob(then), then["mode"])
    when = record["part"]["ufw"]["modified_ns"]
    os.utime(conf, ns=(when, when))


def is_ufw_loaded(run: Runner) -> bool:
    """Return whether ufw's rules are in the kernel, as `ufw status` reports it."""
    rc, out = run([COMMAND, "status"])
    return rc == 0 and "Status: active" in out


def read_ufw_rules(root: str = "") -> list[UfwRule]:
    """Return the user's rules in ufw's order, v4 first."""
    found = []
    for family, name in RULES:
        for text in TUPLE.findall(read_text_or_empty(root + "/etc/ufw/" + name)):
            one = parse_ufw_rule(text)
            one["family"] = family
            found.append(one)
    return found


def parse_ufw_rule(text: str) -> UfwRule:
    """Parse one tuple. ``odd`` if its form is unknown."""
    words = [word for word in split_words(text) if not word.startswith("comment=")]
    entry: UfwRule = {"text": text.partition(" comment=")[0], "odd": True}
    if len(words) not in (FIELDS, WITH_APPLICATIONS):
        return entry
    action, protocol, port, to, source_port, source = words[:6]
    if not (
        PORTS.match(port)
        and PROTOCOL.match(protocol)
        and is_network_text(to)
        and is_network_text(source)
    ):
        return entry
    return {
        "text": entry["text"],
        "odd": False,
        "action": action.partition("_")[0],
        "protocol": protocol,
        "port": port,
        "to": to,
        "source_port": source_port,
        "from": source,
        "direction": words[-1],
    }


def is_network_text(text: str) -> bool:
    """Return whether a text is an address or a network."""
    try:
        return bool(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return False


def explain_unsupported_rule(one: UfwRule) -> str:
    """Return why firewalld cannot express a rule, or ""."""
    if one["odd"]:
        return "of an unknown form"
    if one["action"].startswith("route:"):
        return "routed traffic"
    if one["direction"] != "in":
        return "outgoing" if one["direction"].startswith("out") else "bound to an interface"
    if one["action"] not in VERDICTS:
        return "of an unknown kind"
    return "by source port" if one["source_port"] != "any" else ""


def is_blocking_senders(one: UfwRule, ours: list[str], ports: list[str]) -> bool:
    """Return whether a rule keeps a peer or controller from one of the plan's ports."""
    if one["action"] not in ("deny", "reject") or not is_rule_for_ports(one, ports):
        return False
    network = ipaddress.ip_network(one["from"], strict=False)
    senders = group_by_family(ours)[one["family"]]
    return any(ipaddress.ip_network(text).overlaps(network) for text in senders)


def list_unsupported_rules(root: str, ours: list[str], ports: list[str]) -> list[str]:
    """Describe parts that cannot be carried over: rules, defaults, edited files."""
    found = [
        "`{}` ({})".format(one["text"], explain_unsupported_rule(one))
        for one in read_ufw_rules(root)
        if explain_unsupported_rule(one)
    ]
    found += [
        "`{}` (blocks peers or controllers)".format(one["text"])
        for one in read_ufw_rules(root)
        if not explain_unsupported_rule(one) and is_blocking_senders(one, ours, ports)
    ]
    defaults = read_text_or_empty(root + "/etc/default/ufw")
    for key, usual in (("INPUT", ("drop", "reject")), ("OUTPUT", ("accept",))):
        seen = re.search(rf'^DEFAULT_{key}_POLICY="?(\w+)', defaults, re.MULTILINE | re.ASCII)
        if seen and seen.group(1).lower() not in usual:
            found.append(f"DEFAULT_{key}_POLICY={seen.group(1)} in /etc/default/ufw")
    for name in ("before.rules", "before6.rules", "after.rules", "after6.rules"):
        shipped = read_text_or_empty(root + SHIPPED + name)
        if shipped and read_text_or_empty(root + "/etc/ufw/" + name) != shipped:
            found.append(f"/etc/ufw/{name} (was edited)")
    return found


def list_carried_rules(root: str, ours: list[str], ports: list[str]) -> list[UfwRule]:
    """Return the rules that firewalld takes over."""
    return [
        one
        for one in read_ufw_rules(root)
        if not explain_unsupported_rule(one) and not is_blocking_senders(one, ours, ports)
    ]


def find_newly_open_ssh(root: str, zone: str, doors: list[int], rules: list[UfwRule]) -> list[str]:
    """Return the ssh ports that ufw restricted by its default deny, and that firewalld's default zone opens to all.

    *doors*: ports that the zone opens. *rules*: those carried over, in a policy that is evaluated before any zone. A
    rule for all clients decides there.
    """
    disabled = read_text_or_empty(root + "/proc/sys/net/ipv6/conf/all/disable_ipv6").strip(SPACE)
    families = ("4", "6") if disabled == "0" else ("4",)
    form = (
        "ssh on {}/tcp over IPv{} (ufw restricts it, but firewalld's default zone {} opens it to all: allow it in ufw, "
        "or remove it from that zone)"
    )
    return [
        form.format(port, family, zone)
        for port in doors
        for family in families
        if not any(one["family"] == family and is_rule_for_all(one, port) for one in rules)
    ]


def is_rule_for_all(one: UfwRule, port: int) -> bool:
    """Return whether a rule is for a TCP port with any client and any address of the node."""
    everybody = one["from"].endswith("/0") and one["to"].endswith("/0")
    return everybody and is_rule_for_ports(one, [f"{port}/tcp"])


def render_ufw_policy(zone: str, rules: list[UfwRule]) -> str:
    """Render the user's rules as a policy. The first match wins, as in ufw (rich rules have priorities)."""
    texts = [text for one in rules for text in build_rich_rules(one)]
    if not texts:
        return ""
    lines = [f'<policy target="CONTINUE" priority="{PRIORITY}">']
    lines.append(f"  <short>{zone}-ufw</short>")
    lines.append("  <description>What ufw let in on this node before.</description>")
    lines += ['  <ingress-zone name="ANY"/>', '  <egress-zone name="HOST"/>']
    for number, (family, inner) in enumerate(texts, 1):
        lines.append(f'  <rule family="ipv{family}" priority="{number}">')
        lines += ["    " + part for part in inner]
        lines.append("  </rule>")
    return str(HEAD) + "\n".join([*lines, "</policy>"]) + "\n"


def build_rich_rules(one: UfwRule) -> list[tuple[str, list[str]]]:
    """Convert one tuple to rich rules: one for each port and protocol."""
    ends = []
    if not one["from"].endswith("/0"):
        ends.append("<source address={}/>".format(quoteattr(one["from"])))
    if not one["to"].endswith("/0"):
        ends.append("<destination address={}/>".format(quoteattr(one["to"])))
    verdict = VERDICTS[one["action"]]
    return [(one["family"], [*ends, *part, verdict]) for part in build_port_elements(one)]


def build_port_elements(one: UfwRule) -> list[list[str]]:
    """Return the elements for ports and protocol. In ufw, a port without a protocol means tcp and udp."""
    if one["port"] == "any":
        name = one["protocol"]
        return [[]] if name == "any" else [[f"<protocol value={quoteattr(name)}/>"]]
    protocols = ["tcp", "udp"] if one["protocol"] == "any" else [one["protocol"]]
    form = "<port port={} protocol={}/>"
    return [
        [form.format(quoteattr(port.replace(":", "-")), quoteattr(protocol))]
        for port in one["port"].split(",")
        for protocol in protocols
    ]


def is_rule_for_ports(one: UfwRule, ports: list[str]) -> bool:
    """Return whether a rule is for one of these ports (``50000-54095/tcp``)."""
    spans = parse_port_ranges(one["port"])
    for span, protocol in filter(None, map(parse_port_entry, ports)):
        if one["protocol"] not in ("any", protocol):
            continue
        if one["port"] == "any" or any(span.shared(other) for other in spans):
            return True
    return False


def describe_ufw_takeover(rules: list[UfwRule], ports: list[str], lost: list[str]) -> list[Note]:
    """Return notes for the user about the replacement of ufw."""
    text = (
        f"ufw was active. Its {len(rules)} rule(s) for others are now in firewalld's policy, and ufw is disabled "
        "(undo enables it again)"
    )
    if lost:
        text += ". Not carried over, as configured: " + "; ".join(lost)
    limits = [one["text"] for one in rules if one["action"] == "limit"]
    if limits:
        text += ". Without their rate limit: " + "; ".join(f"`{one}`" for one in limits)
    found: list[Note] = [{"code": "PF-203", "text": text + "."}]
    open_ = [one for one in rules if one["action"] in ("allow", "limit")]
    wide = ["`{}`".format(one["text"]) for one in open_ if is_rule_for_ports(one, ports)]
    if wide:
        text = "a rule of ufw opened the cluster's ports to others than peers and still does: {}.".format(
            "; ".join(wide)
        )
        found.append(
            {"code": "PF-204", "text": text + " Delete it with `ufw delete ...` and run again."}
        )
    return found
