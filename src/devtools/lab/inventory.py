"""Build the lab's inventory: YAML text from the plan, without a library."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from devtools.lab.plan import CLUSTER_INTERFACE, Node, Setting

HEAD = """\
# Written by `fullmesh lab up`; the next one writes it again. Put settings into group_vars.
"""


def format_value(value: object) -> str:
    """Return *value* in JSON, which is a part of YAML."""
    return json.dumps(value, ensure_ascii=False)


def list_host_lines(
    node: Node, gateway: str = "", variables: Mapping[str, Setting] | None = None
) -> list[str]:
    """Return the lines of one host; *gateway* if the only interface also carries the ssh connections.

    An outsider has no variables of the project. It is only connected to the cluster network.
    """
    lines = [
        f"        {node.name}:",
        f"          ansible_host: {format_value(node.management_address)}",
    ]
    if node.outsider:
        return [*lines, f"          lab_cluster_address: {format_value(node.cluster_address)}"]
    lines += [
        f"          {name}: {format_value(value)}" for name, value in (variables or {}).items()
    ]
    if gateway:
        link = f"interface: {CLUSTER_INTERFACE}, addresses: [{format_value(node.cluster_address)}]"
        lines.append("          fullmesh_links:")
        lines.append(f"            - {{{link}, gateway: {format_value(gateway)}}}")
        return lines
    return [
        *lines,
        f"          fullmesh_address: {format_value(node.cluster_address)}",
        f"          fullmesh_interface: {CLUSTER_INTERFACE}",
    ]


def ssh_options(known_hosts: Path) -> list[str]:
    """Return ssh's options: accept only the recorded host keys, and try no other identity."""
    return [
        f"-o UserKnownHostsFile={known_hosts}",
        "-o StrictHostKeyChecking=yes",
        "-o IdentitiesOnly=yes",
    ]


def render_inventory(  # noqa: PLR0913 (one text out of seven values)
    nodes: Sequence[Node],
    controller: str,
    key: Path,
    known_hosts: Path,
    note: str = "",
    *,
    gateway: str = "",
    variables: Mapping[str, Mapping[str, Setting]] | None = None,
) -> str:
    """Return the text of hosts.yml.

    *controller* is this host's address on the management network, *note* is for the report's text about the nodes, and
    *gateway* is the router of a lab with DHCP. There, ssh comes from the controller's address behind the router.
    *variables* are settings of a family's nodes.
    """
    options = ssh_options(known_hosts) + ([f"-b {controller}"] if gateway else [])
    own = variables or {}
    peers = [
        line
        for node in nodes
        if not node.outsider
        for line in list_host_lines(node, gateway, own.get(node.family))
    ]
    others = [line for node in nodes if node.outsider for line in list_host_lines(node)]
    lines = [
        "all:",
        "  vars:",
        "    ansible_user: root",
        f"    ansible_ssh_private_key_file: {format_value(str(key))}",
        "    ansible_ssh_common_args: >-",
        *(f"      {option}" for option in options),
        f"    fullmesh_controllers: [{format_value(controller)}]",
        *([f"    verify_cluster_note: {format_value(note)}"] if note else []),
        "  children:",
        "    torch_nodes:",
        "      hosts:",
        *peers,
    ]
    if others:
        lines += ["    outsiders:", "      hosts:", *others]
    return HEAD + "\n".join(lines) + "\n"


def known_hosts_line(address: str, public_key: str) -> str:
    """Return a known_hosts line from the text of ssh_host_ed25519_key.pub."""
    kind, key = public_key.split()[:2]
    return f"{address} {kind} {key}"
