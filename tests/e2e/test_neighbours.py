"""Apply and undo on nodes with other software: its rules, routes and addresses stay the same.

Docker, Kubernetes, libvirt and fail2ban are fakes: the test makes their kernel objects by hand. A
routing daemon is a route with its protocol number, and keepalived an address without an owner. The
interface carries ssh and moves from its lease to the planned address, so its owner reconfigures it.
No program would restore these objects after a boot, so there is no boot here.
test_real_neighbours.py has the real programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from plays import read_output, run

from .conftest import ETC_DIGEST, expect_success, site

LAB = "e2e-neighbours"
PARTS = ("--tags", "network,firewall,tuning", "-e", "peer_firewall_existing_services=open")
# An Ubuntu without a firewall, and an EL with its own, which its user opened for that service.
SYSTEM = {
    "ubuntu": "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install polkitd iptables",
    "el": "dnf -q -y install firewalld && systemctl enable -q --now firewalld && firewall-cmd --state"
    " && firewall-cmd -q --permanent --add-port=2049/tcp && firewall-cmd -q --reload",
}
# {n} is a number of each node. {gateway} and {peer} are in the interface's network.
MAKE = """
set -eu
# Docker 28: its bridge, chains and address translation
ip link add docker0 type bridge && ip addr add 172.17.{n}.1/24 dev docker0 && ip link set docker0 up
if command -v iptables > /dev/null; then
iptables -N DOCKER && iptables -N DOCKER-USER
iptables -A FORWARD -j DOCKER-USER
iptables -A FORWARD -o docker0 -j DOCKER
iptables -A DOCKER -d 172.17.{n}.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
iptables -t nat -N DOCKER
iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.{n}.2:80
iptables -t nat -A POSTROUTING -s 172.17.{n}.0/24 ! -o docker0 -j MASQUERADE
# kube-proxy with iptables, and below with nftables
iptables -t nat -N KUBE-SERVICES && iptables -t nat -N KUBE-SVC-API
iptables -t nat -A PREROUTING -m comment --comment 'kubernetes service portals' -j KUBE-SERVICES
iptables -t nat -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-SVC-API
iptables -t nat -A KUBE-SVC-API -p tcp -j DNAT --to-destination {peer}:6443
fi
nft -f - <<'END'
table ip kube-proxy {{
  map service-ips {{
    type ipv4_addr . inet_proto . inet_service : verdict
  }}
  chain services {{
    ip daddr . meta l4proto . th dport vmap @service-ips
  }}
  chain nat-prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }}
}}
# libvirt 10.10
table ip libvirt_network {{
  chain forward {{
    type filter hook forward priority filter; policy accept;
    oifname "virbr0" ip daddr 192.168.122.0/24 ct state related,established counter accept
  }}
  chain guest_nat {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 192.168.122.0/24 ip daddr != 192.168.122.0/24 counter masquerade
  }}
}}
# fail2ban's nftables-multiport
table inet f2b-table {{
  set addr-set-sshd {{
    type ipv4_addr
    elements = {{ 203.0.113.7, 203.0.113.{n} }}
  }}
  chain f2b-chain {{
    type filter hook input priority filter - 1; policy accept;
    tcp dport 22 ip saddr @addr-set-sshd reject
  }}
}}
END
# bird; a table of policy routing of the site's own; keepalived
ip route add 198.51.100.0/24 via {peer} dev eth1 proto bird metric 32
ip rule add priority 5000 from 172.17.{n}.0/24 lookup 100
ip route add default via {gateway} dev eth1 table 100
ip address add {vip}/32 dev eth1
# a service of the site's own
systemd-run --quiet --unit=neighbour python3 -m http.server --bind 0.0.0.0 2049
"""
LOOK = """
(iptables-save 2>/dev/null || true) | grep -e '^-A' | grep -v -e '^-A [A-Z_]*\\(direct\\|ZONES\\|POLICIES\\)' | sort
nft list table ip kube-proxy
nft list table ip libvirt_network | sed 's/packets [0-9]* bytes [0-9]*//'
nft list table inet f2b-table
ip route show proto bird
ip rule show priority 5000
ip route show table 100
ip -4 -o address show dev eth1 | grep -o 'inet {vip}/32'
ip -4 -o address show dev docker0 | grep -o 'inet [^ ]*'
"""


# A manual reload empties iptables' tables, with or without Fullmesh. Docker and kube-proxy then
# restore theirs, as here.
RELOAD = "iptables-save > /run/owners 2> /dev/null || true; firewall-cmd -q --reload"
OWNERS = "test ! -s /run/owners || iptables-restore /run/owners"


class Lab:
    """A lab of its own, whose nodes have neighbors."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB, "--dhcp").code == 0
        status: dict[str, Any] = json.loads(
            read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
        )
        self.inventory = status["inventory"].rsplit("/", 1)[0]
        self.addresses = {one["name"]: one["management_address"] for one in status["nodes"]}
        self.names = sorted(self.addresses)
        net = next(iter(self.addresses.values())).rpartition(".")[0]
        self.gateway = f"{net}.1"
        self.vips = {name: f"{net}.{200 + n}" for n, name in enumerate(self.names)}

    def on(self, name: str, script: str) -> str:
        """Run a shell script on a node."""
        words = ["./fullmesh", "lab", "exec", "--name", LAB, name, "--"]
        return read_output(*words, "sh", "-c", script, seconds=300).strip()

    def make(self) -> None:
        """Make the neighbors' objects."""
        for name in self.names:
            self.on(name, SYSTEM["el" if name.startswith("el") else "ubuntu"])
        for number, name in enumerate(self.names, 1):
            peer = next(self.addresses[other] for other in self.names if other != name)
            self.on(
                name,
                MAKE.format(n=number, gateway=self.gateway, peer=peer, vip=self.vips[name]),
            )

    def view(self, name: str) -> list[str]:
        """Return the neighbors' objects in a node's kernel."""
        return self.on(name, LOOK.format(vip=self.vips[name])).splitlines()

    def served(self) -> dict[str, str]:
        """Return whether each node reaches the others' service at keepalived's address, over new connections."""
        ask = "import urllib.request as u; print(u.urlopen('http://{}:2049/', timeout=5).status)"
        return {
            name: self.on(name, f'python3 -c "{ask.format(self.vips[other])}"')
            for name in self.names
            for other in self.names
            if other != name
        }


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    made = Lab()
    made.make()
    yield made
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_neighbours_are_the_same_after_apply_and_undo(lab: Lab) -> None:
    before = {name: lab.view(name) for name in lab.names}
    files = {name: lab.on(name, ETC_DIGEST).splitlines() for name in lab.names}
    reached = dict.fromkeys(lab.names, "200")
    assert lab.served() == reached
    for name in lab.names:
        assert "table inet f2b-table {" in before[name]
    assert any("KUBE-SVC-API" in line for line in before["ubuntu1"])

    expect_success(site(*PARTS, inventory=lab.inventory))
    assert {name: lab.view(name) for name in lab.names} == before
    assert lab.served() == reached

    again = site(*PARTS, inventory=lab.inventory)
    expect_success(again)
    assert (again.code, set(again.changed().values())) == (0, {0})

    for name in lab.names:
        lab.on(name, RELOAD)
        kept = [line for line in before[name] if not line.startswith("-A")]
        assert lab.view(name) == kept
        lab.on(name, OWNERS)
    assert {name: lab.view(name) for name in lab.names} == before
    assert lab.served() == reached

    expect_success(run("ansible-playbook", "playbooks/undo.yml", "-i", lab.inventory))
    assert {name: lab.view(name) for name in lab.names} == before
    assert lab.served() == reached
    for name in lab.names:
        assert lab.on(name, ETC_DIGEST).splitlines() == files[name]
