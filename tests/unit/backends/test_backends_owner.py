"""Network backends: which of them owns an interface."""

from __future__ import annotations

import pytest
from ansible.module_utils.fullmesh.network import owner as network_owner
from backend_links import BARE, BOND, EVERY, MAIN, OVER, Machine, networkd_state, read_recording
from network_samples import Link, link

STATE = "nmcli *GENERAL.STATE device show "


NETPLAN = {"netplan info": (0, "")}


NETWORKD = {"systemctl is-active *systemd-networkd.service": (0, "")}


IFUPDOWN = {"ifquery --version": (0, "ifquery version 0.8.41\n")}


IFCFG = {"/etc/sysconfig/network-scripts/ifcfg-ens33": read_recording("ifcfg-ens33-el7")}


def answer_nmcli(word: str) -> dict[str, tuple[int, str]]:
    return {STATE + "*": (0, read_recording("nmcli-" + word))}


@pytest.mark.parametrize(
    ("interface", "files", "says", "owner"),
    [
        ("eth1", {}, answer_nmcli("disconnected"), "networkmanager"),
        ("eth1", {}, answer_nmcli("connected"), "networkmanager"),
        ("eth1", {}, answer_nmcli("external"), "networkmanager"),
        # NetworkManager runs without managing the interface, so another program owns it
        ("eth1", {}, answer_nmcli("unmanaged"), ""),
        ("eth1", {}, answer_nmcli("unmanaged") | NETPLAN, "netplan"),
        ("eth1", {}, answer_nmcli("unmanaged") | NETWORKD, "networkd"),
        ("eth1", MAIN, answer_nmcli("unmanaged") | IFUPDOWN, "ifupdown"),
        # NM_CONTROLLED=no: EL9 has no other program that would bring it up
        ("ens33", IFCFG, answer_nmcli("unmanaged"), ""),
        # a stanza without ifupdown is a leftover of the upgrade to netplan
        ("eth1", MAIN, NETPLAN, "netplan"),
        ("eth1", MAIN, IFUPDOWN | NETPLAN, "ifupdown"),
        ("eth9", MAIN, IFUPDOWN, "ifupdown"),
        ("eth9", MAIN, IFUPDOWN | NETWORKD, "networkd"),
        ("eth1", networkd_state("networkd-link"), NETPLAN | NETWORKD, "networkd"),
        ("eth1", networkd_state("networkd-link-netplan"), NETPLAN | NETWORKD, "netplan"),
        ("eth1", {}, NETPLAN | NETWORKD, "netplan"),
        ("eth1", {}, NETWORKD, "networkd"),
        # EL9: the profile may come from such a file; EL10 has no plugin for them
        ("ens33", IFCFG, answer_nmcli("connected"), "networkmanager"),
        ("ens33", IFCFG, {}, ""),
        ("eth1", {}, {}, ""),
    ],
)
def test_the_owner_is_queried_instead_of_guessed(
    interface: str, files: dict[str, str], says: dict[str, tuple[int, str]], owner: str
) -> None:
    assert Machine(files, says).owner(interface) == owner


@pytest.mark.parametrize("name", EVERY)
def test_our_files_keep_their_owner(name: str) -> None:
    says = {
        "networkmanager": answer_nmcli("connected"),
        "netplan": NETPLAN | NETWORKD,
        "networkd": NETWORKD,
        "ifupdown": IFUPDOWN,
    }[name]
    files = network_owner.get_backend(name).build_files([link()])
    files |= {
        "networkd": networkd_state("networkd-link"),
        "netplan": networkd_state("networkd-link-netplan"),
        "ifupdown": MAIN,
    }.get(name, {})
    assert Machine(files, says).owner("eth1") == name


def owners_of(machine: Machine, links: list[Link]) -> tuple[dict[str, str], dict[str, str]]:
    found: tuple[dict[str, str], dict[str, str]] = network_owner.find_link_owners(
        machine.run, machine.read, machine.listed, links
    )
    return found


def test_a_bond_needs_its_members_and_a_vlan_its_parent() -> None:
    found, why = owners_of(Machine({}, answer_nmcli("disconnected")), [OVER, BOND, BARE])
    assert found == dict.fromkeys(("bond0.100", "bond0", "vlan7"), "networkmanager")
    assert why == {}


def test_a_bond_of_two_owners_is_rejected_with_its_reason() -> None:
    says = {STATE + "eth2": (0, "30 (disconnected)\n"), STATE + "*": (10, ""), **NETPLAN}
    found, why = owners_of(Machine({}, says), [BOND, OVER])
    assert found == {"bond0.100": "netplan"} or "bond0.100" in why
    assert "eth2 belongs to networkmanager, eth3 belongs to netplan" in why["bond0"]


def test_an_interface_without_an_owner_is_named() -> None:
    assert "no program on this node configures eth1" in owners_of(Machine(), [link()])[1]["eth1"]
