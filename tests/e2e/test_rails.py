"""Four rails, each with a cable of its own: NetworkManager on one node, netplan on the other.

Two of them share a network. Packets that leave by the other rail's cable never arrive, so only the tables and rules of
these two make both work.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import power
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
NICS = ("eth2", "eth3", "eth4", "eth5")
SHARING = 2  # rails in the first network. With IPv6, each has its own
GRACEFUL, POWER_CUT = 20, 0  # seconds to shut down
TAGS = "static_ip,kernel_tuning"
PARTS = ("--tags", TAGS, "-e", "static_ip_rollback_seconds=30")
# The state of all NICs: addresses and MTU, every route and rule, and the settings of ARP. Without metrics, because
# NetworkManager takes the next free one with each activation.
STATE = """
ip -o -4 addr show dev eth1 | awk '{print $2, $4}'
for nic in eth2 eth3 eth4 eth5; do
  ip -o addr show dev $nic scope global | awk '{print $2, $4}'; cat /sys/class/net/$nic/mtu
  (cd /proc/sys/net/ipv4/conf/$nic && cat arp_ignore arp_announce rp_filter)
done
ip -4 rule show; ip -4 route show table all | grep -E 'eth[2-5]' | sed -E 's/ metric [0-9]+//' | sort -u
ip -6 rule show; ip -6 route show table all | grep fd91 | sed -E 's/ metric [0-9]+//' | sort -u
"""
PING = ("ansible", "-i", str(INVENTORY), "torch_nodes", "-m", "ping")
# On a busy machine, Ansible alone needs most of the default of 60 s.
DIAGNOSE = ("./fullmesh", "diagnose", "--json", "--no-job", "--deadline", "240")
PENDING = "ls /var/lib/fullmesh/rollback/*/armed 2>/dev/null; true"
FIREWALL = """
firewall-cmd --list-all-policies
for set in $(firewall-cmd --get-ipsets); do firewall-cmd --info-ipset=$set; done
firewall-cmd --list-all-zones
"""


def run_on_node(node: str, script: str) -> str:
    return read_output(
        "./fullmesh", "lab", "exec", "--name", LAB, node, "--", "sh", "-c", script
    ).strip()


def connect_nodes() -> None:
    """Connect the nodes by a cable for each rail."""
    format_ = ("inspect", "--format", "{{.State.Pid}}")
    one, two = (Podman(find()).must(*format_, f"fm-{LAB}-{node}").strip() for node in NODES)
    for nic in NICS:
        ends = ["name", nic, "netns", one, "type", "veth", "peer", "name", nic, "netns", two]
        subprocess.run(["ip", "link", "add", *ends], check=True)


def reboot_nodes(seconds: int) -> None:
    """Reboot all nodes at once, and wait until ssh works. After *seconds* to shut down, the power is cut."""
    power.reboot_nodes_with_cables(
        Podman(find()), [f"fm-{LAB}-{node}" for node in NODES], connect_nodes, seconds
    )
    wait_until(lambda: run(*PING).code == 0, "ssh does not work")


def wait_until(done: Callable[[], bool], otherwise: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, otherwise
        time.sleep(2)


def read_states(script: str = STATE) -> dict[str, str]:
    return {node: run_on_node(node, script) for node in NODES}


def make_address(number: int, host: int, *, ipv6: bool = False) -> str:
    """Return a host's address on a rail, with its prefix."""
    if ipv6:
        return f"fd91:0:0:{number}::{host}/64"
    return f"10.91.0.{host + 10 * number}/24" if number < SHARING else f"10.91.{number}.{host}/24"


def plan_rails(mtu: int, *hosts: int, ipv6: bool = False) -> None:
    """Write the rails into the lab's inventory."""
    rails: list[dict[str, Any]] = [
        {
            "name": f"rail{number}",
            "nic": nic,
            "mtu": mtu,
            "addresses": {
                node: make_address(number, host, ipv6=ipv6)
                for node, host in zip(NODES, hosts, strict=True)
            },
        }
        for number, nic in enumerate(NICS)
    ]
    path = INVENTORY / "hosts.yml"
    made = yaml.safe_load(path.read_text())
    made["all"]["children"]["torch_nodes"]["vars"] = {"fullmesh_rails": rails}
    path.write_text(yaml.safe_dump(made))


def reach_over_rails(*hosts: int, ipv6: bool = False) -> None:
    """Each rail of the first node reaches the same rail of the second one, with frames of the rails' MTU."""
    for number in range(len(NICS)):
        here, there = (make_address(number, host, ipv6=ipv6).partition("/")[0] for host in hosts)
        run_on_node(NODES[0], f"ping -q -c 2 -W 2 -M do -s 4000 -I {here} {there}")


def kill_run_at(task: str, *more: str, after: int = 0) -> None:
    """Kill a run when a task begins, not before the task after *after* others of this kind."""
    command = ["ansible-playbook", "site.yml", "-i", str(INVENTORY), *PARTS, *more]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        seen = 0
        for line in running.stdout:
            seen += line.startswith(task)
            if seen > after:
                running.send_signal(signal.SIGKILL)
                sys.stdout.write(f"killed before: {line}")
                break


def find_problems() -> list[dict[str, Any]]:
    """Diagnose the nodes. Return the findings about links and rails."""
    done = run(*DIAGNOSE, "-i", str(INVENTORY))
    result = json.loads(done.output[done.output.index("{") :])
    return [one for one in result["findings"] if one["rung"] == "L2"]


@pytest.fixture(scope="module")
def before() -> Iterator[dict[str, str]]:
    """A lab whose nodes have four cables more, and the state of its nodes."""
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
    connect_nodes()
    yield read_states(STATE + ETC_DIGEST)
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_rails_are_configured_once_and_reach_each_other(before: dict[str, str]) -> None:
    del before
    plan_rails(9000, 11, 12)
    done = site(*PARTS, inventory=str(INVENTORY))
    assert done.code == 0
    assert all(count > 0 for count in done.changed().values())
    reach_over_rails(11, 12)
    for node in NODES:
        state = run_on_node(node, STATE)
        assert re.findall(r"^(3010\d):\s+from (\S+) lookup \1", state, re.MULTILINE) == [
            ("30100", f"10.91.0.{11 + NODES.index(node)}"),
            ("30101", f"10.91.0.{21 + NODES.index(node)}"),
        ]
        assert state.count("9000\n1\n2\n2") == len(NICS)
    again = site(*PARTS, "-e", "fullmesh_converge=always", inventory=str(INVENTORY))
    assert (again.code, again.changed()) == (0, dict.fromkeys(NODES, 0))


def test_a_change_that_is_not_confirmed_is_reverted(before: dict[str, str]) -> None:
    del before
    stood = read_states()
    plan_rails(4200, 111, 112)
    kill_run_at("TASK [static_ip : confirm | Open a new connection")
    assert "10.91.0.111" in run_on_node(NODES[0], STATE)
    wait_until(lambda: read_states() == stood, "the rails differ")
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
        states.append(read_states())
    for moment in range(10):
        goal = 0 if run_on_node(NODES[0], STATE) == states[1][NODES[0]] else 1
        plan_rails(*plans[goal])
        kill_run_at("TASK [static_ip : ", after=2 * moment)
        end = time.monotonic() + 120
        while (now := read_states()) and time.monotonic() < end:
            known = all(now[node] in (states[0][node], states[1][node]) for node in NODES)
            if known and not any(run_on_node(node, PENDING) for node in NODES):
                break
            time.sleep(2)
        for node in NODES:
            assert now[node] in (states[0][node], states[1][node]), (moment, now[node])
        reached = run(*PING)
        assert reached.code == 0, (moment, reached.output)
    plan_rails(*plans[1])
    assert site(*PARTS, inventory=str(INVENTORY)).code == 0
    reach_over_rails(11, 12)


@pytest.mark.parametrize("ipv6", [True, False])
def test_rails_survive_a_reboot_of_all_nodes(before: dict[str, str], ipv6: bool) -> None:
    """All settings of the rails and the firewall are back, with nothing to change and nothing to find."""
    del before
    plan_rails(9000, 11, 12, ipv6=ipv6)
    parts = ("--tags", f"{TAGS},peer_firewall", *PARTS[2:])
    assert site(*parts, inventory=str(INVENTORY)).code == 0
    stood, firewalls = read_states(), read_states(FIREWALL)
    for text in firewalls.values():
        assert "4791" in text
        assert make_address(3, 11, ipv6=ipv6).partition("/")[0] in text
    reboot_nodes(GRACEFUL)
    wait_until(lambda: read_states() == stood, "the rails differ")
    wait_until(lambda: read_states(FIREWALL) == firewalls, "the firewall differs")
    reach_over_rails(11, 12, ipv6=ipv6)
    assert find_problems() == []
    again = site(*parts, "-e", "fullmesh_converge=always", inventory=str(INVENTORY))
    assert (again.code, again.changed()) == (0, dict.fromkeys(NODES, 0))


@pytest.mark.parametrize("seconds", [GRACEFUL, POWER_CUT])
def test_a_reboot_during_a_pending_change_reverts_it(before: dict[str, str], seconds: int) -> None:
    del before
    stood = read_states()
    plan_rails(4200, 111, 112)
    later = "static_ip_rollback_seconds=300"  # the reboot comes first
    kill_run_at("TASK [static_ip : confirm | Open a new connection", "-e", later)
    assert all(run_on_node(node, PENDING) for node in NODES)
    reboot_nodes(seconds)
    wait_until(lambda: read_states() == stood, "the rails differ")
    assert not any(run_on_node(node, PENDING) for node in NODES)
    plan_rails(9000, 11, 12)
    reach_over_rails(11, 12)


def test_undo_restores_every_nic_also_after_a_reboot(before: dict[str, str]) -> None:
    undo = ("playbooks/undo.yml", "-i", str(INVENTORY), "--tags", f"{TAGS},peer_firewall")
    assert run("ansible-playbook", *undo).code == 0
    assert read_states(STATE + ETC_DIGEST) == before
    reboot_nodes(GRACEFUL)
    wait_until(lambda: read_states(STATE + ETC_DIGEST) == before, "the state differs")
