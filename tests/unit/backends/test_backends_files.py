"""Network backends: foreign files of ifcfg, ifupdown, cloud-init and networkd."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network import owner as network_owner
from ansible.module_utils.fullmesh.network.backends import (
    common,
    ifupdown,
    netplan,
    networkd,
)
from backend_links import (
    ADDRESS,
    BARE,
    CLOUD,
    MAC,
    MAIN,
    Machine,
    list_lost_lines,
    pairs,
    read_recording,
)
from network_samples import link


def source_ifcfg(content: str) -> dict[str, str]:
    """Return the variables that sh reads from an ifcfg file. NetworkManager's plugin reads it the same way."""
    script = f"set -eu\n{content}\nset"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env={})
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return {key: value.strip("'") for key, value in found.items() if key + "=" in content}


def test_an_ifcfg_file_is_disabled_if_ours_is_a_keyfile() -> None:
    path = "/etc/sysconfig/network-scripts/ifcfg-ens33"
    before = read_recording("ifcfg-ens33-el7")
    machine = Machine({path: before})
    after = str(machine.foreign("networkmanager", [link(interface="ens33")])[path])
    assert source_ifcfg(after)["ONBOOT"] == "no"
    assert after.replace('# fullmesh: ONBOOT="yes"', 'ONBOOT="yes"') == before + "ONBOOT=no\n"
    assert machine.settle("networkmanager", [link(interface="ens33")]) == {}


def test_an_ifcfg_file_for_our_nic_is_disabled_with_cloud_init() -> None:
    path = "/etc/sysconfig/network-scripts/ifcfg-Wired_connection_1"
    before = read_recording("ifcfg-eth0-el8-cloud").replace("DEVICE=eth0\n", "")
    route = "/etc/sysconfig/network-scripts/route-eth1"  # only read when its profile is brought up
    machine = Machine({path: before, route: "default via 10.9.0.1\n", **ADDRESS})
    changes = machine.foreign("networkmanager", [link()])
    assert set(changes) == {path, CLOUD}
    assert source_ifcfg(str(changes[path]))["ONBOOT"] == "no"
    assert machine.settle("networkmanager", [link()]) == {}


def test_backups_and_ifcfg_files_of_other_nics_are_unchanged() -> None:
    base = "/etc/sysconfig/network-scripts/ifcfg-"
    machine = Machine(
        {base + "ens33": read_recording("ifcfg-ens33-el7"), base + "eth1.bak": "DEVICE=eth1\n"}
    )
    assert machine.foreign("networkmanager", [link()]) == {}


def test_debians_main_file_loses_our_stanzas_alone() -> None:
    before = read_recording("interfaces-debian")
    machine = Machine(dict(MAIN))
    changes = machine.foreign("ifupdown", [link()])
    after = str(changes["/etc/network/interfaces"])
    lines = after.splitlines()
    # eth0 keeps its line, without our interface
    assert lines.pop(lines.index("allow-hotplug eth0")) == "allow-hotplug eth0"
    assert list_lost_lines(before, "\n".join(lines)) == [
        "allow-hotplug eth0 eth1",
        "iface eth1 inet static",
        "address 10.9.0.7/24",
        "up ip route add 10.8.0.0/16 \\",
        "via 10.9.0.1",
        "iface eth1:0 inet static",
        "address 10.9.0.8/24",
    ]
    found = ifupdown.map_stanza_files(
        Machine({"/etc/network/interfaces": after}).read, lambda _: []
    )
    assert set(found) == {"lo", "eth0"}
    assert machine.settle("ifupdown", [link()]) == {}
    assert "eth1" in ifupdown.map_stanza_files(machine.read, machine.listed)


def test_the_cloud_init_stanza_is_removed_for_good() -> None:
    path = "/etc/network/interfaces.d/50-cloud-init"
    files = {"/etc/network/interfaces": "source-directory /etc/network/interfaces.d\n"}
    machine = Machine({**files, **ADDRESS, path: read_recording("interfaces-50-cloud-init")})
    changes = machine.foreign("ifupdown", [link()])
    assert set(changes) == {path, CLOUD}
    assert list_lost_lines(read_recording("interfaces-50-cloud-init"), str(changes[path])) == [
        "auto eth1",
        "iface eth1 inet dhcp",
        "hwaddress 02:00:00:00:00:0a",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "source /etc/network/interfaces.d/fullmesh\n"),
        ("auto lo", "auto lo\nsource /etc/network/interfaces.d/fullmesh\n"),
        (
            "source /etc/network/interfaces.d/*.cfg\n",
            "source /etc/network/interfaces.d/*.cfg\nsource /etc/network/interfaces.d/fullmesh\n",
        ),
        ("source /etc/network/interfaces.d/*\n", None),
        ("source interfaces.d/*\n", None),
        ("source-directory /etc/network/interfaces.d\n", None),
    ],
)
def test_the_main_file_includes_ours(before: str, after: str | None) -> None:
    machine = Machine({"/etc/network/interfaces": before})
    changes = machine.foreign("ifupdown", [link()])
    assert changes.get("/etc/network/interfaces") == after
    assert machine.settle("ifupdown", [link()]) == {}


def test_files_that_source_each_other_end() -> None:
    loop = {"/etc/network/interfaces": "source /etc/network/interfaces\niface eth1 inet dhcp\n"}
    assert set(ifupdown.map_stanza_files(Machine(loop).read, Machine(loop).listed)) == {"eth1"}


def test_networkd_adds_a_vlan_to_a_foreign_parent_by_drop_in() -> None:
    path = "/etc/systemd/network/00-fullmesh-eth1.network.d"
    state = {
        "/sys/class/net/eth0/ifindex": "6\n",
        "/run/systemd/netif/links/6": read_recording("networkd-link-netplan"),
    }
    machine = Machine(state)
    changes = machine.foreign("networkd", [BARE])
    assert set(changes) == {"/etc/systemd/network/10-netplan-eth1.network.d/fullmesh.conf"}
    assert pairs(str(next(iter(changes.values())))) == [("Network.VLAN", "vlan7")]
    # build it again, so that it does not count as our leftover
    assert machine.settle("networkd", [BARE]) == {}
    assert machine.foreign("networkd", [BARE]) == changes
    assert path not in changes


def test_networkd_writes_a_file_for_an_unmanaged_parent() -> None:
    ((path, content),) = Machine().foreign("networkd", [BARE]).items()
    assert path == "/etc/systemd/network/00-fullmesh-eth0.network"
    assert ("Network.KeepConfiguration", "yes") in pairs(str(content))


@pytest.mark.parametrize(
    ("files", "entry"),
    [
        ({}, {"critical": True}),
        ({netplan.PATH: common.HEAD + 'network: {ethernets: {"eth0": {}}}\n'}, {"critical": True}),
        ({"/etc/netplan/1.yaml": "network:\n  ethernets:\n    eth0.5: {}\n"}, {"critical": True}),
        ({"/etc/netplan/50-cloud-init.yaml": read_recording("50-cloud-init.netplan")}, {}),
        ({"/etc/netplan/50.yaml": read_recording("50-cloud-init-subiquity.netplan")}, {}),
        ({"/etc/netplan/1.yaml": "macaddress: " + MAC, "/sys/class/net/eth0/address": MAC}, {}),
    ],
)
def test_netplan_leaves_a_parent_that_no_file_knows_its_addresses(
    files: dict[str, str], entry: dict[str, Any]
) -> None:
    machine = Machine(files)
    (one,) = network_owner.prepare_links(machine.read, machine.listed, [BARE])
    network = yaml.safe_load(netplan.build_files([one])[netplan.PATH])["network"]
    assert network["ethernets"]["eth0"] == entry


def test_cloud_inits_networkd_files_are_overruled_and_not_written_again() -> None:
    path = "/etc/systemd/network/10-cloud-init-eth1.network"
    machine = Machine({path: "[Match]\nName=eth1\n[Network]\nDHCP=ipv4\n"})
    assert set(machine.foreign("networkd", [link()])) == {CLOUD}
    assert machine.settle("networkd", [link()]) == {}
    assert machine.foreign("networkd", [link(interface="eth7")]) == {}
    # ours is read first
    assert sorted([path, *networkd.build_files([link()])])[0] in networkd.build_files([link()])
