"""A card that an ifcfg file owns, as on EL9 machines from cloud-init: taken over, and given back byte for byte.

NetworkManager is the real one, of the look-alike's own version, built with the plugin that EL9's has.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from plays import read_output, run

from .conftest import ETC_DIGEST, site

LAB, NODE = "e2e-ifcfg", "el1"
PARTS = ("--tags", "network,firewall")
FILE = "/etc/sysconfig/network-scripts/ifcfg-eth1"
ROUTE = "/etc/sysconfig/network-scripts/route-eth1"
OURS = "/etc/NetworkManager/system-connections/fullmesh-eth1.nmconnection"
# cloud-init's sysconfig renderer, with a line that somebody added by hand, without an end of line
TEXT = """\
# Created by cloud-init automatically, do not edit.
#
BOOTPROTO=dhcp
DEVICE=eth1
HWADDR={mac}
ONBOOT=yes
TYPE=Ethernet
USERCTL=no
DEFROUTE="yes"   # by hand"""
SETUP = """
set -e
rm /etc/NetworkManager/system-connections/*
printf '%s' "$1" > {file}
echo '10.99.0.0/16 via {gateway} dev eth1' > {route}
chmod 0640 {file}
systemctl restart NetworkManager
nmcli --wait 30 connection up 'System eth1' > /dev/null
"""


@dataclass(frozen=True)
class Machine:
    """The node, and how to reach its lab."""

    inventory: str
    management: str
    cluster: str

    def on(self, *argv: str) -> str:
        return read_output("./fullmesh", "lab", "exec", "--name", LAB, NODE, "--", *argv).strip()

    def sh(self, script: str, *words: str) -> str:
        return self.on("sh", "-c", script, "sh", *words)

    def owner(self) -> str:
        """The file of the profile that is active on the card."""
        uuid = self.on("nmcli", "-g", "GENERAL.CON-UUID", "device", "show", "eth1")
        lines = self.on("nmcli", "-t", "-f", "UUID,FILENAME", "connection", "show").splitlines()
        return dict(line.split(":", 1) for line in lines)[uuid]

    def address(self) -> list[str]:
        found = json.loads(self.on("ip", "-j", "-4", "addr", "show", "dev", "eth1"))
        return [f"{one['local']}/{one['prefixlen']}" for one in found[0]["addr_info"]]


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB, "--dhcp").code == 0
    status: dict[str, Any] = json.loads(
        read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
    )
    node = next(one for one in status["nodes"] if one["name"] == NODE)
    built = run(sys.executable, "-m", "devtools.lab.ifcfg", "--name", LAB, NODE, seconds=1800)
    assert built.code == 0, built.output
    inventory = status["inventory"].rsplit("/", 1)[0]
    made = Machine(inventory, node["management_address"], node["cluster_address"])
    mac = made.on("cat", "/sys/class/net/eth1/address")
    gateway = made.management.rpartition(".")[0] + ".1"
    made.sh(SETUP.format(file=FILE, route=ROUTE, gateway=gateway), TEXT.format(mac=mac))
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_an_ifcfg_files_card_is_taken_over_and_given_back(machine: Machine) -> None:
    assert machine.owner() == FILE
    lease = machine.address()
    assert [one.partition("/")[0] for one in lease] == [machine.management]
    before = machine.sh(ETC_DIGEST)
    shown = machine.sh(f"stat -c '%a %u %g' {FILE}; sha256sum {FILE} {ROUTE}")

    first = site(*PARTS, inventory=machine.inventory)
    assert first.code == 0, first.output[-3000:]
    assert machine.owner() == OURS
    assert machine.address() == [machine.cluster]
    text = machine.on("cat", FILE)
    assert text.endswith('DEFROUTE="yes"   # by hand\nONBOOT=no')
    assert "# fullmesh: ONBOOT=yes" in text

    again = site(*PARTS, inventory=machine.inventory)
    assert (again.code, set(again.changed().values())) == (0, {0})

    # the next boot: only our profile starts
    machine.on("systemctl", "restart", "NetworkManager")
    machine.sh("nm-online -q -t 30 || nmcli -t general status")
    assert machine.owner() == OURS
    assert machine.address() == [machine.cluster]

    assert run("ansible-playbook", "playbooks/undo.yml", "-i", machine.inventory).code == 0
    assert machine.owner() == FILE
    assert machine.address() == lease
    assert machine.sh(f"stat -c '%a %u %g' {FILE}; sha256sum {FILE} {ROUTE}") == shown
    assert machine.sh(ETC_DIGEST).splitlines() == before.splitlines()
    machine.on("systemctl", "restart", "NetworkManager")
    machine.sh("nm-online -q -t 30 || nmcli -t general status")
    assert (machine.owner(), machine.address()) == (FILE, lease)
