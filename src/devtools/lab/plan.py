"""Plan a lab's nodes and their names. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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


Setting = str | bool | list[str]  # of the inventory


@dataclass(frozen=True)
class RealImage:
    """An official image of a distribution, from a registry.

    Attributes:
        family: the family of nodes that it replaces.
        system: its name in reports.
        reference: its full name in the registry.
        packages: packages of an installed server that the image lacks, besides those of its Containerfile.
        variables: settings of its nodes in the inventory. The lab's other settings are for look-alikes.
        torch: the CPU lock has wheels for its Python, so `fullmesh demo` can run on it.
    """

    family: str
    system: str
    reference: str
    packages: tuple[str, ...] = ()
    variables: Mapping[str, Setting] = field(default_factory=dict)
    torch: bool = True


# Packages come from the distribution's and NVIDIA's own archives, and Python is the system's.
REAL_DEFAULTS: dict[str, Setting] = {
    "nccl_repository_key": "",
    "nccl_repository_url": "",
    "nccl_version": "",
    "torch_runtime_packages": [],
    "torch_runtime_python": "",
}
# The fingerprint of NVIDIA's key for EL 10 is not published (NC-110).
WITHOUT_NCCL: dict[str, Setting] = {"nccl_manage": False}
REAL = {
    "stream9": RealImage("el", "CentOS Stream 9", "quay.io/centos/centos:stream9"),
    # The tag stream10 was published without a root file system on 2026-09-02, and this one was intact.
    "stream10": RealImage(
        "el",
        "CentOS Stream 10",
        "quay.io/centos/centos:stream10-development",
        variables=WITHOUT_NCCL,
    ),
    "rocky9": RealImage("el", "Rocky Linux 9", "quay.io/rockylinux/rockylinux:9"),
    "rocky10": RealImage(
        "el", "Rocky Linux 10", "quay.io/rockylinux/rockylinux:10", variables=WITHOUT_NCCL
    ),
    "alma9": RealImage("el", "AlmaLinux 9", "quay.io/almalinuxorg/almalinux:9"),
    "alma10": RealImage(
        "el", "AlmaLinux 10", "quay.io/almalinuxorg/almalinux:10", variables=WITHOUT_NCCL
    ),
    # Its systemd contains systemd-resolved. Its python3.11 is 3.11.0rc1, with which torch 2.13 fails.
    "ubuntu22.04": RealImage(
        "ubuntu", "Ubuntu 22.04", "docker.io/library/ubuntu:22.04", torch=False
    ),
    "ubuntu24.04": RealImage(
        "ubuntu", "Ubuntu 24.04", "docker.io/library/ubuntu:24.04", ("systemd-resolved",)
    ),
    "ubuntu26.04": RealImage(
        "ubuntu",
        "Ubuntu 26.04",
        "docker.io/library/ubuntu:26.04",
        ("systemd-resolved",),
        torch=False,
    ),
}
# With FULLMESH_LAB_IMAGES=registry.
REAL_IMAGES = {**IMAGES, "el": "stream9", "ubuntu": "ubuntu24.04"}


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


def name_system(family: str, image: str) -> str:
    """Return the operating system of a node, look-alike or real."""
    return REAL[image].system if image in REAL else SYSTEMS[family]


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
