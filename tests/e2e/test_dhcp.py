"""Change the interface of our ssh from its lease to the static address, and back: both OS families, IPv4, IPv6."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from plays import Done, read_output, run

from .conftest import ETC_DIGEST, site

PARTS = ("--tags", "network,firewall")


class Leased:
    """A lab of its own."""

    def __init__(self, name: str, *options: str) -> None:
        self.name = name
        run("./fullmesh", "lab", "down", "--name", name)
        assert run("./fullmesh", "lab", "up", "--name", name, "--dhcp", *options).code == 0
        out = read_output("./fullmesh", "lab", "status", "--json", "--name", name)
        self.status: dict[str, Any] = json.loads(out)
        self.inventory = self.status["inventory"].rsplit("/", 1)[0]
        self.nodes = self.status["nodes"]
        # one of the two labs configures one node at a time, and has ssh's options in the
        # environment
        self.rolling = "--ipv6" in options
        if self.rolling:
            self.bring_options()

    def bring_options(self) -> None:
        """Remove ssh's common options from the inventory. The nodes accept ssh from the controller's address."""
        path = Path(self.status["inventory"])
        made = yaml.safe_load(path.read_text())
        os.environ["ANSIBLE_SSH_COMMON_ARGS"] = made["all"]["vars"].pop("ansible_ssh_common_args")
        path.write_text(yaml.safe_dump(made))

    def on(self, node: dict[str, Any], command: str) -> str:
        """Run a shell command on a node without ssh."""
        prefix = ["./fullmesh", "lab", "exec", "--name", self.name, node["name"], "--"]
        return read_output(*prefix, "sh", "-c", command, seconds=300).strip()

    def addresses(self, node: dict[str, Any]) -> list[str]:
        """Return the global addresses of the interface."""
        found = json.loads(self.on(node, "ip -j addr show dev eth1 scope global"))
        infos = [info for link in found for info in link.get("addr_info", []) if info]
        return sorted(f"{info['local']}/{info['prefixlen']}" for info in infos)


@pytest.fixture(scope="module", params=["ipv4", "ipv6"])
def lab(request: pytest.FixtureRequest) -> Iterator[Leased]:
    name = f"e2e-dhcp{request.param[-1]}"
    yield Leased(name, *(["--ipv6"] if request.param == "ipv6" else []))
    os.environ.pop("ANSIBLE_SSH_COMMON_ARGS", None)
    run("./fullmesh", "lab", "down", "--name", name)


def expect_success(done: Done) -> None:
    recap = done.recap()
    assert done.code == 0
    assert {c["failed"] + c["unreachable"] for c in recap.values()} == {0}


def check_ssh_interface_is_kept(lab: Leased, folder: Path) -> None:
    """Use a VLAN instead of the interface itself: the node would be unreachable after the next boot."""
    now = {node["name"]: node["cluster_address"].split("/")[0] for node in lab.nodes}
    hosts = {}
    for name, address in now.items():
        # a network of the lab that never leaves this machine
        other = address.replace("10.78.", "10.77.") + "/24"
        link = {"vlan": {"id": 5, "parent": "eth1"}, "addresses": [other]}
        hosts[name] = {"ansible_host": address, "fullmesh_links": [link]}
    wrong = folder / "wrong.yml"
    wrong.write_text(json.dumps({"all": {"hosts": hosts}}))
    refused = site(*PARTS, "-i", str(wrong), inventory=lab.inventory)
    assert refused.code != 0
    assert refused.changed() == dict.fromkeys(now, 0)
    for address in now.values():
        assert refused.says(f"[IP-120] eth1 carries this connection, to {address}")


def test_site_from_the_lease_to_the_static_address_and_back(lab: Leased, tmp_path: Path) -> None:
    before = {node["name"]: lab.on(node, ETC_DIGEST) for node in lab.nodes}
    leases = {node["name"]: lab.addresses(node) for node in lab.nodes}
    for node in lab.nodes:
        # with a prefix of 64 or 128, because DHCPv6 leases addresses, not networks
        assert [one.split("/")[0] for one in leases[node["name"]]] == [node["management_address"]]

    first = site(
        *PARTS, "-e", f"fullmesh_serial={1 if lab.rolling else 2}", inventory=lab.inventory
    )
    expect_success(first)
    assert first.output.count("PLAY [Configure the network]") == (2 if lab.rolling else 1)
    for node in lab.nodes:
        assert lab.addresses(node) == [node["cluster_address"]]
        assert lab.on(node, "ls /var/lib/fullmesh/rollback/*/armed 2>&1 || true").count("No such")
        assert "confirmed" in lab.on(node, "cat /var/lib/fullmesh/rollback/log")

    again = site(*PARTS, inventory=lab.inventory)
    expect_success(again)
    assert (again.code, set(again.changed().values())) == (0, {0})
    for node in lab.nodes:
        assert again.says(f"{node['name']} answers at {node['cluster_address'].split('/')[0]}")

    if not lab.rolling:
        check_ssh_interface_is_kept(lab, tmp_path)

    expect_success(run("ansible-playbook", "playbooks/undo.yml", "-i", lab.inventory))
    for node in lab.nodes:
        assert lab.addresses(node) == leases[node["name"]]
        assert lab.on(node, ETC_DIGEST).splitlines() == before[node["name"]].splitlines()
    assert run("ansible", "-i", lab.inventory, "torch_nodes", "-m", "ping").code == 0
