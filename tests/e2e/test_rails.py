"""Two rails in one network, each with a cable of its own: NetworkManager on one node, netplan on the other.

Packets that leave by the other rail's cable never arrive, so only the tables and rules of the rails make both work.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from plays import read_output, run

from devtools.lab.paths import find
from devtools.lab.podman import Podman
from fullmesh.settings import ROOT

from .conftest import ETC_DIGEST, site

LAB = "e2e-rails"
INVENTORY = find().lab(LAB) / "inventory"
NODES = ("el1", "ubuntu1")
NICS = ("eth2", "eth3")
PARTS = ("--tags", "static_ip,kernel_tuning", "-e", "static_ip_rollback_seconds=30")
# The state of both NICs: addresses and MTU, every route and rule, and the settings of ARP. Without metrics, because
# NetworkManager takes the next free one with each activation.
STATE = """
ip -o -4 addr show dev eth1 | awk '{print $2, $4}'
for nic in eth2 eth3; do
  ip -o -4 addr show dev $nic | awk '{print $2, $4}'; cat /sys/class/net/$nic/mtu
  (cd /proc/sys/net/ipv4/conf/$nic && cat arp_ignore arp_announce rp_filter)
done
ip -4 rule show; ip -4 route show table all | grep -E 'eth2|eth3' | sed -E 's/ metric [0-9]+//' | sort -u
"""
PENDING = "ls /var/lib/fullmesh/rollback/*/armed 2>/dev/null; true"


def on(node: str, script: str) -> str:
    return read_output(
        "./fullmesh", "lab", "exec", "--name", LAB, node, "--", "sh", "-c", script
    ).strip()


def pid(node: str) -> str:
    status = json.loads(read_output("./fullmesh", "lab", "status", "--json", "--name", LAB))
    (container,) = [one["container"] for one in status["nodes"] if one["name"] == node]
    return Podman(find()).must("inspect", "--format", "{{.State.Pid}}", container).strip()


def plan_rails(mtu: int, *hosts: int) -> None:
    """Write the rails into the lab's inventory: the second number of an address is the rail."""
    rails: list[dict[str, Any]] = [
        {
            "name": f"rail{number}",
            "nic": nic,
            "mtu": mtu,
            "addresses": {
                node: f"10.91.0.{host + 10 * number}/24"
                for node, host in zip(NODES, hosts, strict=True)
            },
        }
        for number, nic in enumerate(NICS)
    ]
    path = INVENTORY / "hosts.yml"
    made = yaml.safe_load(path.read_text())
    made["all"]["children"]["torch_nodes"]["vars"] = {"fullmesh_rails": rails}
    path.write_text(yaml.safe_dump(made))


def reach_over_rails(*hosts: int) -> None:
    """Each rail of the first node reaches the same rail of the second one, with frames of the rails' MTU."""
    for number in range(len(NICS)):
        here, there = (f"10.91.0.{host + 10 * number}" for host in hosts)
        on(NODES[0], f"ping -q -c 2 -W 2 -M do -s 4000 -I {here} {there}")


@pytest.fixture(scope="module")
def before() -> Iterator[dict[str, str]]:
    """A lab whose nodes have two cables more, and the state of its nodes."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
    one, two = (pid(node) for node in NODES)
    for nic in NICS:
        ends = ["name", nic, "netns", one, "type", "veth", "peer", "name", nic, "netns", two]
        subprocess.run(["ip", "link", "add", *ends], check=True)
    yield {node: on(node, STATE + ETC_DIGEST) for node in NODES}
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_rails_are_configured_once_and_reach_each_other(before: dict[str, str]) -> None:
    del before
    plan_rails(9000, 11, 12)
    done = site(*PARTS, inventory=str(INVENTORY))
    assert done.code == 0
    assert all(count > 0 for count in done.changed().values())
    reach_over_rails(11, 12)
    for node in NODES:
        state = on(node, STATE)
        assert re.findall(r"^(3010\d):\s+from (\S+) lookup \1", state, re.MULTILINE) == [
            ("30100", f"10.91.0.{11 + NODES.index(node)}"),
            ("30101", f"10.91.0.{21 + NODES.index(node)}"),
        ]
        assert state.count("9000\n1\n2\n2") == len(NICS)
    again = site(*PARTS, "-e", "fullmesh_converge=always", inventory=str(INVENTORY))
    assert (again.code, again.changed()) == (0, dict.fromkeys(NODES, 0))


def test_a_change_that_is_not_confirmed_is_reverted(before: dict[str, str]) -> None:
    del before
    stood = {node: on(node, STATE) for node in NODES}
    plan_rails(4200, 111, 112)
    command = ["ansible-playbook", "site.yml", "-i", str(INVENTORY), *PARTS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "confirm | Open a new connection" in line:
                running.send_signal(signal.SIGKILL)
                break
    assert "10.91.0.111" in on(NODES[0], STATE)
    end = time.monotonic() + 120
    while any(on(node, STATE) != stood[node] for node in NODES) and time.monotonic() < end:
        time.sleep(2)
    assert {node: on(node, STATE) for node in NODES} == stood
    plan_rails(9000, 11, 12)
    reach_over_rails(11, 12)


def test_changes_killed_at_ten_moments_leave_all_nodes_reachable(before: dict[str, str]) -> None:
    """Each node has the rails from before the change or from after it, and ssh works."""
    del before
    plans = ((4200, 111, 112), (9000, 11, 12))
    states = []
    for plan in plans:
        plan_rails(*plan)
        assert site(*PARTS, inventory=str(INVENTORY)).code == 0
        states.append({node: on(node, STATE) for node in NODES})
    command = ["ansible-playbook", "site.yml", "-i", str(INVENTORY), *PARTS]
    for moment in range(10):
        goal = 0 if on(NODES[0], STATE) == states[1][NODES[0]] else 1
        plan_rails(*plans[goal])
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            seen = 0
            for line in running.stdout:
                seen += line.startswith("TASK [static_ip : ")
                if seen > 2 * moment:
                    running.send_signal(signal.SIGKILL)
                    break
        sys.stdout.write(f"killed before: {line}")
        end = time.monotonic() + 120
        while (now := {node: on(node, STATE) for node in NODES}) and time.monotonic() < end:
            known = all(now[node] in (states[0][node], states[1][node]) for node in NODES)
            if known and not any(on(node, PENDING) for node in NODES):
                break
            time.sleep(2)
        for node in NODES:
            assert now[node] in (states[0][node], states[1][node]), (moment, now[node])
        reached = run("ansible", "-i", str(INVENTORY), "torch_nodes", "-m", "ping")
        assert reached.code == 0, (moment, reached.output)
    plan_rails(*plans[1])
    assert site(*PARTS, inventory=str(INVENTORY)).code == 0
    reach_over_rails(11, 12)


def test_undo_restores_every_nic(before: dict[str, str]) -> None:
    undo = ("playbooks/undo.yml", "-i", str(INVENTORY), "--tags", "static_ip,kernel_tuning")
    assert run("ansible-playbook", *undo).code == 0
    assert {node: on(node, STATE + ETC_DIGEST) for node in NODES} == before
