"""Read the lab's inventory as Ansible does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from devtools.lab import inventory, plan

KEY, KNOWN = Path("/var/x/id_ed25519"), Path("/var/x/known_hosts")


def render_inventory(outsider: bool = False, ipv6: bool = False) -> dict[str, Any]:
    nodes = plan.nodes("demo", 3, plan.FAMILIES, 2, ipv6)
    if outsider:
        nodes.append(plan.outsider("demo", 3, ipv6))
    found = yaml.safe_load(inventory.render_inventory(nodes, "10.77.3.1", KEY, KNOWN))
    return dict(found["all"])


def test_hosts_have_their_variables() -> None:
    assert render_inventory()["children"] == {
        "torch_nodes": {
            "hosts": {
                "el1": {
                    "ansible_host": "10.77.3.11",
                    "fullmesh_address": "10.78.3.11/24",
                    "fullmesh_interface": "eth1",
                },
                "ubuntu1": {
                    "ansible_host": "10.77.3.12",
                    "fullmesh_address": "10.78.3.12/24",
                    "fullmesh_interface": "eth1",
                },
            }
        }
    }


def test_connection_accepts_recorded_host_keys_only() -> None:
    found = render_inventory()["vars"]
    assert found["ansible_user"] == "root"
    assert found["ansible_ssh_private_key_file"] == str(KEY)
    assert found["fullmesh_controllers"] == ["10.77.3.1"]
    arguments = found["ansible_ssh_common_args"]
    assert f"-o UserKnownHostsFile={KNOWN} -o StrictHostKeyChecking=yes" in arguments


def test_outsider_has_no_fullmesh_variables() -> None:
    outsiders = render_inventory(outsider=True)["children"]["outsiders"]["hosts"]
    assert outsiders == {
        "outsider": {"ansible_host": "10.77.3.90", "lab_cluster_address": "10.78.3.90/24"}
    }


def test_ipv6_address_is_a_string() -> None:
    hosts = render_inventory(ipv6=True)["children"]["torch_nodes"]["hosts"]
    assert hosts["el1"]["fullmesh_address"] == "fd78:0:0:3::11/64"


def test_known_hosts_line_drops_the_comment() -> None:
    line = inventory.known_hosts_line("10.77.3.11", "ssh-ed25519 AAAA root@gpu-el1\n")
    assert line == "10.77.3.11 ssh-ed25519 AAAA"
