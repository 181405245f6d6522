"""Plan a lab's nodes and their names. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from devtools.lab.errors import LabError

DEFAULT_NAME = "demo"
DEFAULT_NODES = 2
MAX_NODES = 8
FAMILIES = ("el", "ubuntu")
OUTSIDER = "outsider"
FIRST_HOST = 11
OUTSIDER_HOST = 90
CLUSTER_INTERFACE = "eth1"

# Debian's own releases, unmodified. Only a lab that requests them has them.
DEBIAN = {"debian12": "bookworm", "debian13": "trixie"}
IMAGES = {"el": "el9", "ubuntu": "ubuntu24.04", **{family: family for family in DEBIAN}}
SYSTEMS = {
    "el": "CentOS Stream 9",
    "ubuntu": "Ubuntu 24.04",
    "debian12": "Debian 12",
    "debian13": "Debian 13",
}


@dataclass(frozen=True)
class Node:
    """One node: inventory name, container, its own host name and its addresses."""

    name: str
    family: str
    container: str
    hostname: str
    management_address: str
    cluster_address: str
    outsider: bool = False
    mac: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the node as plain data for lab.json."""
        return asdict(self)


def check_name(name: str) -> str:
    """Return *name* if it is a valid lab name; LB-104 otherwise."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name):
        raise LabError(
            "LB-104",
            f"{name!r} is not a lab name",
            "Use up to 40 lower-case letters, digits and dashes, for example demo or m-static-ip.",
        )
    return name


def check_count(count: int) -> int:
    """Return *count* if a lab may have so many nodes; LB-105 otherwise."""
    if not 1 <= count <= MAX_NODES:
        raise LabError(
            "LB-105", f"--nodes {count} is not possible", f"A lab has 1 to {MAX_NODES} nodes."
        )
    return count


def check_families(text: str) -> tuple[str, ...]:
    """Read ``el,ubuntu``; LB-113 if the lab does not have a family."""
    families = tuple(part.strip() for part in text.split(",") if part.strip())
    unknown = [family for family in families if family not in IMAGES]
    if unknown or not families:
        raise LabError(
            "LB-113",
            f"--families {text!r} names {', '.join(unknown) or 'no family'}",
            f"Give one or more of {', '.join(IMAGES)}, separated by commas.",
        )
    return families


def hostname(name: str, family: str) -> str:
    """Return the node's own name, which differs from the inventory's on purpose.

    EL installs a fully qualified name, Ubuntu a short one. Fullmesh must support both.
    """
    return f"gpu-{name}.lab.example" if family == "el" else f"gpu-{name}"


def cluster_address(index: int, host: int, ipv6: bool) -> str:
    """Return a node's planned cluster address with its prefix length."""
    return f"fd78:0:0:{index:x}::{host}/64" if ipv6 else f"10.78.{index}.{host}/24"


def leased(nodes: Sequence[Node], index: int, ipv6: bool) -> list[Node]:
    """Return the nodes of a lab with one network. Each gets a lease by its MAC, and ssh uses that address."""
    result = []
    for node in nodes:
        number = int(node.management_address.rsplit(".", 1)[1])
        address = f"fd78:0:0:{index:x}::1{number}" if ipv6 else f"10.78.{index}.{100 + number}"
        mac = f"02:fe:00:{index:02x}:00:{number:02x}"
        result.append(replace(node, management_address=address, mac=mac))
    return result


def nodes(lab: str, index: int, families: Sequence[str], count: int, ipv6: bool) -> list[Node]:
    """Return *count* nodes whose families alternate: el1, ubuntu1, el2 ..., or debian12-1, debian13-1 ..."""
    result: list[Node] = []
    for position in range(count):
        family = families[position % len(families)]
        number = 1 + len([earlier for earlier in result if earlier.family == family])
        dash = "-" if family in DEBIAN else ""
        result.append(
            _node(f"{family}{dash}{number}", family, lab, (index, FIRST_HOST + position, ipv6))
        )
    return result


def list_families(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the families of *nodes*, each once."""
    return tuple(dict.fromkeys(node.family for node in nodes))


def outsider(lab: str, index: int, ipv6: bool) -> Node:
    """Return the node that is on both networks but is not a peer of the cluster."""
    return _node(OUTSIDER, "ubuntu", lab, (index, OUTSIDER_HOST, ipv6))


def _node(name: str, family: str, lab: str, place: tuple[int, int, bool]) -> Node:
    """Return one node; *place* is the lab's index, the last part of the addresses, IPv6 or not."""
    index, host, _ipv6 = place
    return Node(
        name=name,
        family=family,
        container=f"fm-{lab}-{name}",
        hostname=hostname(name, family),
        management_address=f"10.77.{index}.{host}",
        cluster_address=cluster_address(*place),
        outsider=name == OUTSIDER,
    )
