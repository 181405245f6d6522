"""Check the names of a cluster before a node is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.model.addresses import is_host_name

CODES: dict[str, str] = {
    "NR-101": "This node's address is not among the hosts",
    "NR-102": "Two addresses use the same name",
    "NR-103": "nsswitch.conf uses another source before /etc/hosts",
    "NR-104": "A name does not resolve to its cluster address",
    "NR-105": "cloud-init overwrites /etc/hosts at boot (warning)",
    "NR-106": "A name is not allowed in /etc/hosts",
}


def find_hosts_file_faults(
    hosts: Sequence[Mapping[str, Any]], address: str, names: Sequence[str]
) -> list[Fault]:
    """Return the faults in the hosts' lines and in this node's own names."""
    owners: dict[str, str] = {}
    found = []
    for host in hosts:
        for name in host["names"]:
            if not is_host_name(name) or str(name).lower().startswith("localhost"):
                found.append(_explain_unusable_name(str(name)))
            elif owners.setdefault(str(name).lower(), host["address"]) != host["address"]:
                found.append(
                    _explain_duplicate_name(str(name), owners[str(name).lower()], host["address"])
                )
    if address not in {host["address"] for host in hosts}:
        found.append(
            Fault(
                "NR-101",
                f"This node's address {address} is not among the hosts",
                "Set name_resolution_address to one of name_resolution_hosts",
            )
        )
    for name in dict.fromkeys(names):
        owner = owners.get(name.lower(), address)
        if owner != address:
            found.append(_explain_duplicate_name(name, owner, address))
    return found


def _explain_unusable_name(name: str) -> Fault:
    return Fault(
        "NR-106",
        f"{name!r} cannot be a node's name in /etc/hosts",
        "Use letters, digits, '-' and '.', and not localhost",
    )


def _explain_duplicate_name(name: str, first: str, second: str) -> Fault:
    return Fault(
        "NR-102",
        f"{first} and {second} both use the name {name}",
        "Give every node its own name: hostnamectl set-hostname, or the inventory's names",
    )
