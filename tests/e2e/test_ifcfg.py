"""Take over a NIC of an ifcfg file, as on EL9 machines with cloud-init, and restore the file byte for byte.

NetworkManager is real, in the look-alike's own version, built with the plugin of EL9.
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
OWN_PROFILE = "/etc/NetworkManager/system-connections/fullmesh-eth1.nmconnection"
# cloud-init's sysconfig renderer, with a line that a user added, without a final newline
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
    """The node, and the connection to its lab."""

    inventory: str
    management: str
    cluster: str

    def on(self, *argv: str) -> str:
        return read_output("./fullmesh", "lab", "exec", "--name", LAB, NODE, "--", *argv).strip()

    def run_script(self, script: str, *arguments: str) -> str:
        return self.on("sh", "-c", script, "sh", *arguments)

    def read_profile_file(self) -> str:
        """Return the file of the NIC's active profile."""
        uuid = self.on("nmcli", "-g", "GENERAL.CON-UUID", "device", "show", "eth1")
        lines = self.on("nmcli", "-t", "-f", "UUID,FILENAME", "connection", "show").splitlines()
        return dict(line.split(":", 1) for line in lines)[uuid]

    def list_addresses(self) -> list[str]:
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
    plugin = run(sys.executable, "-m", "devtools.lab.ifcfg", "--name", LAB, NODE, seconds=1800)
    assert plugin.code == 0, plugin.output
    inventory = status["inventory"].rsplit("/", 1)[0]
    configured = Machine(inventory, node["management_address"], node["cluster_address"])
    mac = configured.on("cat", "/sys/class/net/eth1/address")
    gateway = configured.management.rpartition(".")[0] + ".1"
    configured.run_script(
        SETUP.format(file=FILE, route=ROUTE, gateway=gateway), TEXT.format(mac=mac)
    )
    yield configured
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_ifcfg_file_is_taken_over_and_restored(machine: Machine) -> None:
    assert machine.read_profile_file() == FILE
    lease = machine.list_addresses()
    assert [one.partition("/")[0] for one in lease] == [machine.management]
    before = machine.run_script(ETC_DIGEST)
    files_before = machine.run_script(f"stat -c '%a %u %g' {FILE}; sha256sum {FILE} {ROUTE}")

    first = site(*PARTS, inventory=machine.inventory)
    assert first.code == 0, first.output[-3000:]
    assert machine.read_profile_file() == OWN_PROFILE
    assert machine.list_addresses() == [machine.cluster]
    text = machine.on("cat", FILE)
    assert text.endswith('DEFROUTE="yes"   # by hand\nONBOOT=no')
    assert "# fullmesh: ONBOOT=yes" in text

    second = site(*PARTS, inventory=machine.inventory)
    assert (second.code, set(second.changed().values())) == (0, {0})

    # as at the next boot: only Fullmesh's profile starts
    machine.on("systemctl", "restart", "NetworkManager")
    machine.run_script("nm-online -q -t 30 || nmcli -t general status")
    assert machine.read_profile_file() == OWN_PROFILE
    assert machine.list_addresses() == [machine.cluster]

    assert run("ansible-playbook", "playbooks/undo.yml", "-i", machine.inventory).code == 0
    assert machine.read_profile_file() == FILE
    assert machine.list_addresses() == lease
    assert (
        machine.run_script(f"stat -c '%a %u %g' {FILE}; sha256sum {FILE} {ROUTE}") == files_before
    )
    assert machine.run_script(ETC_DIGEST).splitlines() == before.splitlines()
    machine.on("systemctl", "restart", "NetworkManager")
    machine.run_script("nm-online -q -t 30 || nmcli -t general status")
    assert (machine.read_profile_file(), machine.list_addresses()) == (FILE, lease)
