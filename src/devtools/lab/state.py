"""The files of a lab: lab.json, key, known_hosts, inventory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devtools.lab import inventory, subnets
from devtools.lab.paths import Paths
from devtools.lab.plan import DEFAULT_NAME, IMAGES, REAL, REAL_DEFAULTS, Node, Setting

SCHEMA = 1


@dataclass
class Lab:
    """One lab as recorded; podman knows whether its nodes run."""

    name: str
    index: int
    ipv6: bool
    image_source: str
    note: str
    families: list[str]
    nodes: list[Node] = field(default_factory=list)
    dhcp: bool = False
    images: dict[str, str] = field(default_factory=lambda: dict(IMAGES))

    @property
    def controller(self) -> str:
        """This host's address as the controller. With DHCP, it is behind the router, which is also this host."""
        if self.dhcp and self.ipv6:
            return f"fd77:0:0:{self.index:x}::1"
        return f"10.77.{self.index}.1"

    @property
    def gateway(self) -> str:
        """The router of a lab with DHCP; other labs have none."""
        if not self.dhcp:
            return ""
        return f"fd78:0:0:{self.index:x}::1" if self.ipv6 else f"10.78.{self.index}.1"

    @property
    def management_network(self) -> str:
        """Podman's name of the management network."""
        return f"fm-{self.name}-mgmt"

    @property
    def cluster_network(self) -> str:
        """Podman's name of the cluster network."""
        return f"fm-{self.name}-cluster"

    @property
    def bridges(self) -> tuple[str, str]:
        """The host's bridges: management, cluster."""
        return subnets.bridges(self.index)

    @property
    def variables(self) -> dict[str, dict[str, Setting]]:
        """The settings of nodes with real images, by family. Those of look-alikes are in group_vars."""
        if self.image_source != "registry":
            return {}
        return {
            family: {**REAL_DEFAULTS, **REAL[image].variables}
            for family, image in self.images.items()
            if image in REAL
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the lab as plain data for lab.json."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "index": self.index,
            "ipv6": self.ipv6,
            "image_source": self.image_source,
            "note": self.note,
            "families": self.families,
            "images": self.images,
            "dhcp": self.dhcp,
            "nodes": [node.as_dict() for node in self.nodes],
        }


class Store:
    """The files of one lab."""

    def __init__(self, paths: Paths, name: str) -> None:
        """Write nothing yet."""
        self.paths, self.name = paths, name
        self.folder = paths.lab(name)
        self.file = self.folder / "lab.json"
        self.key = self.folder / "id_ed25519"
        self.known_hosts = self.folder / "known_hosts"
        self.inventory = self.folder / "inventory" / "hosts.yml"

    def load(self) -> Lab | None:
        """Return the recorded lab, or None."""
        if not self.file.exists():
            return None
        found = json.loads(self.file.read_text())
        nodes = [Node(**node) for node in found["nodes"]]
        names = ("name", "index", "ipv6", "image_source", "note", "families")
        known = {name: found[name] for name in names}
        lab = Lab(**known, nodes=nodes, dhcp=found.get("dhcp", False))
        lab.images = found.get("images", lab.images)
        return lab

    def save(self, lab: Lab) -> None:
        """Record the lab in one step."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace(self.file, json.dumps(lab.as_dict(), indent=2) + "\n")

    def write_inventory(self, lab: Lab) -> list[Path]:
        """Write the inventory, for the default lab also to the checkout; return the paths."""
        text = inventory.render_inventory(
            lab.nodes,
            lab.controller,
            self.key,
            self.known_hosts,
            lab.note,
            gateway=lab.gateway,
            variables=lab.variables,
        )
        self.inventory.parent.mkdir(parents=True, exist_ok=True)
        replace(self.inventory, text)
        common = self.paths.checkout / "inventory" / "lab"
        link = self.inventory.parent / "group_vars"
        if not link.is_symlink() or link.readlink() != common / "group_vars":
            link.unlink(missing_ok=True)
            link.symlink_to(common / "group_vars")
        if lab.name != DEFAULT_NAME or not common.is_dir():
            return [self.inventory]
        replace(common / "hosts.yml", text)
        return [self.inventory, common / "hosts.yml"]


def replace(file: Path, text: str) -> None:
    """Write a file in one step, unless it already has this text."""
    if file.exists() and file.read_text() == text:
        return
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(text)
    fresh.replace(file)


def names(paths: Paths) -> list[str]:
    """Return the names of the recorded labs."""
    return sorted(file.parent.name for file in (paths.home / "labs").glob("*/lab.json"))
