"""The peers' firewall: firewalls that cannot be changed safely."""

from __future__ import annotations

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld,
    preserve,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine
from firewall_machine import (
    JOB_FILE,
    Machine,
    bare,
    firewall,
    job,
    kernel,
    others,
    ours,
    put,
    refused,
    udp,
)


def test_a_rule_beside_firewalld_is_refused_before_and_found_after(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.others = others(29500)
    assert "[PF-124] table inet mine, chain in (hook input), handle 4" in refused(machine)
    assert ours(machine) == []
    machine.others = []
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    run = machine.run

    def late(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        machine.others = others(50005) if "start firewalld" in " ".join(argv) else machine.others
        return rc, out

    machine.run = late  # type: ignore[method-assign]
    assert "[PF-124]" in refused(machine)
    assert undone == ["peer_firewall"]


def test_a_carried_port_that_is_redirected_is_accepted(
    machine: Machine,
) -> None:
    """A container's published port: podman listens on it, and netavark's rule leads it into the container."""
    bare(machine).others = others(8000)
    assert firewall(machine, check=True, start="carry").present()["changed"]
    machine.others = others(29500)
    with pytest.raises(firewall_peers.FirewallRefusedError, match="PF-124"):
        firewall(machine, check=True, start="carry").present()


@pytest.mark.parametrize("unit", ["active", "inactive"])
def test_the_iptables_backend_is_refused_before_any_change(machine: Machine, unit: str) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", unit, "enabled")
    bare(machine).others = others(
        29500
    )  # nothing else is said: it would be read from the other backend
    put(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=iptables\n")
    assert refused(machine) == (
        "[PF-126] /etc/firewalld/firewalld.conf has FirewallBackend=iptables, which is not supported. "
        "Fix: set FirewallBackend=nftables there and run `systemctl try-restart firewalld`."
    )
    assert ours(machine) == []
    put(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=nftables\n")
    assert "PF-126" not in refused(machine)


def test_an_undo_works_with_the_iptables_backend(machine: Machine) -> None:
    put(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=iptables\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = firewall(machine, state="reloaded")
    assert run.reloaded()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-208"]
    assert "iptables rules" in run.call.notes[0]["text"]


@pytest.mark.parametrize(
    ("said", "fine"), [("0.6.3\n", False), ("0.9.0\n", True), ("1.3.3\n", True), ("", True)]
)
def test_a_firewalld_without_policies_is_refused(machine: Machine, said: str, fine: bool) -> None:
    machine.answers["firewall-offline-cmd"] = said
    if fine:
        assert firewall(machine).present()["changed"]
    else:
        assert "[PF-127] firewalld 0.6.3" in refused(machine)
        assert ours(machine) == []


def test_foreign_rules_that_cannot_be_restored_are_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    saved = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 7000 -j ACCEPT\nCOMMIT\n"
    machine.answers["iptables-save"] = saved
    run = machine.run

    def flushing(argv: list[str]) -> tuple[int, str]:
        if "start firewalld" in " ".join(argv):
            machine.answers["iptables-save"] = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
            machine.fails = "iptables-restore"
        return run(argv)

    machine.run = flushing  # type: ignore[method-assign]
    assert "[PF-128]" in refused(machine)
    machine.fails = ""
    preserve.write_root_file(preserve.PLACE + "4", saved)
    machine.fails = "iptables-restore"
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-128\]"):
        firewall(machine).left()


@pytest.mark.parametrize(
    ("rdma", "layer", "wanted"),
    [
        ("auto", "Ethernet", True),
        ("auto", "InfiniBand", False),
        ("auto", "", False),
        ("true", "", True),
        ("false", "Ethernet", False),
    ],
)
def test_roce_gets_its_port_where_a_card_has_it(
    machine: Machine, rdma: str, layer: str, wanted: bool
) -> None:
    if layer:
        put(machine.root, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", layer + "\n")
    roce = [job(udp(4791), family=family) for family in "46"]
    machine.table_after = [*kernel(), *roce] if wanted else kernel()
    result = firewall(machine, rdma=rdma).present()
    assert ("4791/udp" in result["ports"]) is wanted
    policy = firewalld.read_text_or_empty(str(machine.root) + JOB_FILE)
    assert ('<port port="4791" protocol="udp"/>' in policy) is wanted
