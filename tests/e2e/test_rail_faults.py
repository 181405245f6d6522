"""Faults of rails that need no RDMA device: each is the first finding, on the right rail and node.

Two nodes have four rails of virtual cables, which lead to bridges in a namespace of their own: the switch. Two rails
have a network each, the other two share one network and one bridge.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import power
import pytest
import yaml
from plays import read_output, run

from devtools.lab.paths import find
from devtools.lab.podman import Podman
from fullmesh.settings import ROOT

from .conftest import site

LAB = "e2e-rail-faults"
EL, UB, THIRD = "el1", "ubuntu1", "el2"
NODES = {EL: 11, UB: 12}
PORTS = {EL: "el", UB: "ub", THIRD: "third"}  # at the switch
NICS = ("eth2", "eth3", "eth4", "eth5")
BRIDGES = {"eth2": "br0", "eth3": "br1", "eth4": "br2", "eth5": "br2"}
SWITCH = "switch"
# On a busy machine, Ansible alone needs most of the default of 60 s.
DIAGNOSE = ("./fullmesh", "diagnose", "--json", "--no-job", "--deadline", "240")
MTU = 9000
STATE = """
for nic in eth2 eth3 eth4 eth5; do
  ip -o addr show dev $nic scope global | awk '{print $2, $4}' | sort; cat /sys/class/net/$nic/mtu
  cat /sys/class/net/$nic/operstate; tc qdisc show dev $nic
  (cd /proc/sys/net/ipv4/conf/$nic && cat arp_ignore rp_filter)
done
ip -4 rule show; ip -4 route show table all | grep -E 'eth[2-5]|blackhole' | sed -E 's/ metric [0-9]+//' | sort -u
ip -6 route show table all | grep fd91 | sed -E 's/ metric [0-9]+//' | sort -u
ip neigh show nud permanent; nft list tables | grep guard
"""
AGAIN = {
    EL: "for nic in eth2 eth3 eth4 eth5; do nmcli device connect $nic; done",
    UB: "networkctl reload; networkctl reconfigure eth2 eth3 eth4 eth5",
}
GUARD = "nft add table inet guard; nft add chain inet guard {hook} '{{ type filter hook {hook} priority 0; }}'; "
NO_GUARD = "nft delete table inet guard"
Steps = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RailFault:
    """A fault, and the first finding that it must give.

    Attributes:
        name: of the test.
        code: of the finding.
        node: that it names, "" for either.
        rail: that it names, "" for any.
        make, undo: shell commands by node, or of the switch.
    """

    name: str
    code: str
    node: str
    rail: str
    make: Steps
    undo: Steps


def make_rule_fault(node: str, hook: str, rule: str) -> tuple[Steps, Steps]:
    """A rule of the node's packet filter, and its end."""
    return (
        ((node, GUARD.format(hook=hook) + f"nft add rule inet guard {hook} {rule}"),),
        ((node, NO_GUARD),),
    )


def make_drop_fault(port: str, match: str = "") -> tuple[Steps, Steps]:
    """The switch drops frames that come in at a port."""
    chain = f"type filter hook ingress device {port} priority 0;"
    begin = f"nft add table netdev switch; nft add chain netdev switch {port} '{{ {chain} }}'; "
    begin += f"nft add rule netdev switch {port} {match} drop"
    return ((SWITCH, begin),), ((SWITCH, "nft delete table netdev switch"),)


STRANGER = (
    "ip link add other type veth peer name strange; ip link set other master br0 up; "
    "ip link set strange up; ip address add 10.91.0.12/24 dev strange"
)
SWAP = "ip link set {0}-eth2 master br{1}; ip link set {0}-eth3 master br{2}"
FAULTS = (
    RailFault(
        "wrong subnet",
        "VC-231",
        UB,
        "rail0",
        ((UB, "ip a del 10.91.0.12/24 dev eth2; ip a add 10.99.0.12/24 dev eth2"),),
        ((UB, "ip a del 10.99.0.12/24 dev eth2; ip a add 10.91.0.12/24 dev eth2"),),
    ),
    RailFault(
        "no address",
        "VC-231",
        UB,
        "rail1",
        ((UB, "ip a del 10.91.1.12/24 dev eth3"),),
        ((UB, "ip a add 10.91.1.12/24 dev eth3"),),
    ),
    RailFault(
        "wrong prefix",
        "VC-231",
        EL,
        "rail0",
        ((EL, "ip a del 10.91.0.11/24 dev eth2; ip a add 10.91.0.11/32 dev eth2"),),
        ((EL, "ip a del 10.91.0.11/32 dev eth2; ip a add 10.91.0.11/24 dev eth2"),),
    ),
    RailFault(
        "address on another interface",
        "VC-231",
        UB,
        "rail1",
        ((UB, "ip a del 10.91.1.12/24 dev eth3; ip a add 10.91.1.12/24 dev eth2"),),
        ((UB, "ip a del 10.91.1.12/24 dev eth2; ip a add 10.91.1.12/24 dev eth3"),),
    ),
    RailFault(
        "interface with another name",
        "VC-231",
        UB,
        "rail0",
        ((UB, "ip link set eth2 down; ip link set eth2 name ens9; ip link set ens9 up"),),
        ((UB, "ip link set ens9 down; ip link set ens9 name eth2; ip link set eth2 up"),),
    ),
    RailFault(
        "interface down",
        "VC-232",
        UB,
        "rail1",
        ((UB, "ip link set eth3 down"),),
        ((UB, "ip link set eth3 up"),),
    ),
    RailFault(
        "cable unplugged",
        "VC-232",
        UB,
        "rail0",
        ((SWITCH, "ip link set ub-eth2 down"),),
        ((SWITCH, "ip link set ub-eth2 up"),),
    ),
    RailFault(
        "MTU of one interface",
        "VC-233",
        UB,
        "rail0",
        ((UB, "ip link set eth2 mtu 1500"),),
        ((UB, f"ip link set eth2 mtu {MTU}"),),
    ),
    RailFault(
        "rules of two rails in one network missing",
        "VC-234",
        UB,
        "",
        ((UB, "ip rule del from 10.91.2.22; ip rule del from 10.91.2.32"),),
        (
            (UB, "ip rule add from 10.91.2.22 lookup 30102 pref 30102 proto static"),
            (UB, "ip rule add from 10.91.2.32 lookup 30103 pref 30103 proto static"),
        ),
    ),
    RailFault(
        "strict rp_filter, and a rule missing",
        "VC-234",
        EL,
        "rail3",
        ((EL, "ip rule del from 10.91.2.31; sysctl -qw net.ipv4.conf.eth5.rp_filter=1"),),
        (
            (
                EL,
                "ip rule add from 10.91.2.31 lookup 30103 pref 30103 proto static; "
                "sysctl -qw net.ipv4.conf.eth5.rp_filter=2",
            ),
        ),
    ),
    RailFault(
        "route over another rail",
        "VC-234",
        UB,
        "rail0",
        ((UB, "ip route add 10.91.0.11/32 dev eth3"),),
        ((UB, "ip route del 10.91.0.11/32 dev eth3"),),
    ),
    RailFault(
        "route through a gateway",
        "VC-234",
        EL,
        "rail1",
        ((EL, "ip route add 10.91.1.12/32 via 10.91.0.12"),),
        ((EL, "ip route del 10.91.1.12/32"),),
    ),
    RailFault(
        "route that drops packets",
        "VC-234",
        UB,
        "rail1",
        ((UB, "ip route add blackhole 10.91.1.11/32"),),
        ((UB, "ip route del blackhole 10.91.1.11/32"),),
    ),
    RailFault(
        "rule that prohibits the own address",
        "VC-234",
        EL,
        "rail0",
        ((EL, "ip rule add from 10.91.0.11 prohibit pref 100"),),
        ((EL, "ip rule del pref 100"),),
    ),
    RailFault(
        "static neighbor entry",
        "VC-236",
        EL,
        "rail1",
        ((EL, "ip neigh replace 10.91.1.12 lladdr 02:00:00:00:00:99 dev eth3 nud permanent"),),
        ((EL, "ip neigh del 10.91.1.12 dev eth3"),),
    ),
    RailFault(
        "ARP answered by the other rail",
        "VC-236",
        UB,
        "rail2",
        (
            (
                UB,
                "ip link set eth4 arp off; sysctl -qw net.ipv4.conf.eth5.arp_ignore=0 "
                "net.ipv4.conf.all.arp_ignore=0",
            ),
            (EL, "ip neigh flush dev eth4"),
        ),
        ((UB, "ip link set eth4 arp on; sysctl -qw net.ipv4.conf.eth5.arp_ignore=1"),),
    ),
    RailFault(
        "address of a strange machine",
        "VC-237",
        UB,
        "rail0",
        ((SWITCH, STRANGER),),
        (
            (SWITCH, "ip link del other; ip netns del rail-stranger"),
            (EL, "ip neigh flush dev eth2"),
        ),
    ),
    RailFault(
        "address of the peer",
        "VC-237",
        UB,
        "rail0",
        ((EL, "ip a add 10.91.0.12/24 dev eth2"),),
        ((EL, "ip a del 10.91.0.12/24 dev eth2"),),
    ),
    RailFault(
        "limited to 10 Mbit/s",
        "VC-238",
        EL,
        "rail0",
        ((EL, "tc qdisc add dev eth2 root tbf rate 10mbit burst 32kbit latency 400ms"),),
        ((EL, "tc qdisc del dev eth2 root"),),
    ),
    RailFault(
        "limited class of traffic",
        "VC-238",
        UB,
        "rail1",
        (
            (
                UB,
                "tc qdisc add dev eth3 root handle 1: htb default 1; "
                "tc class add dev eth3 parent 1: classid 1:1 htb rate 20mbit",
            ),
        ),
        ((UB, "tc qdisc del dev eth3 root"),),
    ),
    RailFault(
        "dropped at the receiver",
        "VC-239",
        UB,
        "rail0",
        *make_rule_fault(UB, "input", "iifname eth2 drop"),
    ),
    RailFault(
        "rejected at the sender",
        "VC-239",
        EL,
        "rail1",
        *make_rule_fault(EL, "output", "oifname eth3 meta l4proto tcp reject"),
    ),
    RailFault("all frames of one rail lost", "VC-240", "", "rail1", *make_drop_fault("ub-eth3")),
    RailFault(
        "one direction only", "VC-240", "", "rail0", *make_drop_fault("el-eth2", "ip protocol tcp")
    ),
    RailFault(
        "another VLAN of one switch port",
        "VC-240",
        "",
        "rail0",
        ((SWITCH, "ip link set ub-eth2 nomaster"),),
        ((SWITCH, "ip link set ub-eth2 master br0"),),
    ),
    RailFault(
        "large packets lost",
        "VC-241",
        "",
        "rail0",
        *make_drop_fault("el-eth2", "ip length gt 2000"),
    ),
    RailFault(
        "swapped cables",
        "VC-242",
        "",
        "rail0, rail1",
        ((SWITCH, SWAP.format("ub", 1, 0)),),
        ((SWITCH, SWAP.format("ub", 0, 1)),),
    ),
)


class RailLab:
    """The nodes and the switch, each by a process in its namespaces."""

    def __init__(
        self, name: str, nodes: dict[str, int], containers: dict[str, str], switch: int
    ) -> None:
        """Remember the processes, and the last number of each node's addresses."""
        self.inventory = find().lab(name) / "inventory"
        self.nodes = nodes
        self.containers = containers
        self.pids = {SWITCH: str(switch), **{node: self.read_pid(node) for node in nodes}}
        self.states: dict[str, str] = {}

    def run(self, where: str, command: str, *, check: bool = True) -> str:
        """Run a shell command on a node or on the switch."""
        inside = ["-a"]
        if where == SWITCH:  # with the programs of a node, because this machine may have no nft
            inside = ["-m", f"--net=/proc/{self.pids[SWITCH]}/ns/net"]
        pid = self.pids[EL if where == SWITCH else where]
        enter = ["nsenter", "-t", pid, *inside, "sh", "-c", command]
        done = subprocess.run(enter, capture_output=True, text=True, check=False, timeout=120)
        assert not check or done.returncode == 0, f"{where}: {command}: {done.stderr}"
        return done.stdout

    def read_states(self) -> dict[str, str]:
        """Read the state of the rails on both nodes."""
        return {node: self.run(node, STATE, check=False) for node in self.nodes}

    def repair(self) -> None:
        """Wait for the state from before. After 5 s, the owners of the interfaces configure them again."""
        begun, asked = time.monotonic(), False
        while (now := self.read_states()) != self.states:
            assert time.monotonic() - begun < 40, now
            if not asked and time.monotonic() - begun > 5:
                asked = True
                for node in self.nodes:
                    if now[node] != self.states[node]:
                        self.run(node, AGAIN[node], check=False)
            time.sleep(1)
        for node in self.nodes:
            self.run(node, "for n in eth2 eth3 eth4 eth5; do ip neigh flush dev $n; done")

    def find(self) -> list[dict[str, Any]]:
        """Diagnose the nodes. Return the findings."""
        done = run(*DIAGNOSE, "-i", str(self.inventory))
        result = json.loads(done.output[done.output.index("{") :])
        return [one for one in result["findings"] if one["rung"] == "L2"]

    def plan_rails(self, *, ipv6: bool) -> None:
        """Write the rails into the lab's inventory. With IPv6, each has a network of its own."""
        rails: list[dict[str, Any]] = []
        for number, nic in enumerate(NICS):
            shared = BRIDGES[nic] == "br2"
            addresses = {
                node: f"10.91.{2 if shared else number}.{host + 10 * shared * (number - 1)}/24"
                for node, host in self.nodes.items()
            }
            if ipv6:
                addresses = {
                    node: f"fd91:0:0:{number}::{host}/64" for node, host in self.nodes.items()
                }
            rails.append({"name": f"rail{number}", "nic": nic, "mtu": MTU, "addresses": addresses})
        path = self.inventory / "hosts.yml"
        made = yaml.safe_load(path.read_text())
        made["all"]["children"]["torch_nodes"]["vars"] = {"fullmesh_rails": rails}
        path.write_text(yaml.safe_dump(made))

    def start_switch(self) -> None:
        """Add the bridges of the switch, and connect the nodes to it."""
        inside = ["nsenter", "-t", self.pids[SWITCH], "-n"]
        for bridge in sorted(set(BRIDGES.values())):
            add = ["ip", "link", "add", bridge, "mtu", "9000", "type", "bridge"]
            subprocess.run([*inside, *add], check=True)
            subprocess.run([*inside, "ip", "link", "set", bridge, "up"], check=True)
        for node in self.nodes:
            self.connect_node(node)

    def connect_node(self, node: str) -> None:
        """Connect a node's rails to the switch. Its NICs always have the same hardware addresses."""
        inside = ["nsenter", "-t", self.pids[SWITCH], "-n"]
        for nic, bridge in BRIDGES.items():
            port = f"{PORTS[node]}-{nic}"
            ends = ["name", nic, "address", self.hardware_address(node, nic)]
            ends += ["netns", self.pids[node], "type", "veth"]
            ends += ["peer", "name", port, "netns", self.pids[SWITCH]]
            subprocess.run(["ip", "link", "add", *ends], check=True)
            join = ["ip", "link", "set", port, "mtu", "9000", "master", bridge, "up"]
            subprocess.run([*inside, *join], check=True)

    def hardware_address(self, node: str, nic: str) -> str:
        """Return the hardware address of a node's NIC."""
        return f"02:91:00:00:{self.nodes[node]:02x}:0{nic[-1]}"

    def reboot_node(self, node: str, seconds: int) -> None:
        """Reboot one node, while the switch and the other nodes stay up.

        Args:
            node: its name.
            seconds: to shut down, 0 cuts the power.
        """

        def connect() -> None:
            self.pids[node] = self.read_pid(node)
            self.connect_node(node)

        power.reboot_nodes_with_cables(Podman(find()), [self.containers[node]], connect, seconds)

    def read_pid(self, node: str) -> str:
        """Return the first process of a node."""
        inspect = ("inspect", "--format", "{{.State.Pid}}", self.containers[node])
        return Podman(find()).must(*inspect).strip()

    def read_neighbors(self, node: str) -> set[tuple[str, str]]:
        """Return the interface and the hardware address of each neighbor on a node's rails that the kernel uses."""
        lines = self.run(
            node, "ip -4 neigh show nud reachable nud stale nud delay nud probe"
        ).splitlines()
        words = [line.split() for line in lines if " lladdr " in line]
        return {(one[2], one[4]) for one in words if one[2] in NICS}


@contextlib.contextmanager
def start_lab(name: str, nodes: dict[str, int], *, ipv6: bool = False) -> Iterator[RailLab]:
    """Start a lab whose nodes have four rails, which Fullmesh has configured."""
    run("./fullmesh", "lab", "down", "--name", name)
    assert run("./fullmesh", "lab", "up", "--name", name, "--nodes", str(len(nodes))).code == 0
    status = json.loads(read_output("./fullmesh", "lab", "status", "--json", "--name", name))
    containers = {one["name"]: one["container"] for one in status["nodes"]}
    with subprocess.Popen(["unshare", "-n", "sleep", "infinity"], cwd=ROOT) as switch:
        while os.readlink(f"/proc/{switch.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        made = RailLab(name, nodes, containers, switch.pid)
        try:
            made.start_switch()
            made.plan_rails(ipv6=ipv6)
            done = site("--tags", "static_ip,kernel_tuning", inventory=str(made.inventory))
            assert done.code == 0, done.output[-3000:]
            made.states = made.read_states()
            yield made
        finally:
            switch.kill()
            run("./fullmesh", "lab", "down", "--name", name)


@pytest.fixture(scope="module")
def lab() -> Iterator[RailLab]:
    """A lab of two nodes."""
    with start_lab(LAB, NODES) as made:
        yield made


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_healthy_rails_give_no_alarm(lab: RailLab, turn: int) -> None:
    del turn
    assert lab.find() == []


def find_fault(lab: RailLab, fault: RailFault) -> list[dict[str, Any]]:
    """Inject a fault, and return the findings. The first one must be right."""
    for where, command in fault.make:
        lab.run(where, command)
    try:
        found = lab.find()
    finally:
        for where, command in fault.undo:
            lab.run(where, command, check=False)
        lab.repair()
    shown = [(one["code"], one["node"], one["cause"], one["seen"]) for one in found]
    assert found, "nothing was found"
    assert found[0]["code"] == fault.code, shown
    assert fault.node in ("", found[0]["node"]), shown
    assert fault.rail in ("", found[0]["cause"].partition(":")[0]), shown
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_is_found_first(lab: RailLab, fault: RailFault) -> None:
    find_fault(lab, fault)


@pytest.mark.parametrize("seconds", [20, 0])
def test_a_node_that_reboots_alone_is_reached_again(lab: RailLab, seconds: int) -> None:
    """The other node stays up, keeps its settings, and finds the same neighbors."""
    lab.reboot_node(UB, seconds)
    end = time.monotonic() + 120
    while lab.read_states() != lab.states or lab.find():
        assert time.monotonic() < end, (lab.read_states(), lab.find())
        time.sleep(2)
    for node, other in ((EL, UB), (UB, EL)):
        assert lab.read_neighbors(node) == {(nic, lab.hardware_address(other, nic)) for nic in NICS}


# On rails with IPv6 addresses
IPV6_FAULTS = (
    # First, while the kernels have entries of the healthy neighbors. Each node hears the others wrongly. The finding
    # names the one that is connected otherwise than the rest.
    *(
        RailFault(
            f"swapped cables of {node}",
            "VC-242",
            node,
            "rail0, rail1",
            ((SWITCH, SWAP.format(PORTS[node], 1, 0)),),
            ((SWITCH, SWAP.format(PORTS[node], 0, 1)),),
        )
        for node in (UB, EL)
    ),
    RailFault(
        "no address",
        "VC-231",
        UB,
        "rail1",
        ((UB, "ip a del fd91:0:0:1::12/64 dev eth3"),),
        ((UB, "ip a add fd91:0:0:1::12/64 dev eth3"),),
    ),
    RailFault(
        "route through a gateway",
        "VC-234",
        EL,
        "rail1",
        ((EL, "ip route add fd91:0:0:1::12/128 via fd91:0:0:1::99 dev eth3"),),
        ((EL, "ip route del fd91:0:0:1::12/128"),),
    ),
    RailFault(
        "route that drops packets",
        "VC-234",
        UB,
        "rail0",
        ((UB, "ip route add blackhole fd91::11/128"),),
        ((UB, "ip route del blackhole fd91::11/128"),),
    ),
    RailFault(
        "static neighbor entry",
        "VC-236",
        EL,
        "rail1",
        (
            (
                EL,
                "ip neigh replace fd91:0:0:1::12 lladdr 02:00:00:00:00:99 dev eth3 nud permanent",
            ),
        ),
        ((EL, "ip neigh del fd91:0:0:1::12 dev eth3"),),
    ),
    RailFault(
        "dropped at the receiver",
        "VC-239",
        UB,
        "rail0",
        *make_rule_fault(UB, "input", "iifname eth2 drop"),
    ),
)


@pytest.fixture(scope="module")
def three() -> Iterator[RailLab]:
    """A lab of three nodes, whose rails have IPv6 addresses."""
    # a machine's inotify instances may not suffice for both labs
    run("./fullmesh", "lab", "down", "--name", LAB)
    with start_lab(f"{LAB}-3", {**NODES, THIRD: 13}, ipv6=True) as made:
        yield made


def test_healthy_rails_of_three_nodes_give_no_alarm(three: RailLab) -> None:
    assert three.find() == []


@pytest.mark.parametrize("fault", IPV6_FAULTS, ids=lambda fault: fault.name)
def test_a_fault_of_one_of_three_nodes_is_found_first(three: RailLab, fault: RailFault) -> None:
    found = find_fault(three, fault)
    assert len(found) == 1 or fault.code != "VC-242"
