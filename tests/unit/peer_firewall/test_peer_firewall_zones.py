"""The peers' firewall: interfaces in zones of others."""

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
    firewall,
    put,
    refused,
    strict,
)


@pytest.mark.parametrize("place", ["file", "runtime", "NetworkManager", "ifcfg"])
def test_an_interface_of_another_zone_is_refused_by_name(machine: Machine, place: str) -> None:
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = machine.run
    if place == "file":
        zone = '<zone target="ACCEPT"><interface name="eth1"/></zone>'
        put(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    if place == "ifcfg":
        put(
            machine.root,
            "/etc/sysconfig/network-scripts/ifcfg-eth1",
            'DEVICE=eth1\nZONE="trusted"\n',
        )

    def answer_(argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        if place == "runtime" and "get-zone-of-interface=eth1" in line:
            return 0, "trusted\n"
        if place == "NetworkManager" and argv[0] == "nmcli":
            return 0, "cluster\n" if "device" in argv else "trusted\n"
        return (2, "no zone") if "get-zone" in line or argv[0] == "nmcli" else run(argv)

    machine.run = answer_  # type: ignore[method-assign]
    text = refused(machine, mode="peers_only")
    assert "[PF-123] the cluster's interface eth1 is in zone trusted" in text
    # A policy takes nothing from that zone. That it lets everybody in is said.
    run_ = firewall(machine, check=True)
    run_.present()
    assert [note["code"] for note in run_.call.notes] == ["PF-209"]
    assert "eth1 is in zone trusted, which opens 29500/tcp" in run_.call.notes[0]["text"]


def test_every_link_of_the_cluster_is_looked_at(machine: Machine) -> None:
    machine.answers["ip"] = (
        "2: eth1    inet 10.0.0.11/24 scope global eth1\n3: eth2    inet6 fd00::11/64 scope global\n"
    )
    zone = '<zone><interface name="eth2"/></zone>'
    put(machine.root, "/etc/firewalld/zones/trusted.xml", zone)
    text = refused(machine, mode="peers_only")
    assert "[PF-123] the cluster's interface eth2 is in zone trusted (its file)" in text
    assert "interface eth1" not in text


def test_the_default_zone_may_have_the_interface(machine: Machine) -> None:
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    zone = PUBLIC.replace("</zone>", '<interface name="eth1"/></zone>')
    put(machine.root, "/etc/firewalld/zones/public.xml", zone)
    assert firewall(machine).present()["changed"]


def test_our_zone_that_will_be_removed_has_no_owner(machine: Machine) -> None:
    """NetworkManager's profile names the zone that earlier versions made."""
    machine.answers["ip"] = "2: eth1    inet 10.0.0.11/24 scope global eth1\n"
    put(machine.root, "/etc/sysconfig/network-scripts/ifcfg-eth1", "ZONE=fullmesh\n")
    assert "[PF-123] the cluster's interface eth1 is in zone fullmesh (ifcfg-eth1)" in refused(
        machine
    )


def test_an_older_versions_node_migrates_in_one_reload_and_reverts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its zone goes and the policy comes between one reload and the next; the rollback knows both files."""
    armed: list[list[str]] = []
    arm = engine.arm

    def watched(*words: Any, **more: Any) -> None:
        armed.append(list(words[3]))
        arm(*words, **more)

    monkeypatch.setattr(engine, "arm", watched)
    put(machine.root, ZONE_FILE, OLD_ZONE)
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = strict()
    run = firewall(machine)
    assert run.present()["changed"]
    assert not os.path.exists(str(machine.root) + ZONE_FILE)
    assert {ZONE_FILE, JOB_FILE} <= set(armed[0])
    assert machine.commands().count("firewall-cmd --reload") == 1
    assert run.call.notes == []
    assert not firewall(machine).present()["changed"]
