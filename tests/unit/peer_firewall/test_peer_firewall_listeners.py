"""The peers' firewall: what listens on a node before its firewall starts."""

from __future__ import annotations

import os
from typing import Any, cast

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from firewall_machine import (
    JOB_FILE,
    OLD_ZONE,
    PUBLIC,
    ZONE_FILE,
    Machine,
    bare,
    dport,
    firewall,
    job,
    kernel,
    ours,
    put,
    refused,
    rendered,
    strict,
    taken_over,
    udp,
)


def settings_of(machine: Machine, **change: Any) -> dict[str, Any]:
    observed = firewall(machine, **change).observed
    observed.read_state()
    return cast("dict[str, Any]", observed.build_settings())


def test_a_first_start_names_what_it_would_block_and_stops(machine: Machine) -> None:
    said = refused(bare(machine))
    assert (
        "[PF-129] no firewall runs on this node, and firewalld's zone public would block reachable listeners: "
        "2049/udp (nfsd), 8000/tcp (python3; 10.78.1.12 is connected), 8001/tcp (python3), "
        "8003/tcp (an unknown process). "
    ) in said
    assert ours(machine) == []
    assert "start firewalld" not in machine.commands()


def test_so_it_does_before_the_package_is_there(machine: Machine) -> None:
    bare(machine).units = {}
    for name in ("zones/public.xml", "zones/trusted.xml"):
        os.unlink(f"{machine.root}/usr/lib/firewalld/{name}")
    os.unlink(f"{machine.root}/etc/firewalld/zones/public.xml")
    said = refused(machine)
    assert "[PF-129]" in said
    assert "22/tcp" not in said


@pytest.mark.parametrize(
    ("zone", "lost"),
    [
        ('<zone><service name="ssh"/><port port="2000-2050" protocol="udp"/></zone>', "8000/tcp"),
        ('<zone><service name="ssh"/><protocol value="tcp"/></zone>', "2049/udp"),
        ('<zone><service name="ssh"/><service name="site"/></zone>', "8001/tcp"),
        ('<zone><rule><port port="1-9000" protocol="tcp"/><accept/></rule></zone>', "2049/udp"),
        (
            '<zone><service name="ssh"/><rule family="ipv4"><source address="10.9.0.0/16"/>'
            '<port port="1-9000" protocol="tcp"/><accept/></rule></zone>',
            "2049/udp",
        ),
    ],
)
def test_services_allowed_by_the_zone_are_not_blocked(
    machine: Machine, zone: str, lost: str
) -> None:
    bare(machine)
    port = '<port port="8000" protocol="tcp"/>'
    put(machine.root, "/etc/firewalld/services/base.xml", f"<service>{port}</service>")
    site = '<service><include service="base"/><port port="2049" protocol="udp"/></service>'
    put(machine.root, "/etc/firewalld/services/site.xml", site)
    put(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert f"would block reachable listeners: {lost} " in refused(machine)


def test_each_interface_has_its_zone(machine: Machine) -> None:
    """8003 is bound to eth1's address, and eth1 is in a zone that lets everything in."""
    bare(machine)
    zone = '<zone target="ACCEPT"><interface name="eth1"/></zone>'
    put(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    said = refused(machine)
    assert "8000/tcp" in said  # on eth0 as well
    assert "8003/tcp" not in said


def test_cut_continues_and_names_what_is_blocked(machine: Machine) -> None:
    run = firewall(bare(machine), start="cut")
    assert run.present()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-211"]
    assert "Its start blocks for everybody: 2049/udp (nfsd), 8000/tcp" in run.call.notes[0]["text"]
    assert not firewall(machine, start="cut").observed.is_first_start()


def test_carry_opens_it_to_the_peers_from_then_on(machine: Machine) -> None:
    carried = [(2049, udp), (8000, dport), (8001, dport), (8003, dport)]
    rules = [job(made(port), family=family) for family in "46" for port, made in carried]
    bare(machine).table_after = [*kernel(), *rules]
    run = firewall(machine, start="carry")
    result = run.present()
    assert result["ports"][-4:] == ["2049/udp", "8000/tcp", "8001/tcp", "8003/tcp"]
    assert "for everybody but the peers: 2049/udp (nfsd)" in run.call.notes[0]["text"]
    firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    put(machine.root, "/proc/net/tcp", "")  # the service is restarted just now
    again = firewall(machine, start="carry")
    assert not again.present()["changed"]
    assert again.call.notes == []


# keepalived's two sockets, for what comes and for its group; a ping; one that only sends.
RAW = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
  77: 00000000:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90001
  77: 120000E0:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90002
  66: 00000000:0001 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90003
 255: 00000000:00FF 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90004
"""


def talking(machine: Machine) -> Machine:
    """Nothing there but what waits for a protocol without ports."""
    bare(machine)
    for name in ("tcp", "tcp6", "udp", "udp6"):
        put(machine.root, "/proc/net/" + name, "")
    put(machine.root, "/proc/net/raw", RAW)
    return machine


def test_a_protocol_without_ports_is_cut_as_well(machine: Machine) -> None:
    """Two nodes that do not hear each other's VRRP would both take the address."""
    said = refused(talking(machine))
    assert "block reachable listeners: IP protocol 112 (an unknown process). Fix: open" in said
    assert "`firewall-offline-cmd --zone=public --add-protocol=112`" in said
    zone = '<zone><service name="ssh"/><protocol value="vrrp"/></zone>'
    put(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert firewall(machine, check=True).present()["changed"]


def test_carry_opens_a_protocol_without_ports(machine: Machine) -> None:
    left = {"meta": {"key": "l4proto"}}
    vrrp = {"match": {"op": "==", "left": left, "right": "vrrp"}}
    machine.table_after = [*kernel(), *(job(vrrp, family=family) for family in "46")]
    result = firewall(talking(machine), start="carry").present()
    assert result["ports"][-1] == "112/ip"
    assert '    <protocol value="112"/>' in firewalld.read_text_or_empty(
        str(machine.root) + JOB_FILE
    )
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    firewall(machine, start="carry").confirmed()
    machine.table = kernel()
    assert firewalld.find_ruleset_faults(kernel(), settings_of(machine, start="carry"))
    machine.table = machine.table_after
    assert not firewall(machine, start="carry").present()["changed"]


@pytest.mark.parametrize("unit", ["active", "inactive"])
def test_a_firewall_that_judged_before_is_started_as_ever(machine: Machine, unit: str) -> None:
    """It runs, or somebody has stopped what we made: that was shut when the node converged."""
    machine.units[firewall_peers.UNIT] = ("loaded", unit, "enabled")
    if unit == "inactive":
        put(machine.root, JOB_FILE, rendered()[JOB_FILE])
    run = firewall(bare(machine))
    assert run.present()["changed"]
    assert run.call.notes == []


def test_rules_taken_over_from_ufw_lose_nothing(machine: Machine) -> None:
    taken_over(bare(machine)).present()


def test_peers_only_names_what_peers_lose(machine: Machine) -> None:
    bare(machine).units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    put(machine.root, "/etc/firewalld/zones/public.xml", PUBLIC)
    machine.table_after = strict()
    peers = ["10.78.1.11", "10.78.1.12"]
    run = firewall(machine, check=True, mode="peers_only", peers=peers)
    run.present()
    assert [note["code"] for note in run.call.notes] == ["PF-210"]
    assert "8000/tcp (python3; 10.78.1.12 is connected), 8001/tcp" in run.call.notes[0]["text"]
    assert "2049" not in run.call.notes[0]["text"]  # nobody reached that
    put(machine.root, ZONE_FILE, OLD_ZONE)
    again = firewall(machine, check=True, mode="peers_only", peers=peers)
    again.present()
    assert again.call.notes == []
