"""A lab with DHCP: its leases, the inventory's addresses and the controller's route."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
import yaml

from devtools.lab import dhcp, inventory, lifecycle, plan, source, state
from devtools.lab.errors import LabError
from devtools.lab.paths import Paths


def build_leased_lab(ipv6: bool) -> state.Lab:
    nodes = plan.leased(plan.nodes("x", 7, plan.FAMILIES, 2, ipv6), 7, ipv6)
    return state.Lab("x", 7, ipv6, "lookalike", "", list(plan.FAMILIES), nodes, dhcp=True)


@pytest.mark.parametrize("ipv6", [False, True])
def test_leases_differ_from_planned_addresses_of_the_same_network(ipv6: bool) -> None:
    lab = build_leased_lab(ipv6)
    for node in lab.nodes:
        planned = ipaddress.ip_interface(node.cluster_address)
        lease = ipaddress.ip_address(node.management_address)
        assert lease in planned.network
        assert lease != planned.ip
        assert ipaddress.ip_address(lab.gateway) in planned.network
        # the controller is behind the router: only the right gateway leads to it
        assert ipaddress.ip_address(lab.controller) not in planned.network
    assert len({node.mac for node in lab.nodes}) == len(lab.nodes)


@pytest.mark.parametrize("ipv6", [False, True])
def test_the_server_serves_one_bridge_with_fixed_addresses(ipv6: bool, tmp_path: Path) -> None:
    lab = build_leased_lab(ipv6)
    argv = dhcp.command(lab, tmp_path)
    assert f"--interface={lab.bridges[1]}" in argv
    assert {"--bind-interfaces", "--except-interface=lo", "--port=0"} <= set(argv)
    for node in lab.nodes:
        entries = [word for word in argv if word.startswith("--dhcp-host=") and node.mac in word]
        assert len(entries) == 1
        assert node.management_address in entries[0]


def test_foreign_process_is_not_the_server(tmp_path: Path) -> None:
    assert dhcp.running(tmp_path) == 0
    (tmp_path / "dnsmasq.pid").write_text("1\n")
    assert dhcp.running(tmp_path) == 0


def test_the_inventory_has_lease_and_static_address() -> None:
    lab = build_leased_lab(False)
    text = inventory.render_inventory(
        lab.nodes, lab.controller, Path("/k"), Path("/h"), gateway=lab.gateway
    )
    found = yaml.safe_load(text)["all"]
    assert found["vars"]["ansible_ssh_common_args"].split()[-2:] == ["-b", "10.77.7.1"]
    host = found["children"]["torch_nodes"]["hosts"]["el1"]
    assert host["ansible_host"] == "10.78.7.111"
    assert host["fullmesh_links"] == [
        {"interface": "eth1", "addresses": ["10.78.7.11/24"], "gateway": "10.78.7.1"}
    ]


def test_recorded_lab_keeps_its_leases(tmp_path: Path) -> None:
    lab = build_leased_lab(True)
    paths = Paths(tmp_path, tmp_path)
    store = state.Store(paths, "x")
    store.save(lab)
    assert store.load() == lab


def test_lab_with_two_networks_rejects_dhcp() -> None:
    recorded = state.Lab("x", 7, False, "lookalike", "", list(plan.FAMILIES))
    with pytest.raises(LabError, match=r"LB-114.*two networks"):
        lifecycle.merge(lifecycle.Wish("x", dhcp=True), recorded, 7, source.Source("lookalike", ""))
