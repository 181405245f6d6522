"""Network backends: what they change in files of others."""

from __future__ import annotations

import configparser
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network import owner as network_owner
from ansible.module_utils.fullmesh.network.backends import (
    networkmanager,
)
from backend_links import ADDRESS, BOND, CLOUD, MAC, Machine, list_lost_lines, read_recording
from hypothesis import given
from hypothesis import strategies as st
from network_samples import link


def test_cloud_inits_netplan_file_loses_our_addresses_alone() -> None:
    path, before = "/etc/netplan/50-cloud-init.yaml", read_recording("50-cloud-init.netplan")
    machine = Machine({path: before, **ADDRESS})
    changes = machine.foreign("netplan", [link()])
    after = changes[path]
    assert isinstance(after, str)
    assert list_lost_lines(before, after) == [
        "addresses:",
        "- 10.9.0.7/24",
        "nameservers:",
        "addresses: [10.9.0.53]",
        "routes:",
        "-   to: default",
        "via: 10.9.0.1",
    ]
    network = yaml.safe_load(after)["network"]
    assert network["ethernets"]["eth0"] == yaml.safe_load(before)["network"]["ethernets"]["eth0"]
    assert network["ethernets"]["eth1"] == {"match": {"macaddress": MAC}, "set-name": "eth1"}
    assert yaml.safe_load(str(changes[CLOUD])) == {"network": {"config": "disabled"}}
    assert machine.settle("netplan", [link()]) == {}


def test_the_installers_file_loses_its_only_entry_and_stays_yaml() -> None:
    path, before = (
        "/etc/netplan/00-installer-config.yaml",
        read_recording("00-installer-config.netplan"),
    )
    machine = Machine({path: before})
    changes = machine.foreign("netplan", [link()])
    assert set(changes) == {path}
    assert yaml.safe_load(str(changes[path])) == {"network": {"version": 2}}
    assert list_lost_lines(before, str(changes[path])) == ["ethernets:", "eth1:", "dhcp4: true"]
    assert machine.settle("netplan", [link()]) == {}


def test_an_entry_with_another_name_is_matched_by_its_mac() -> None:
    path, before = (
        "/etc/netplan/50-cloud-init.yaml",
        read_recording("50-cloud-init-subiquity.netplan"),
    )
    machine = Machine({path: before, **ADDRESS})
    network = yaml.safe_load(str(machine.foreign("netplan", [link()])[path]))["network"]
    assert network["ethernets"]["eth1"] == {"match": {"macaddress": MAC}, "set-name": "eth1"}
    assert network["ethernets"]["zz-all-en"] == {"match": {"name": "en*"}, "dhcp4": True}
    assert machine.settle("netplan", [link()]) == {}


def test_a_foreign_bond_with_our_name_is_replaced_whole() -> None:
    before = "network:\n  bonds:\n    bond0:\n      interfaces: [a, b]\n  version: 2\n"
    machine = Machine({"/etc/netplan/01.yaml": before})
    after = machine.foreign("netplan", [BOND])["/etc/netplan/01.yaml"]
    assert yaml.safe_load(str(after)) == {"network": {"version": 2}}


@pytest.mark.parametrize(
    "content",
    [
        "network: {version: 2, ethernets: {eth1: {dhcp4: true}}}\n",
        "network:\n  ethernets: {eth1: {dhcp4: true}}\n",
    ],
)
def test_a_file_that_cannot_be_parsed_is_rejected(content: str) -> None:
    machine = Machine({"/etc/netplan/01.yaml": content})
    with pytest.raises(network_owner.ForeignError, match=r"01\.yaml configures eth1"):
        machine.foreign("netplan", [link()])
    # and is none of our business where it means other cards
    assert machine.foreign("netplan", [link(interface="ens5")]) == {}


ENTRY = st.dictionaries(
    st.sampled_from(["dhcp4", "mtu", "optional"]), st.sampled_from([True, 1500]), min_size=1
)


ETHERNETS = st.dictionaries(st.sampled_from(["eth0", "eth1", "ens5", "eth10"]), ENTRY, min_size=1)


@given(ETHERNETS, st.sampled_from([2, 4]))
def test_only_our_entry_changes_in_any_netplan_file(
    ethernets: dict[str, dict[str, Any]], indent: int
) -> None:
    before = yaml.safe_dump({"network": {"ethernets": ethernets, "version": 2}}, indent=indent)
    machine = Machine({"/etc/netplan/x.yaml": before})
    after = machine.foreign("netplan", [link()]).get("/etc/netplan/x.yaml", before)
    rest = {name: one for name, one in ethernets.items() if name != "eth1"}
    expected = {"version": 2} | ({"ethernets": rest} if rest else {})
    assert yaml.safe_load(str(after)) == {"network": expected}


def test_cloud_inits_keyfile_no_longer_starts_automatically() -> None:
    path = "/etc/NetworkManager/system-connections/cloud-init-eth1.nmconnection"
    before = read_recording("cloud-init-eth0.nmconnection")
    machine = Machine({path: before, **ADDRESS})
    changes = machine.foreign("networkmanager", [link()])
    assert set(changes) == {path, CLOUD}
    added = [line for line in str(changes[path]).splitlines() if line not in before.splitlines()]
    assert added == ["autoconnect=false"]
    parser = configparser.ConfigParser()
    parser.read_string(str(changes[path]))
    assert parser["connection"]["autoconnect"] == "false"
    assert machine.settle("networkmanager", [link()]) == {}


def test_a_profile_that_starts_explicitly_is_put_out_of_force() -> None:
    path = "/etc/NetworkManager/system-connections/x.nmconnection"
    before = "[connection]\ninterface-name=eth2\nautoconnect=true\n[ipv4]\nmethod=auto\n"
    machine = Machine({path: before})
    after = str(machine.foreign("networkmanager", [BOND])[path])
    assert after.splitlines()[1] == "autoconnect=false"
    assert "# fullmesh: autoconnect=true" in after
    assert machine.settle("networkmanager", [BOND]) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "[ipv4]\nmethod=auto\n[connection]\nid=any\n",
            "[ipv4]\nmethod=auto\n[connection]\nautoconnect=false\nid=any\n",
        ),
        ("[connection]\nid=any", "[connection]\nautoconnect=false\nid=any\n"),
        (
            "# theirs\n[ethernet]\nmac-address=02:00:00:00:00:FF",
            "[connection]\nautoconnect=false\n# theirs\n[ethernet]\nmac-address=02:00:00:00:00:FF\n",
        ),
        ("", "[connection]\nautoconnect=false\n"),
        (
            "[connection]\nid=any\n[wifi]\nautoconnect=true\n",
            "[connection]\nautoconnect=false\nid=any\n[wifi]\nautoconnect=true\n",
        ),
    ],
)
def test_a_profile_is_disabled_and_every_other_byte_stays(before: str, after: str) -> None:
    assert networkmanager.disable_autoconnect(before) == after


@pytest.mark.parametrize(
    "content",
    [
        "[connection]\ninterface-name=eth7\n",
        "[connection]\nid=any\ntype=ethernet\n",
        "[connection]\ninterface-name=eth1\nautoconnect=false\n",
        "[ethernet]\nmac-address=02:00:00:00:00:FF\n",
    ],
)
def test_profiles_of_other_nics_are_unchanged(content: str) -> None:
    machine = Machine({"/etc/NetworkManager/system-connections/x.nmconnection": content, **ADDRESS})
    assert machine.foreign("networkmanager", [link()]) == {}
