"""Shared by the tests of static_ip: links, a simulated machine and its answers."""

from __future__ import annotations

import configparser
import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import links as network_links
from ansible.module_utils.fullmesh.network.backends import networkmanager
from network_samples import Link, link
from rehearsal import rehearse_rollback

FULL = link(
    mac="02:00:00:00:00:0a",
    addresses=["10.0.0.11/24", "fd00::11/64"],
    gateway="10.0.0.1",
    dns=["10.0.0.53", "fd00::53"],
    search=["lab.example"],
    mtu=9000,
    routes=[{"to": "10.9.0.0/16", "via": "10.0.0.2"}, {"to": "fd09::/48", "via": "fd00::2"}],
)


def parsed_keyfile(one: Link) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser()
    parser.read_string(networkmanager.render_keyfile(one))
    return {name: dict(parser[name]) for name in parser.sections()}


def kernel(*addresses: dict[str, Any], name: str = "eth1", mtu: int = 1500) -> dict[str, Any]:
    return {
        "ifname": name,
        "address": "02:00:00:00:00:0a",
        "mtu": mtu,
        "flags": ["UP", "LOWER_UP"],
        "addr_info": [{"prefixlen": 24, "scope": "global", **one} for one in addresses],
    }


OURS = {"local": "10.0.0.11"}


class Machine:
    """Simulate ip, nmcli, netplan, networkctl and systemd. systemd runs the engine in the same process."""

    def __init__(self, root: Path, owner: str) -> None:
        self.root = root
        self.owner = owner
        self.kernel = [kernel()]
        self.routes: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[list[str]] = []
        self.refuses = ""
        self.takes = True
        (root / "sys/class/net/eth1").mkdir(parents=True)
        (root / "sys/class/net/eth1/type").write_text("1\n")
        (root / "sys/class/net/eth1/ifindex").write_text("2\n")
        for directory in ("etc/NetworkManager/system-connections", "etc/netplan"):
            (root / directory).mkdir(parents=True)

    def __call__(self, command: list[str]) -> tuple[int, str, str]:
        self.asked.append(command)
        joined = " ".join(command)
        if self.refuses and self.refuses in joined:
            return 1, "", "no"
        if command[0] == "ip" and "-j" in command:
            routes = self.routes.get(command[2], [])
            return 0, json.dumps(routes if "route" in command else self.kernel), ""
        if "GENERAL.STATE" in joined:
            states = {
                "networkmanager": (0, "30 (disconnected)\n", ""),
                "idle": (0, "10 (unmanaged)", ""),
            }
            return states.get(self.owner, (127, "", "not found"))
        if joined == "netplan info":
            return (0 if self.owner == "netplan" else 127), "", ""
        if joined.startswith(("ifquery", "systemctl is-active")):
            return (0 if self.owner == "netplan" and "ifquery" not in joined else 3), "", ""
        rehearse_rollback(command)
        if "systemd-run" in joined and " apply " in joined:
            network_links.engine.do_apply(command[-1])
        if "systemd-run" in joined and " restore " in joined:
            network_links.engine.restore_transaction(*command[-4:-2])
        if self.takes and ("connection up" in joined or "reconfigure" in joined):
            self.kernel = [kernel(OURS)]
        return 0, "", ""

    def engine(self, command: Any, *_: Any, **__: Any) -> tuple[int, str]:
        """Run the engine as on the node."""
        rc, out, err = self(command if isinstance(command, list) else ["sh", "-c", command])
        return rc, out + err

    def ours(self) -> list[str]:
        return sorted(str(p) for p in self.root.glob("etc/*/**/*fullmesh*") if p.is_file())

    def call(self, state: str = "present", check: bool = False, **more: Any) -> dict[str, Any]:
        params = {
            "links": [link()],
            "provider": "auto",
            "check_duplicates": False,
            "wait_seconds": 0,
            "rollback_seconds": 60,
            "peers": [],
            "master": "",
            "token": "run",
        }
        node = network_links.NetworkNode(self, str(self.root))
        result: dict[str, Any] = getattr(
            network_links.StaticIpLinks(node, params | more, check), state
        )()
        return result

    def run(self, **more: Any) -> dict[str, Any]:
        """Run the role's steps: change, reconnect, confirm."""
        result = self.call(**more)
        if result["armed"]:
            assert len(self.call("proved", **more)["ballast"]) > 2 * 1500
            assert self.call("confirmed")["changed"]
        return result

    def commands(self) -> list[str]:
        return [" ".join(command) for command in self.asked]


def make_machine(root: Path, owner: str, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(root, owner)
    monkeypatch.setattr(network_links.engine, "run_with_deadline", machine.engine)
    return machine


def way(dev: str = "eth1", via: str = "10.0.0.1", **more: Any) -> dict[str, Any]:
    """A default route as `ip -j route` says it."""
    return {"dst": "default", "gateway": via, "dev": dev, **more}


NET = {"dst": "10.0.0.0/24", "dev": "eth1", "protocol": "kernel"}


def bond(root: Path) -> None:
    (root / "sys/class/net/eth1/bonding").mkdir()
