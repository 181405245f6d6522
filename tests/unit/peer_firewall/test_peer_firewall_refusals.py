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
    build_foreign_rules,
    build_job_rule,
    build_ruleset,
    expect_refusal,
    list_own_files,
    make_firewall,
    match_udp_port,
    remove_firewall,
    write_file,
)


def test_foreign_rule_is_refused_before_and_after_the_start(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.foreign_rules = build_foreign_rules(29500)
    assert "[PF-124] table inet mine, chain in (hook input), handle 4" in expect_refusal(machine)
    assert list_own_files(machine) == []
    machine.foreign_rules = []
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    run = machine.run

    def start_with_foreign_rule(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        machine.foreign_rules = (
            build_foreign_rules(50005)
            if "start firewalld" in " ".join(argv)
            else machine.foreign_rules
        )
        return rc, out

    machine.run = start_with_foreign_rule  # type: ignore[method-assign]
    assert "[PF-124]" in expect_refusal(machine)
    assert undone == ["peer_firewall"]


def test_redirected_port_is_accepted_with_carry(machine: Machine) -> None:
    """A container's published port: podman listens on it, and netavark's rule redirects it to the container."""
    remove_firewall(machine).foreign_rules = build_foreign_rules(8000)
    assert make_firewall(machine, check=True, start="carry").present()["changed"]
    machine.foreign_rules = build_foreign_rules(29500)
    with pytest.raises(firewall_peers.FirewallRefusedError, match="PF-124"):
        make_firewall(machine, check=True, start="carry").present()


@pytest.mark.parametrize("unit", ["active", "inactive"])
def test_iptables_backend_is_refused(machine: Machine, unit: str) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", unit, "enabled")
    # no other code is reported, because that would need the other backend
    remove_firewall(machine).foreign_rules = build_foreign_rules(29500)
    write_file(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=iptables\n")
    assert expect_refusal(machine) == (
        "[PF-126] /etc/firewalld/firewalld.conf has FirewallBackend=iptables, which is not supported. "
        "Fix: set FirewallBackend=nftables there and run `systemctl try-restart firewalld`."
    )
    assert list_own_files(machine) == []
    write_file(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=nftables\n")
    assert "PF-126" not in expect_refusal(machine)


def test_undo_works_with_the_iptables_backend(machine: Machine) -> None:
    write_file(machine.root, "/etc/firewalld/firewalld.conf", "FirewallBackend=iptables\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = make_firewall(machine, state="reloaded")
    assert run.reloaded()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-208"]
    assert "iptables rules" in run.call.notes[0]["text"]


@pytest.mark.parametrize(
    ("version", "supported"), [("0.6.3\n", False), ("0.9.0\n", True), ("1.3.3\n", True), ("", True)]
)
def test_a_firewalld_without_policies_is_refused(
    machine: Machine, version: str, supported: bool
) -> None:
    machine.answers["firewall-offline-cmd"] = version
    if supported:
        assert make_firewall(machine).present()["changed"]
    else:
        assert "[PF-127] firewalld 0.6.3" in expect_refusal(machine)
        assert list_own_files(machine) == []


def test_foreign_rules_that_cannot_be_restored_are_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    saved = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 7000 -j ACCEPT\nCOMMIT\n"
    machine.answers["iptables-save"] = saved
    run = machine.run

    def start_and_flush(argv: list[str]) -> tuple[int, str]:
        if "start firewalld" in " ".join(argv):
            machine.answers["iptables-save"] = "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
            machine.fails = "iptables-restore"
        return run(argv)

    machine.run = start_and_flush  # type: ignore[method-assign]
    assert "[PF-128]" in expect_refusal(machine)
    machine.fails = ""
    preserve.write_root_file(preserve.PLACE + "4", saved)
    machine.fails = "iptables-restore"
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-128\]"):
        make_firewall(machine).left()


@pytest.mark.parametrize(
    ("rdma", "layer", "opened"),
    [
        ("auto", "Ethernet", True),
        ("auto", "InfiniBand", False),
        ("auto", "", False),
        ("true", "", True),
        ("false", "Ethernet", False),
    ],
)
def test_roce_port_is_opened_if_a_nic_supports_it(
    machine: Machine, rdma: str, layer: str, opened: bool
) -> None:
    if layer:
        write_file(machine.root, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", layer + "\n")
    roce = [build_job_rule(match_udp_port(4791), family=family) for family in "46"]
    machine.table_after = [*build_ruleset(), *roce] if opened else build_ruleset()
    result = make_firewall(machine, rdma=rdma).present()
    assert ("4791/udp" in result["ports"]) is opened
    policy = firewalld.read_text_or_empty(str(machine.root) + JOB_FILE)
    assert ('<port port="4791" protocol="udp"/>' in policy) is opened
