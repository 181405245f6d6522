"""The peers' firewall: interfaces in foreign zones."""

from __future__ import annotations

import os
from typing import Any

import pytest
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine
from firewall_machine import (
    JOB_FILE,
    OLD_ZONE,
    PUBLIC,
    ZONE_FILE,
    Machine,
    build_ruleset_of_zone,
    expect_refusal,
    make_firewall,
    write_file,
)


@pytest.mark.parametrize("source", ["file", "runtime", "NetworkManager", "ifcfg"])
def test_an_interface_of_another_zone_is_refused_by_name(machine: Machine, source: str) -> None:
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = machine.run
    if source == "file":
        zone = '<zone target="ACCEPT"><interface name="eth1"/></zone>'
        write_file(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    if source == "ifcfg":
        write_file(
            machine.root,
            "/etc/sysconfig/network-scripts/ifcfg-eth1",
            'DEVICE=eth1\nZONE="trusted"\n',
        )

    def run_with_zone(argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        if source == "runtime" and "get-zone-of-interface=eth1" in line:
            return 0, "trusted\n"
        if source == "NetworkManager" and argv[0] == "nmcli":
            return 0, "cluster\n" if "device" in argv else "trusted\n"
        return (2, "no zone") if "get-zone" in line or argv[0] == "nmcli" else run(argv)

    machine.run = run_with_zone  # type: ignore[method-assign]
    text = expect_refusal(machine, mode="peers_only")
    assert "[PF-123] The cluster's interface eth1 is in zone trusted" in text
    # A policy does not depend on that zone. A note says that the zone accepts everything.
    preview = make_firewall(machine, check=True)
    preview.present()
    assert [note["code"] for note in preview.call.notes] == ["PF-209"]
    assert "eth1 is in zone trusted, which opens 29500/tcp" in preview.call.notes[0]["text"]


def test_every_cluster_interface_is_checked(machine: Machine) -> None:
    machine.answers["ip"] = (
        "2: eth1    inet 10.0.0.11/24 scope global eth1\n3: eth2    inet6 fd00::11/64 scope global\n"
    )
    zone = '<zone><interface name="eth2"/></zone>'
    write_file(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    text = expect_refusal(machine, mode="peers_only")
    assert "[PF-123] The cluster's interface eth2 is in zone trusted (its file)" in text
    assert "interface eth1" not in text


def test_the_default_zone_may_have_the_interface(machine: Machine) -> None:
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    zone = PUBLIC.replace("</zone>", '<interface name="eth1"/></zone>')
    write_file(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert make_firewall(machine).present()["changed"]


def test_interface_in_the_old_zone_is_refused(machine: Machine) -> None:
    """NetworkManager's profile names the zone of earlier versions."""
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    write_file(machine.root, "/etc/sysconfig/network-scripts/ifcfg-eth1", "ZONE=fullmesh\n")
    assert (
        "[PF-123] The cluster's interface eth1 is in zone fullmesh (ifcfg-eth1)"
        in expect_refusal(machine)
    )


def test_older_node_migrates_in_one_reload(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reload removes the zone and adds the policy. The rollback covers both files."""
    armed: list[list[str]] = []
    arm = engine.arm

    def record_arming(*words: Any, **more: Any) -> None:
        armed.append(list(words[3]))
        arm(*words, **more)

    monkeypatch.setattr(engine, "arm", record_arming)
    write_file(machine.root, ZONE_FILE, OLD_ZONE)
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = build_ruleset_of_zone()
    run = make_firewall(machine)
    assert run.present()["changed"]
    assert not os.path.exists(str(machine.root) + ZONE_FILE)
    assert {ZONE_FILE, JOB_FILE} <= set(armed[0])
    assert machine.commands().count("firewall-cmd --reload") == 1
    assert run.call.notes == []
    assert not make_firewall(machine).present()["changed"]
