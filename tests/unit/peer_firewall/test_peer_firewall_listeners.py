"""The peers' firewall: a node's listeners before its firewall starts."""

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
    build_job_rule,
    build_ruleset,
    build_ruleset_of_zone,
    expect_refusal,
    list_own_files,
    make_firewall,
    match_tcp_port,
    match_udp_port,
    prepare_ufw_takeover,
    remove_firewall,
    render_files,
    write_file,
)


def read_settings(machine: Machine, **settings: Any) -> dict[str, Any]:
    observed = make_firewall(machine, **settings).observed
    observed.read_state()
    return cast("dict[str, Any]", observed.build_settings())


def test_first_start_stops_and_names_blocked_listeners(machine: Machine) -> None:
    message = expect_refusal(remove_firewall(machine))
    assert (
        "[PF-129] No firewall runs on this node, and firewalld's zone public would block reachable listeners: "
        "2049/udp (nfsd), 8000/tcp (python3; 10.78.1.12 is connected), 8001/tcp (python3), "
        "8003/tcp (an unknown process). "
    ) in message
    assert list_own_files(machine) == []
    assert "start firewalld" not in machine.commands()


def test_first_start_stops_before_the_package_is_installed(machine: Machine) -> None:
    remove_firewall(machine).units = {}
    for name in ("zones/public.xml", "zones/trusted.xml"):
        os.unlink(f"{machine.root}/usr/lib/firewalld/{name}")
    os.unlink(f"{machine.root}/etc/firewalld/zones/public.xml")
    message = expect_refusal(machine)
    assert "[PF-129]" in message
    assert "22/tcp" not in message


@pytest.mark.parametrize(
    ("zone", "blocked"),
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
    machine: Machine, zone: str, blocked: str
) -> None:
    remove_firewall(machine)
    port = '<port port="8000" protocol="tcp"/>'
    write_file(machine.root, "/etc/firewalld/services/base.xml", f"<service>{port}</service>")
    site = '<service><include service="base"/><port port="2049" protocol="udp"/></service>'
    write_file(machine.root, "/etc/firewalld/services/site.xml", site)
    write_file(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert f"would block reachable listeners: {blocked} " in expect_refusal(machine)


def test_zone_of_each_interface_is_used(machine: Machine) -> None:
    """8003 is bound to eth1's address, and eth1 is in a zone that accepts everything."""
    remove_firewall(machine)
    zone = '<zone target="ACCEPT"><interface name="eth1"/></zone>'
    write_file(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    message = expect_refusal(machine)
    assert "8000/tcp" in message  # on eth0 as well
    assert "8003/tcp" not in message


def test_cut_continues_and_names_blocked_listeners(machine: Machine) -> None:
    run = make_firewall(remove_firewall(machine), start="cut")
    assert run.present()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-211"]
    assert "Its start blocks for everybody: 2049/udp (nfsd), 8000/tcp" in run.call.notes[0]["text"]
    assert not make_firewall(machine, start="cut").observed.is_first_start()


def test_carry_opens_listeners_to_the_peers(machine: Machine) -> None:
    opened_ports = [
        (2049, match_udp_port),
        (8000, match_tcp_port),
        (8001, match_tcp_port),
        (8003, match_tcp_port),
    ]
    rules = [
        build_job_rule(match(port), family=family)
        for family in "46"
        for port, match in opened_ports
    ]
    remove_firewall(machine).table_after = [*build_ruleset(), *rules]
    run = make_firewall(machine, start="carry")
    result = run.present()
    assert result["ports"][-4:] == ["2049/udp", "8000/tcp", "8001/tcp", "8003/tcp"]
    assert "for everybody but the peers: 2049/udp (nfsd)" in run.call.notes[0]["text"]
    make_firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    write_file(machine.root, "/proc/net/tcp", "")  # the service is restarting
    again = make_firewall(machine, start="carry")
    assert not again.present()["changed"]
    assert again.call.notes == []


# keepalived's two sockets, one for input and one for its group. A ping. A socket that only sends.
RAW = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
  77: 00000000:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90001
  77: 120000E0:0070 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90002
  66: 00000000:0001 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90003
 255: 00000000:00FF 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 90004
"""


def listen_on_raw_protocols(machine: Machine) -> Machine:
    """Listen on protocols without ports only."""
    remove_firewall(machine)
    for name in ("tcp", "tcp6", "udp", "udp6"):
        write_file(machine.root, "/proc/net/" + name, "")
    write_file(machine.root, "/proc/net/raw", RAW)
    return machine


def test_protocol_without_ports_is_reported(machine: Machine) -> None:
    """Without each other's VRRP packets, two nodes would both take the address."""
    message = expect_refusal(listen_on_raw_protocols(machine))
    assert "block reachable listeners: IP protocol 112 (an unknown process). Fix: open" in message
    assert "`firewall-offline-cmd --zone=public --add-protocol=112`" in message
    zone = '<zone><service name="ssh"/><protocol value="vrrp"/></zone>'
    write_file(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert make_firewall(machine, check=True).present()["changed"]


def test_carry_opens_protocol_without_ports(machine: Machine) -> None:
    left = {"meta": {"key": "l4proto"}}
    vrrp = {"match": {"op": "==", "left": left, "right": "vrrp"}}
    machine.table_after = [
        *build_ruleset(),
        *(build_job_rule(vrrp, family=family) for family in "46"),
    ]
    result = make_firewall(listen_on_raw_protocols(machine), start="carry").present()
    assert result["ports"][-1] == "112/ip"
    assert '    <protocol value="112"/>' in firewalld.read_text_or_empty(
        str(machine.root) + JOB_FILE
    )
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    make_firewall(machine, start="carry").confirmed()
    machine.table = build_ruleset()
    assert firewalld.find_ruleset_faults(build_ruleset(), read_settings(machine, start="carry"))
    machine.table = machine.table_after
    assert not make_firewall(machine, start="carry").present()["changed"]


@pytest.mark.parametrize("unit", ["active", "inactive"])
def test_configured_firewall_starts_without_a_question(machine: Machine, unit: str) -> None:
    """The firewall runs, or the user has stopped it: its ports were closed when the node was configured."""
    machine.units[firewall_peers.UNIT] = ("loaded", unit, "enabled")
    if unit == "inactive":
        write_file(machine.root, JOB_FILE, render_files()[JOB_FILE])
    run = make_firewall(remove_firewall(machine))
    assert run.present()["changed"]
    assert run.call.notes == []


def test_takeover_of_ufw_blocks_no_listener(machine: Machine) -> None:
    prepare_ufw_takeover(remove_firewall(machine)).present()


def test_peers_only_names_ports_that_peers_lose(machine: Machine) -> None:
    remove_firewall(machine).units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    write_file(machine.root, "/etc/firewalld/zones/public.xml", PUBLIC)
    machine.table_after = build_ruleset_of_zone()
    peers = ["10.78.1.11", "10.78.1.12"]
    run = make_firewall(machine, check=True, mode="peers_only", peers=peers)
    run.present()
    assert [note["code"] for note in run.call.notes] == ["PF-210"]
    assert "8000/tcp (python3; 10.78.1.12 is connected), 8001/tcp" in run.call.notes[0]["text"]
    assert "2049" not in run.call.notes[0]["text"]  # no peer was connected to it
    write_file(machine.root, ZONE_FILE, OLD_ZONE)
    again = make_firewall(machine, check=True, mode="peers_only", peers=peers)
    again.present()
    assert again.call.notes == []
