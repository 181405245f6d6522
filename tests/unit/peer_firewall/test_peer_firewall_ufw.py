"""The peers' firewall: ufw's rules are carried over, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld,
    preserve,
    rollback,
    ufw,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine
from firewall_machine import (
    RULES,
    STOPPED,
    Machine,
    dport,
    firewall,
    journal,
    kernel,
    ours,
    put,
    refused,
    remembered,
    rule,
    taken_over,
    with_ufw,
)


def test_conflicting_firewalls_are_refused_at_once(machine: Machine) -> None:
    with_ufw(machine)
    put(
        machine.root, "/etc/firewalld/zones/work.xml", '<zone><source address="10.0.0.0/8"/></zone>'
    )
    machine.units = {
        firewall_peers.UNIT: ("masked", "inactive", "masked"),
        "nftables.service": ("loaded", "active", "enabled"),
    }
    assert "[PF-113]" not in refused(machine, ufw="refuse")  # a policy asks no zone
    text = refused(machine, ufw="refuse", mode="peers_only")
    for code in ("PF-110", "PF-111", "PF-112", "PF-113"):
        assert f"[{code}]" in text
    assert ours(machine) == []


def test_ufw_rules_that_would_be_lost_are_refused_unless_allowed(machine: Machine) -> None:
    with_ufw(machine, RULES)
    text = refused(machine)
    assert "[PF-122]" in text
    assert "in_eth0` (bound to an interface)" in text
    assert ours(machine) == []
    run = firewall(machine, ufw="discard")
    machine.table_after = [
        *kernel(),
        rule("filter_IN_policy_fullmesh-ufw_post", dport(8080), {"accept": None}),
        rule("filter_IN_policy_fullmesh-ufw_post", dport(22), {"accept": None}),
    ]
    assert run.present()["ufw"]
    assert "Not carried over, as configured" in run.call.notes[0]["text"]


SSH_FOR_SOME = "### tuple ### allow any 22 0.0.0.0/0 any 192.0.2.0/24 in\n"


def test_ssh_that_ufw_restricts_is_not_opened_to_all_unsaid(machine: Machine) -> None:
    with_ufw(machine)
    put(machine.root, "/etc/ufw/user.rules", SSH_FOR_SOME)
    assert "[PF-122]" in refused(machine)
    assert "ssh on 22/tcp over IPv4" in refused(machine)
    assert ours(machine) == []
    machine.table_after = [
        *kernel(),
        *(
            rule("filter_IN_policy_fullmesh-ufw_post", dport(22), {"accept": None})
            for _ in ("tcp", "udp")
        ),
    ]
    run = firewall(machine, ufw="discard")
    assert run.present()["ufw"]
    assert "ssh on 22/tcp over IPv4" in run.call.notes[0]["text"]


def test_a_zone_as_strict_as_ufw_may_take_over(machine: Machine) -> None:
    with_ufw(machine)
    put(machine.root, "/etc/ufw/user.rules", SSH_FOR_SOME)
    put(machine.root, "/etc/firewalld/zones/public.xml", "<zone/>")
    run = firewall(machine, check=True)
    assert run.present()["ufw"]
    assert not any("services/ssh.xml" in one["before_header"] for one in run.call.diff)


OPENED = "nft " + preserve.OPEN


def test_ufw_stops_before_firewalld_starts_behind_a_gate(machine: Machine) -> None:
    run = taken_over(machine)
    assert run.present()["ufw"]
    assert [note["code"] for note in run.call.notes] == ["PF-203"]
    calls = "\n".join(machine.calls)
    words = ["systemd-run", "nft -f", "ufw disable", "start firewalld", OPENED]
    places = [calls.index(word) for word in words]
    assert places == sorted(places)
    policy = firewalld.read_text_or_empty(
        str(machine.root) + "/etc/firewalld/policies/fullmesh-ufw.xml"
    )
    assert '<port port="8080" protocol="tcp"/>' in policy
    assert ufw.is_ufw_replaced(str(machine.root))
    assert ufw.was_ufw_loaded(str(machine.root))


def ready_for_undo(machine: Machine) -> None:
    """ufw was taken over, and firewalld runs."""
    taken_over(machine).present()
    firewall(machine).confirmed()
    put(machine.root, "/etc/ufw/ufw.conf", "# x\nENABLED=no\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    remembered(machine, active=False)


@pytest.mark.parametrize("undo", [False, True])
def test_a_gate_that_does_not_open_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, undo: bool
) -> None:
    """With it, nobody new gets in but by ssh."""
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (1, "Operation not permitted")
    )
    if undo:
        ready_for_undo(machine)
        act = firewall(machine).leaving
    else:
        act = taken_over(machine).present
    machine.fails = OPENED
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"\[PF-130\].*'Operation not permitted'.*nft"
    ):
        act()


def test_the_opening_of_the_gate_is_rehearsed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    arm = engine.arm

    def watched(*words: Any, **more: Any) -> None:
        told.append((words[4][-1], more["trials"]))
        arm(*words, **more)

    monkeypatch.setattr(engine, "arm", watched)
    taken_over(machine).present()
    assert told == [(preserve.build_unblock_command(), [preserve.build_unblock_trial()])]
    assert journal()["trials"] == [preserve.build_unblock_trial()]


@pytest.mark.parametrize("possible", [True, False])
def test_an_undo_opens_no_gate_that_it_cannot_close(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, possible: bool
) -> None:
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (127, "No module named 'nftables'")
    )
    ready_for_undo(machine)
    machine.calls.clear()
    run = machine.run

    def without(argv: list[str]) -> tuple[int, str]:
        lacks = argv[:2] == ["nft", "-f"] or argv[-1] == preserve.build_unblock_trial()
        return (127, "") if lacks and not possible else run(argv)

    machine.run = without  # type: ignore[method-assign]
    assert firewall(machine).leaving()["changed"]
    assert (preserve.build_unblock_command() in journal()["commands"]) is possible
    assert journal()["trials"] == [preserve.build_unblock_trial()] * possible
    assert (OPENED in machine.calls) is possible


@pytest.mark.parametrize("seconds", [0, 60])
@pytest.mark.parametrize("fails", ["start firewalld", "ufw disable", "firewall-cmd --state"])
def test_a_failed_takeover_reverts_before_traffic_is_allowed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, seconds: int, fails: str
) -> None:
    """Whatever is asked for: without the rollback the node would be left without any firewall."""
    armed: list[list[Any]] = []
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    arm = engine.arm

    def watched(*words: Any, **more: Any) -> None:
        armed.append(words[4])
        arm(*words, **more)

    monkeypatch.setattr(engine, "arm", watched)
    taken_over(machine, fails)
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match="Fullmesh restored the earlier state"
    ):
        firewall(machine, rollback_seconds=seconds).present()
    assert undone == ["peer_firewall"]
    assert "fullmesh_gate" in armed[0][-1]
    assert OPENED not in machine.calls


def test_a_failed_restore_is_reported(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {"faults": ["`x`: rc 1"]})
    machine.fails = "start firewalld"
    said = refused(machine)
    assert "[PF-117]" in said
    assert "could not be restored: `x`: rc 1." in said


def test_an_unattended_change_is_armed_until_proved(
    machine: Machine,
) -> None:
    result = firewall(machine, rollback_seconds=0).present()
    assert result["changed"]
    assert not result["armed"]
    calls = machine.commands()
    assert f"armed for {rollback.ALONE_SECONDS} s" in (Path(engine.STORE) / "log").read_text()
    assert calls.index("systemd-run") < calls.index("start firewalld")
    assert calls.index("start firewalld") < calls.rindex("stop fullmesh-rollback-peer-firewall")
    assert not (Path(engine.STORE) / "peer_firewall").exists()


def test_ufw_stays_on_if_no_rollback_can_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (127, "No module named 'nftables'")
    )
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"\[PF-125\] ufw was left on.*nftables"
    ):
        taken_over(machine, "nft -f").present()
    assert not any("ufw disable" in call for call in machine.calls)
    assert not any("start firewalld" in call for call in machine.calls)


def test_ufw_rules_that_are_not_in_the_kernel_are_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    run = taken_over(machine)
    machine.table_after = kernel()
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"PF-118.*0 of 2 rules carried over from ufw"
    ):
        run.present()


def test_ufw_that_does_not_stop_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-125\]"):
        taken_over(machine, "ufw disable").present()
    assert not any("start firewalld" in call for call in machine.calls)


def test_after_the_takeover_the_policy_stays_and_undo_restores_ufw(machine: Machine) -> None:
    ready_for_undo(machine)
    assert not firewall(machine).present()["changed"]
    remembered(machine, active=False)
    machine.calls.clear()
    assert firewall(machine).leaving()["changed"]
    calls = "\n".join(machine.calls)
    words = ["nft -f", STOPPED, "ufw --force enable", OPENED]
    places = [calls.index(word) for word in words]
    assert places == sorted(places)
    assert (
        firewalld.read_text_or_empty(str(machine.root) + "/etc/ufw/ufw.conf")
        == "# x\nENABLED = yes\n"
    )
    machine.answers["/usr/sbin/ufw"] = "Status: active\n"
    assert not firewall(machine).left()["changed"]


def test_if_firewalld_ran_before_ufw_returns_after_undo(machine: Machine) -> None:
    taken_over(machine).present()
    firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    remembered(machine, active=True)
    assert not firewall(machine).leaving()["changed"]
    assert firewall(machine, check=True).left()["changed"]
    machine.calls.clear()
    assert firewall(machine).left()["changed"]
    assert "ufw --force enable" in machine.commands()
