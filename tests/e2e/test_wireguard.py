"""A cluster with WireGuard: only the tunnel crosses the network, damage is repaired, and faults are named.

The lab's kernel has no WireGuard, so all of this runs with wireguard-go.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator

import pytest
import yaml
from lab_nodes import Node, list_lab_nodes
from plays import Done, run
from power import reboot_node

from devtools.lab.paths import find
from devtools.lab.podman import Podman

from .conftest import expect_success, site

LAB = os.environ.get("FULLMESH_WIREGUARD_LAB", "e2e-wireguard")
KEPT = LAB != "e2e-wireguard"  # a lab that stays, for work on these tests
INVENTORY = find().home / f"labs/{LAB}/inventory"
EL, UB = "el1", "ubuntu1"
PORT = 29820
PARTS = ("--skip-tags", "packages,verify", "-e", "torch_runtime_accelerator=cpu")
UNIT = "wg-quick@fullmesh-wg"
KEY = "/etc/wireguard/fullmesh-wg.key"
NEW_KEY = f"wg genkey > {KEY}; wg set fullmesh-wg private-key {KEY}"
WITHIN = 60.0  # seconds until a session is there on a busy machine
# A text that is sent while the other end records all packets of its NIC.
SECRET = "fullmesh-secret-of-a-job"  # noqa: S105 (a text to search for)
RECORD = f"""
import socket, sys, time
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind(("eth1", 3))
tap.settimeout(0.2)
end, size, seen = time.monotonic() + 30, 0, False
while time.monotonic() < end and size < 10000:
    try:
        data = tap.recv(65536)
    except TimeoutError:
        continue
    if len(data) > 500:
        size += len(data)
    seen = seen or b"{SECRET}" in data
print(seen, size >= 10000)
"""
SEND = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    for _ in range(20):
        one.sendto(b"{secret}" * 40, ("{address}", 9))
"""
LISTEN = """
import socket
with socket.create_server(("0.0.0.0", 29500)) as one:
    one.settimeout(30)
    one.accept()
    one.accept()
"""
CONNECT = "python3 -c 'import socket; socket.create_connection((\"{}\", 29500), 3)' 2>&1 || true"


def run_site(*more: str) -> Done:
    return site(*PARTS, *more, inventory=str(INVENTORY))


def wait_until(done: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + WITHIN
    while not done():
        assert time.monotonic() < end, otherwise
        time.sleep(1)


Nodes = dict[str, Node]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Start the lab, and configure its nodes."""
    if not KEPT:
        run("./fullmesh", "lab", "down", "--name", LAB)
    expect_success(run("./fullmesh", "lab", "up", "--name", LAB, "--families", "el,ubuntu"))
    (INVENTORY / "group_vars").mkdir(exist_ok=True)
    (INVENTORY / "group_vars/torch_nodes.yml").write_text(
        yaml.safe_dump({"wireguard_manage": True})
    )
    expect_success(run_site())
    yield list_lab_nodes(LAB)
    if not KEPT:
        run("./fullmesh", "lab", "down", "--name", LAB)


def get_tunnel_address(node: Node) -> str:
    return "10.86.0." + node.address.rpartition(".")[2]


def is_connected(nodes: Nodes) -> bool:
    return "1 received" in nodes[UB].on(f"ping -c 1 -W 1 {get_tunnel_address(nodes[EL])} || true")


def run_diagnosis() -> list[dict[str, str]]:
    """Return the findings of ./fullmesh diagnose."""
    done = run("./fullmesh", "diagnose", "-i", str(INVENTORY), "--json")
    text = done.output[done.output.index('{\n  "schema"') :]
    found: list[dict[str, str]] = json.JSONDecoder().raw_decode(text)[0]["findings"]
    # these nodes have no torch
    return [one for one in found if one["code"] != "VC-322"]


def test_only_the_tunnel_crosses_the_network(nodes: Nodes) -> None:
    """A text that one node sends is in no packet of the NIC, unless it is sent past the tunnel."""
    for address, clear in (
        (get_tunnel_address(nodes[UB]), "False True"),
        (nodes[UB].address, "True True"),
    ):
        nodes[UB].on(f"python3 -c '{RECORD}' > /run/fullmesh-test-seen 2>&1 & sleep 0.5")
        nodes[EL].on(f"python3 -c '{SEND.format(secret=SECRET, address=address)}'")
        wait_until(lambda: bool(nodes[UB].on("cat /run/fullmesh-test-seen")), "no packets")
        assert nodes[UB].on("cat /run/fullmesh-test-seen").strip() == clear


def test_the_firewall_opens_the_job_ports_in_the_tunnel_only(nodes: Nodes) -> None:
    nodes[EL].on(f"python3 -c '{LISTEN}' > /dev/null 2>&1 & sleep 0.5")
    assert nodes[UB].on(CONNECT.format(get_tunnel_address(nodes[EL]))) == ""
    refused = nodes[UB].on(CONNECT.format(nodes[EL].address))
    assert "Error" in refused
    rules = nodes[EL].on("firewall-cmd --info-policy=fullmesh-tun")
    assert f'port="{PORT}" protocol="udp"' in rules
    assert "tcp" not in rules


def test_a_second_run_changes_nothing(nodes: Nodes) -> None:
    again = run_site("-e", "fullmesh_converge=always")
    assert (again.code, again.changed()) == (0, dict.fromkeys(nodes, 0))


@pytest.mark.parametrize(
    "damage",
    [
        "ip link del fullmesh-wg",
        "ip link set fullmesh-wg mtu 1300",
        "wg set fullmesh-wg peer $(wg show fullmesh-wg peers) remove",
        f"systemctl disable --now {UNIT}",
        "sed -i 1,4d /etc/wireguard/fullmesh-wg.conf",
        f"truncate -s 9 {KEY}",
        f"rm {KEY}",
    ],
)
def test_a_damage_is_repaired(nodes: Nodes, damage: str) -> None:
    nodes[EL].on("wireguard-go other-wg; " + damage)
    other = nodes[EL].on("cat /sys/class/net/other-wg/ifindex")
    repaired = run_site("--tags", "wireguard")
    assert repaired.code == 0
    assert repaired.changed()[EL] > 0
    assert is_connected(nodes)
    # an interface of another program is unchanged
    assert nodes[EL].on("cat /sys/class/net/other-wg/ifindex; ip link del other-wg") == other
    assert set(run_site("--tags", "wireguard").changed().values()) == {0}


FAULTS = [
    ("ip link del fullmesh-wg", f"systemctl restart {UNIT}", "DG-281", UB),
    ("ip link set fullmesh-wg down", f"systemctl restart {UNIT}", "DG-281", UB),
    (
        f"cp {KEY} /root/key; {NEW_KEY}",
        f"mv /root/key {KEY}; systemctl restart {UNIT}",
        "DG-282",
        EL,
    ),
    (
        f"systemctl stop {UNIT}; nft 'add table inet fault; add chain inet fault in "
        f"{{ type filter hook input priority 0; }}; add rule inet fault in udp dport {PORT} drop'; "
        f"systemctl start {UNIT}",
        "nft delete table inet fault",
        "DG-283",
        UB,
    ),
]


@pytest.mark.parametrize(("fault", "fix", "code", "node"), FAULTS)
def test_a_fault_is_named(nodes: Nodes, fault: str, fix: str, code: str, node: str) -> None:
    nodes[UB].on(fault)
    found = run_diagnosis()
    assert [(one["code"], one["node"]) for one in found] == [(code, node)]
    assert found[0]["fix"]
    nodes[UB].on(fix)
    wait_until(lambda: is_connected(nodes), "the tunnel is not repaired")
    # on a busy machine, wireguard-go drops packets (DG-138)
    assert not [one for one in run_diagnosis() if one["code"].startswith("DG-28")]


def test_a_blocked_port_stops_the_run(nodes: Nodes) -> None:
    drop = (
        "nft 'add table inet fault; add chain inet fault in { type filter hook input priority 0; }; "
        f"add rule inet fault in udp dport {PORT} drop'"
    )
    nodes[UB].on(f"{drop}; systemctl restart {UNIT}")
    stopped = run_site("--tags", "wireguard")
    assert stopped.code != 0
    assert "[WG-106]" in stopped.output
    nodes[UB].on("nft delete table inet fault")
    expect_success(run_site("--tags", "wireguard"))


def test_the_tunnel_survives_a_reboot(nodes: Nodes) -> None:
    for name in nodes:
        reboot_node(Podman(find()), f"fm-{LAB}-{name}")
    ping = ("ansible", "-i", str(INVENTORY), "torch_nodes", "-m", "ping")
    wait_until(lambda: run(*ping).code == 0, "ssh does not work")
    fresh = list_lab_nodes(LAB)
    wait_until(lambda: is_connected(fresh), "no session after the reboot")
