# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read firewalld: the text of firewall-cmd(1), its D-Bus interface (busctl(1)), and the files of its objects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from ..files import SPACE, read_text_or_empty, split_lines, split_words
from ..foreign_text import ForeignTextError, parse_tool_json

if TYPE_CHECKING:
    from ..schema.survey import FirewalldPolicy, FirewalldZone

ETC = "/etc/firewalld"
LIB = "/usr/lib/firewalld"
BUS = "org.fedoraproject.FirewallD1"


def build_bus_command(interface: str, method: str, *arguments: str) -> list[str]:
    """Build a query over D-Bus, because firewall-cmd needs 0.3 s of Python for each.

    Args:
        interface: behind the name of the service, such as ``.zone``.
        method: to call.
        arguments: busctl's signature, and the values.
    """
    place = (BUS, "/org/fedoraproject/FirewallD1", BUS + interface)
    return ["busctl", "--json=short", "call", *place, method, *arguments]


def parse_bus_reply(text: str) -> Any:
    """Parse `build_bus_command`: the first value of the reply, without D-Bus types.

    Raises:
        ForeignTextError: it is not a reply.
    """
    held = parse_tool_json(text)
    data = held.get("data") if isinstance(held, dict) else None
    if not isinstance(data, list) or not data:
        raise ForeignTextError("it is not a reply of D-Bus")
    return strip_types(data[0])


def strip_types(value: Any) -> Any:
    """Remove the D-Bus types from a value."""
    if isinstance(value, dict):
        if set(value) == {"type", "data"}:
            return strip_types(value["data"])
        return {key: strip_types(one) for key, one in value.items()}
    return [strip_types(one) for one in value] if isinstance(value, list) else value


def list_texts(held: dict[str, Any], key: str) -> list[str]:
    """Return a list of texts in a reply, sorted."""
    value = held.get(key)
    return sorted(map(str, value)) if isinstance(value, list) else []


def format_ports(value: Any) -> list[str]:
    """Format every pair as ``50000-54095/tcp``."""
    pairs = value if isinstance(value, list) else []
    return sorted("/".join(map(str, pair)) for pair in pairs if isinstance(pair, (list, tuple)))


def describe_zone_reply(held: Any) -> FirewalldZone:
    """Describe the reply of getZoneSettings2."""
    held = held if isinstance(held, dict) else {}
    target = held.get("target", "default")
    return {
        "target": "" if target == "default" else str(target),
        "ports": format_ports(held.get("ports")),
        "services": list_texts(held, "services"),
        "sources": list_texts(held, "sources"),
        "interfaces": list_texts(held, "interfaces"),
        "rules": len(list_texts(held, "rules_str")),
    }


def describe_policy_reply(held: Any) -> FirewalldPolicy:
    """Describe the reply of getPolicySettings."""
    held = held if isinstance(held, dict) else {}
    return {
        "target": str(held.get("target", "CONTINUE")),
        "ports": format_ports(held.get("ports")),
        "services": list_texts(held, "services"),
        "ingress": list_texts(held, "ingress_zones"),
        "egress": list_texts(held, "egress_zones"),
        "rules": list_texts(held, "rich_rules"),
    }


def parse_zones(text: str) -> dict[str, dict[str, list[str]]]:
    """Parse ``firewall-cmd --list-all-zones`` or ``--list-all-policies``."""
    zones: dict[str, dict[str, list[str]]] = {}
    now: dict[str, list[str]] = {}
    key = ""
    for line in split_lines(text):
        if line and not line[0].isspace():
            now = zones.setdefault(split_words(line)[0], {})
        elif line.startswith("\t") and key:
            now[key] = sorted([*now.get(key, []), line.strip(SPACE)])
        elif ":" in line:
            key, _, value = line.strip(SPACE).partition(":")
            now[key] = sorted(split_words(value))
    return zones


def parse_object(text: str) -> Any:
    """Parse the file of an object.

    Raises:
        ForeignTextError: it is not XML.
    """
    try:
        return ElementTree.fromstring(text)  # noqa: S314 (a file that only root of this node can write)
    except ElementTree.ParseError as error:
        raise ForeignTextError(f"it is not XML: {error}") from None


def read_object_file(root: str, kind: str, name: str) -> Any:
    """Parse the file of an object as firewalld would find it. None if it is missing or broken."""
    for base in (ETC, LIB):
        text = read_text_or_empty(f"{root}{base}/{kind}/{name}.xml")
        if text:
            try:
                return parse_object(text)
            except ForeignTextError:
                return None
    return None


def list_object_names(folder: str) -> list[str]:
    """Return the names of objects (zones, services, ipsets ...) with a file in a folder."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name[: -len(".xml")] for name in names if name.endswith(".xml"))


def describe_zone_file(node: Any) -> FirewalldZone:
    """Describe the file of a zone."""
    sources = [
        one.get("address") or "ipset:" + str(one.get("ipset")) for one in node.iter("source")
    ]
    return {
        "target": node.get("target", "") or "",
        "ports": list_port_tags(node),
        "services": list_tag_names(node, "service"),
        "sources": sorted(one for one in sources if one != "ipset:None"),
        "interfaces": list_tag_names(node, "interface"),
        "rules": len(node.findall("rule")),
    }


def describe_policy_file(node: Any) -> FirewalldPolicy:
    """Describe the file of a policy."""
    return {
        "target": node.get("target", "") or "CONTINUE",
        "ports": list_port_tags(node),
        "services": list_tag_names(node, "service"),
        "ingress": list_tag_names(node, "ingress-zone"),
        "egress": list_tag_names(node, "egress-zone"),
        "rules": sorted(" ".join(format_rule_words(rule)) for rule in node.findall("rule")),
    }


def list_port_tags(node: Any) -> list[str]:
    """Return the ports that a zone or policy opens to all."""
    return sorted(f"{one.get('port')}/{one.get('protocol')}" for one in node.findall("port"))


def list_tag_names(node: Any, tag: str) -> list[str]:
    """Return the names of the tags of one kind."""
    return sorted(str(one.get("name")) for one in node.findall(tag))


def format_rule_words(node: Any) -> list[str]:
    """Format an element of a rule and its content like firewalld: ``port port="22" protocol="tcp"``."""
    found = [str(node.tag)] + [f'{key}="{node.get(key)}"' for key in node.attrib]
    return found + [word for child in node for word in format_rule_words(child)]
