"""Profiles of NetworkManager that netplan makes from its own files, as on Ubuntu, and a broken file of netplan.

NetworkManager and netplan are real. Ubuntu's NetworkManager saves a profile with libnetplan. Debian's is built without
it, so the same functions of libnetplan are called here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from plays import read_output, run

from .conftest import ETC_DIGEST, site

LAB, NODE = "e2e-netplan-profiles", "ubuntu1"
PARTS = ("--tags", "static_ip")
OWN_PROFILE = "/etc/NetworkManager/system-connections/fullmesh-eth1.nmconnection"
BROKEN = "/etc/netplan/60-storage.yaml"
FOREIGN_ADDRESS = "192.0.2.5/24"
INSTALL = """
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install network-manager
"""
# Moves the profile of the file $1 to a file of netplan, as Ubuntu's NetworkManager does, and prints its path.
MOVE = """
import ctypes, os, subprocess, sys
path = sys.argv[1]
number = next(line.strip()[5:] for line in open(path) if line.startswith("uuid="))
library = ctypes.CDLL("libnetplan.so.0.0")
for name in ("netplan_parser_new", "netplan_state_new", "netplan_state_get_netdef"):
    getattr(library, name).restype = ctypes.c_void_p
parser, state = (ctypes.c_void_p(make()) for make in (library.netplan_parser_new, library.netplan_state_new))
assert library.netplan_parser_load_keyfile(parser, path.encode(), None)
assert library.netplan_state_import_parser_results(state, parser, None)
entry = ctypes.c_void_p(library.netplan_state_get_netdef(state, f"NM-{number}".encode()))
assert library.netplan_netdef_write_yaml(state, entry, None, None)
os.remove(path)
subprocess.run(["netplan", "generate"], check=True)
subprocess.run(["nmcli", "connection", "reload"], check=True)
print(f"/etc/netplan/90-NM-{number}.yaml")
"""


@dataclass(frozen=True)
class NetplanNode:
    """The node, and the inventory of its lab."""

    inventory: str
    cluster: str

    def on(self, *argv: str) -> str:
        return read_output("./fullmesh", "lab", "exec", "--name", LAB, NODE, "--", *argv).strip()

    def run_script(self, script: str) -> str:
        return self.on("sh", "-ec", script)

    def read_profile_file(self) -> str:
        """Return the file of the NIC's active profile."""
        number = self.on("nmcli", "-g", "GENERAL.CON-UUID", "device", "show", "eth1")
        lines = self.on("nmcli", "-t", "-f", "UUID,FILENAME", "connection", "show").splitlines()
        return dict(line.split(":", 1) for line in lines)[number]

    def list_addresses(self) -> list[str]:
        found = json.loads(self.on("ip", "-j", "-4", "addr", "show", "dev", "eth1"))
        infos = [one for link in found for one in link.get("addr_info", [])]
        return [f"{one['local']}/{one['prefixlen']}" for one in infos]

    def save_profile(self, *settings: str) -> str:
        """Add and start a profile for the NIC, saved by netplan. Return netplan's file."""
        wanted = ["ipv4.method", "manual", "ipv4.addresses", FOREIGN_ADDRESS, *settings]
        self.on(
            *("nmcli", "connection", "add", "type", "ethernet", "ifname", "eth1"),
            *("con-name", "lan", *wanted),
        )
        saved = self.move_profile("/etc/NetworkManager/system-connections/lan.nmconnection")
        self.on("nmcli", "--wait", "30", "connection", "up", "lan")
        return saved

    def move_profile(self, path: str) -> str:
        """Move a profile to a file of netplan, and return that."""
        return self.on("python3", "-c", MOVE, path)

    def remove_profile(self, saved: str) -> None:
        self.run_script(f"rm {saved}; netplan generate; nmcli connection reload")

    def read_state(self) -> list[object]:
        """Return the files, the log of changes, the addresses and the active profile."""
        log = "cat /var/lib/fullmesh/rollback/log 2>/dev/null || true"
        files = [self.run_script(script) for script in (ETC_DIGEST, log)]
        return [*files, self.list_addresses(), self.read_profile_file()]

    def expect_refusal(self, code: str, *words: str) -> None:
        """Run Fullmesh, which must refuse and change nothing."""
        before = self.read_state()
        refused = site(*PARTS, inventory=self.inventory)
        assert refused.code != 0
        assert refused.changed() == {NODE: 0}
        for word in (f"[{code}]", *words):
            assert refused.says(word), refused.output[-3000:]
        assert self.read_state() == before


@pytest.fixture(scope="module")
def node() -> Iterator[NetplanNode]:
    run("./fullmesh", "lab", "down", "--name", LAB)
    up = run("./fullmesh", "lab", "up", "--name", LAB, "--families", "ubuntu", "--nodes", "1")
    assert up.code == 0
    status: dict[str, Any] = json.loads(
        read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
    )
    (one,) = status["nodes"]
    yield NetplanNode(status["inventory"].rsplit("/", 1)[0], one["cluster_address"])
    run("./fullmesh", "lab", "down", "--name", LAB)


@pytest.fixture(scope="module")
def managed(node: NetplanNode) -> NetplanNode:
    """The node, whose cluster NIC NetworkManager manages."""
    node.run_script(INSTALL)
    return node


def test_a_broken_file_of_netplan_is_named_before_any_change(node: NetplanNode) -> None:
    """Of another interface. networkd owns the cluster's, and netplan reads all files together."""
    broken = "network:\\n  ethernets:\\n    eth8: {dhcp4: treu}\\n"
    node.run_script(f"printf '{broken}' > {BROKEN}; chmod 600 {BROKEN}")
    try:
        refused = site(*PARTS, inventory=node.inventory)
        assert (refused.code != 0, refused.changed()) == (True, {NODE: 0})
        assert refused.says("[IP-106]")
        assert refused.says(f"{BROKEN}:3"), refused.output[-3000:]
        assert node.list_addresses() == []
    finally:
        node.run_script(f"rm {BROKEN}")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("connection.zone", "work"), "connection.zone=work"),
        (("connection.autoconnect-priority", "300"), "autoconnect-priority=300"),
    ],
)
def test_a_saved_profile_with_other_settings_is_refused_with_its_file(
    managed: NetplanNode, settings: tuple[str, str], said: str
) -> None:
    saved = managed.save_profile(*settings)
    try:
        assert managed.read_profile_file().startswith(
            "/run/NetworkManager/system-connections/netplan-"
        )
        managed.expect_refusal("IP-118", saved, said)
    finally:
        managed.remove_profile(saved)


def test_a_saved_profile_is_taken_over_and_restored(managed: NetplanNode) -> None:
    saved = managed.save_profile()
    profile = managed.read_profile_file()
    before = managed.run_script(ETC_DIGEST)
    assert site(*PARTS, inventory=managed.inventory).code == 0
    assert (managed.read_profile_file(), managed.list_addresses()) == (
        OWN_PROFILE,
        [managed.cluster],
    )
    again = site(*PARTS, inventory=managed.inventory)
    assert (again.code, again.changed()) == (0, {NODE: 0})

    # netplan makes the profile again, and NetworkManager prefers Fullmesh's
    managed.run_script("netplan apply; nm-online -q -t 30")
    assert (managed.read_profile_file(), managed.list_addresses()) == (
        OWN_PROFILE,
        [managed.cluster],
    )

    # someone modifies Fullmesh's profile, or upgrades NetworkManager
    moved = managed.move_profile(OWN_PROFILE)
    assert managed.read_profile_file() != OWN_PROFILE
    managed.expect_refusal("IP-118", moved, OWN_PROFILE)
    refused = run("ansible-playbook", "playbooks/undo.yml", "-i", managed.inventory)
    assert (refused.code != 0, refused.says(f"[IP-118] {moved} has the profile")) == (True, True)
    assert managed.list_addresses() == [managed.cluster]
    managed.run_script(f"mv {moved} /root/ && netplan generate")  # as the message says
    assert managed.list_addresses() == [managed.cluster]
    assert site(*PARTS, inventory=managed.inventory).code == 0
    assert (managed.read_profile_file(), managed.list_addresses()) == (
        OWN_PROFILE,
        [managed.cluster],
    )

    assert run("ansible-playbook", "playbooks/undo.yml", "-i", managed.inventory).code == 0
    assert (managed.read_profile_file(), managed.list_addresses()) == (profile, [FOREIGN_ADDRESS])
    assert managed.run_script(ETC_DIGEST).splitlines() == before.splitlines()
    managed.remove_profile(saved)
