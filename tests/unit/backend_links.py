"""Shared by the tests of the network backends: links, a node's files and its kernel state."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import Any

from ansible.module_utils.fullmesh.network import owner as network_owner
from network_samples import Link, link
from record_files import read_record

DATA = Path(__file__).parent / "data/network"


BOND_JSON = read_record(DATA / "ip-bond-vlan.json")


MAC = "02:00:00:00:00:0a"


EVERY = sorted(network_owner.BACKENDS)


def read_recording(name: str) -> str:
    return (DATA / name).read_text()


BOND = link(
    interface="bond0",
    addresses=[],
    mtu=9000,
    bond={
        "mode": "802.3ad",
        "members": ["eth2", "eth3"],
        "miimon": 100,
        "lacp_rate": "fast",
        "xmit_hash_policy": "layer3+4",
    },
)


OVER = link(
    interface="bond0.100",
    addresses=["10.1.0.11/24", "fd03::11/64"],
    gateway="fd03::1",
    vlan={"id": 100, "parent": "bond0"},
)


BARE = link(interface="vlan7", addresses=["10.3.0.11/24"], vlan={"id": 7, "parent": "eth0"})


class Machine:
    """Files and commands of a node, in memory."""

    def __init__(
        self, files: dict[str, str] | None = None, says: dict[str, tuple[int, str]] | None = None
    ) -> None:
        self.files = dict(files or {})
        self.says = dict(says or {})
        self.asked: list[str] = []

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        line = " ".join(argv)
        self.asked.append(line)
        for pattern, (rc, out) in self.says.items():
            if fnmatch.fnmatchcase(line, pattern):
                return rc, out, ""
        return 127, "", "not found"

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def listed(self, pattern: str) -> list[str]:
        depth = pattern.count("/")
        return sorted(
            path
            for path in self.files
            if fnmatch.fnmatchcase(path, pattern) and path.count("/") == depth
        )

    def owner(self, interface: str) -> str:
        return network_owner.find_owner(self.run, self.read, self.listed, interface)

    def foreign(self, name: str, links: list[Link]) -> dict[str, str | None]:
        found: dict[str, str | None] = network_owner.get_backend(name).find_foreign_changes(
            self.read, self.listed, links
        )
        return found

    def settle(self, name: str, links: list[Link]) -> dict[str, str | None]:
        """Make the changes, as the role does, and ask again."""
        for path, content in self.foreign(name, links).items():
            if content is None:
                del self.files[path]
            else:
                self.files[path] = content
        self.files.update(network_owner.get_backend(name).build_files(links))
        again = self.foreign(name, links)
        return {path: content for path, content in again.items() if content != self.read(path)}


def pairs(content: str) -> list[tuple[str, str]]:
    """Every key=value with its section, in order."""
    section, found = "", []
    for line in content.splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.append((f"{section}.{key}" if section else key, value))
    return found


MAIN = {"/etc/network/interfaces": read_recording("interfaces-debian")}


def networkd_state(name: str, interface: str = "eth1") -> dict[str, str]:
    return {
        f"/sys/class/net/{interface}/ifindex": "6\n",
        "/run/systemd/netif/links/6": read_recording(name),
    }


ADDRESS = {"/sys/class/net/eth1/address": MAC + "\n"}


CLOUD = "/etc/cloud/cloud.cfg.d/99-fullmesh-network.cfg"


def list_lost_lines(before: str, after: str) -> list[str]:
    """The lines of *before* that are no longer in force, and nothing else may differ."""
    gone = []
    assert len(before.splitlines()) == len(after.splitlines())
    for old, new in zip(before.splitlines(), after.splitlines()):
        if old != new:
            assert new.strip() == "# fullmesh: " + old.strip()
            gone.append(old.strip())
    return gone


LACP = link(
    interface="bond0",
    addresses=[],
    mtu=1450,
    bond={
        "mode": "802.3ad",
        "members": ["eth1", "eth2"],
        "miimon": 100,
        "lacp_rate": "fast",
        "xmit_hash_policy": "layer3+4",
    },
)


TAGGED = link(
    interface="bond0.7",
    addresses=["10.82.0.2/24", "fd82::2/64"],
    vlan={"id": 7, "parent": "bond0"},
)


def snapshot(name: str, links: list[Link], **says: tuple[int, str]) -> dict[str, Any]:
    machine = Machine(
        {},
        {
            "ip -d -j addr show": (0, BOND_JSON),
            "ip -j -4 route*": (
                0,
                json.dumps(
                    [
                        {"dst": "default", "gateway": "10.82.0.254", "dev": "bond0.7"},
                        {"dst": "10.82.0.0/24", "dev": "bond0.7", "protocol": "kernel"},
                        {"dst": "10.7.0.0/16", "gateway": "10.1.1.1", "dev": "eth9"},
                    ]
                ),
            ),
            "ip -j -6 route*": (0, "[]"),
            "nmcli*--active": (0, read_recording("nmcli-active")),
            "ifquery --state": (0, read_recording("ifquery-state")),
            "networkctl --version": (0, "systemd 252 (252.39-1~deb12u2)\n"),
            "systemctl is-active*": (0, ""),
            **says,
        },
    )
    found: dict[str, Any] = network_owner.get_backend(name).read_snapshot(
        machine.run, network_owner.list_affected_interfaces(links)
    )
    json.dumps(found)
    return found


def flat(commands: list[list[str]]) -> list[str]:
    return [" ".join(command) for command in commands]


def refuse_netplan(argv: list[str]) -> tuple[int, str, str]:
    return 78, "", f"{argv[-1]}/etc/netplan/90-fullmesh.yaml:4:7: Error in network definition"
