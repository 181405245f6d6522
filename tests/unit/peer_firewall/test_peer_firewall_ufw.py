"""The peers' firewall: ufw's rules are carried over or rejected."""

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
    STOP_COMMAND,
    Machine,
    build_rule,
    build_ruleset,
    enable_ufw,
    expect_refusal,
    list_own_files,
    make_firewall,
    match_tcp_port,
    prepare_ufw_takeover,
    read_journal,
    save_undo_point,
    write_file,
)


def test_all_conflicting_firewalls_are_refused(machine: Machine) -> None:
    enable_ufw(machine)
    write_file(
        machine.root, "/etc/firewalld/zones/work.xml", '<zone><source address="10.0.0.0/8"/></zone>'
    )
    machine.units = {
        firewall_peers.UNIT: ("masked", "inactive", "masked"),
        "nftables.service": ("loaded", "active", "enabled"),
    }
    assert "[PF-113]" not in expect_refusal(
        machine, ufw="refuse"
    )  # a policy does not depend on zones
    text = expect_refusal(machine, ufw="refuse", mode="peers_only")
    for code in ("PF-110", "PF-111", "PF-112", "PF-113"):
        assert f"[{code}]" in text
    assert list_own_files(machine) == []


def test_ufw_rules_that_would_be_lost_are_refused_unless_allowed(machine: Machine) -> None:
    enable_ufw(machine, RULES)
    text = expect_refusal(machine)
    assert "[PF-122]" in text
    assert "in_eth0` (bound to an interface)" in text
    assert list_own_files(machine) == []
    run = make_firewall(machine, ufw="discard")
    machine.table_after = [
        *build_ruleset(),
        build_rule("filter_IN_policy_fullmesh-ufw_post", match_tcp_port(8080), {"accept": None}),
        build_rule("filter_IN_policy_fullmesh-ufw_post", match_tcp_port(22), {"accept": None}),
    ]
    assert run.present()["ufw"]
    assert "Not carried over, as configured" in run.call.notes[0]["text"]


SSH_FOR_SOME = "### tuple ### allow any 22 0.0.0.0/0 any 192.0.2.0/24 in\n"


def test_restricted_ssh_is_not_opened_without_a_note(machine: Machine) -> None:
    enable_ufw(machine)
    write_file(machine.root, "/etc/ufw/user.rules", SSH_FOR_SOME)
    assert "[PF-122]" in expect_refusal(machine)
    assert "ssh on 22/tcp over IPv4" in expect_refusal(machine)
    assert list_own_files(machine) == []
    machine.table_after = [
        *build_ruleset(),
        *(
            build_rule("filter_IN_policy_fullmesh-ufw_post", match_tcp_port(22), {"accept": None})
            for _ in ("tcp", "udp")
        ),
    ]
    run = make_firewall(machine, ufw="discard")
    assert run.present()["ufw"]
    assert "ssh on 22/tcp over IPv4" in run.call.notes[0]["text"]


def test_zone_as_strict_as_ufw_is_accepted(machine: Machine) -> None:
    enable_ufw(machine)
    write_file(machine.root, "/etc/ufw/user.rules", SSH_FOR_SOME)
    write_file(machine.root, "/etc/firewalld/zones/public.xml", "<zone/>")
    run = make_firewall(machine, check=True)
    assert run.present()["ufw"]
    assert not any("services/ssh.xml" in one["before_header"] for one in run.call.diff)


OPEN_GATE = "nft " + preserve.OPEN


def test_gate_blocks_traffic_during_the_takeover(machine: Machine) -> None:
    run = prepare_ufw_takeover(machine)
    assert run.present()["ufw"]
    assert [note["code"] for note in run.call.notes] == ["PF-203"]
    calls = "\n".join(machine.calls)
    expected = ["systemd-run", "nft -f", "ufw disable", "start firewalld", OPEN_GATE]
    positions = [calls.index(word) for word in expected]
    assert positions == sorted(positions)
    policy = firewalld.read_text_or_empty(
        str(machine.root) + "/etc/firewalld/policies/fullmesh-ufw.xml"
    )
    assert '<port port="8080" protocol="tcp"/>' in policy
    assert ufw.is_ufw_replaced(str(machine.root))
    assert ufw.was_ufw_loaded(str(machine.root))


def take_over_ufw(machine: Machine) -> None:
    """Take ufw over, with firewalld running."""
    prepare_ufw_takeover(machine).present()
    make_firewall(machine).confirmed()
    write_file(machine.root, "/etc/ufw/ufw.conf", "# x\nENABLED=no\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    save_undo_point(machine, active=False)


@pytest.mark.parametrize("undo", [False, True])
def test_failed_opening_of_the_gate_is_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, undo: bool
) -> None:
    """While the gate exists, new connections are blocked, except ssh."""
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (1, "Operation not permitted")
    )
    if undo:
        take_over_ufw(machine)
        act = make_firewall(machine).leaving
    else:
        act = prepare_ufw_takeover(machine).present
    machine.fails = OPEN_GATE
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"\[PF-130\].*'Operation not permitted'.*nft"
    ):
        act()


def test_opening_of_the_gate_is_tried_first(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rollback_commands: list[Any] = []
    arm = engine.arm

    def record_arming(*expected: Any, **more: Any) -> None:
        rollback_commands.append((expected[4][-1], more["trials"]))
        arm(*expected, **more)

    monkeypatch.setattr(engine, "arm", record_arming)
    prepare_ufw_takeover(machine).present()
    assert rollback_commands == [
        (preserve.build_unblock_command(), [preserve.build_unblock_trial()])
    ]
    assert read_journal()["trials"] == [preserve.build_unblock_trial()]


@pytest.mark.parametrize("possible", [True, False])
def test_undo_uses_a_gate_only_if_possible(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, possible: bool
) -> None:
    monkeypatch.setattr(
        firewalld, "run_libnftables", lambda command: (127, "No module named 'nftables'")
    )
    take_over_ufw(machine)
    machine.calls.clear()
    run = machine.run

    def build_ruleset_without(argv: list[str]) -> tuple[int, str]:
        unavailable = argv[:2] == ["nft", "-f"] or argv[-1] == preserve.build_unblock_trial()
        return (127, "") if unavailable and not possible else run(argv)

    machine.run = build_ruleset_without  # type: ignore[method-assign]
    assert make_firewall(machine).leaving()["changed"]
    assert (preserve.build_unblock_command() in read_journal()["commands"]) is possible
    assert read_journal()["trials"] == [preserve.build_unblock_trial()] * possible
    assert (OPEN_GATE in machine.calls) is possible


@pytest.mark.parametrize("seconds", [0, 60])
@pytest.mark.parametrize("fails", ["start firewalld", "ufw disable", "firewall-cmd --state"])
def test_a_failed_takeover_reverts_before_traffic_is_allowed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, seconds: int, fails: str
) -> None:
    """A takeover always has a rollback, because a failure would leave the node without a firewall."""
    armed: list[list[Any]] = []
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    arm = engine.arm

    def record_arming(*expected: Any, **more: Any) -> None:
        armed.append(expected[4])
        arm(*expected, **more)

    monkeypatch.setattr(engine, "arm", record_arming)
    prepare_ufw_takeover(machine, fails)
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match="Fullmesh restored the earlier state"
    ):
        make_firewall(machine, rollback_seconds=seconds).present()
    assert undone == ["peer_firewall"]
    assert "fullmesh_gate" in armed[0][-1]
    assert OPEN_GATE not in machine.calls


def test_a_failed_restore_is_reported(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {"faults": ["`x`: rc 1"]})
    machine.fails = "start firewalld"
    message = expect_refusal(machine)
    assert "[PF-117]" in message
    assert "could not be restored: `x`: rc 1." in message


def test_unattended_change_is_armed_until_checked(machine: Machine) -> None:
    result = make_firewall(machine, rollback_seconds=0).present()
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
        prepare_ufw_takeover(machine, "nft -f").present()
    assert not any("ufw disable" in call for call in machine.calls)
    assert not any("start firewalld" in call for call in machine.calls)


def test_ufw_rules_that_are_not_in_the_kernel_are_an_error(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    run = prepare_ufw_takeover(machine)
    machine.table_after = build_ruleset()
    with pytest.raises(
        firewall_peers.FirewallRefusedError, match=r"PF-118.*0 of 2 rules carried over from ufw"
    ):
        run.present()


def test_failed_stop_of_ufw_is_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-125\]"):
        prepare_ufw_takeover(machine, "ufw disable").present()
    assert not any("start firewalld" in call for call in machine.calls)


def test_after_the_takeover_the_policy_stays_and_undo_restores_ufw(machine: Machine) -> None:
    take_over_ufw(machine)
    assert not make_firewall(machine).present()["changed"]
    save_undo_point(machine, active=False)
    machine.calls.clear()
    assert make_firewall(machine).leaving()["changed"]
    calls = "\n".join(machine.calls)
    expected = ["nft -f", STOP_COMMAND, "ufw --force enable", OPEN_GATE]
    positions = [calls.index(word) for word in expected]
    assert positions == sorted(positions)
    assert (
        firewalld.read_text_or_empty(str(machine.root) + "/etc/ufw/ufw.conf")
        == "# x\nENABLED = yes\n"
    )
    machine.answers["/usr/sbin/ufw"] = "Status: active\n"
    assert not make_firewall(machine).left()["changed"]


def test_undo_enables_ufw_if_firewalld_ran_before(machine: Machine) -> None:
    prepare_ufw_takeover(machine).present()
    make_firewall(machine).confirmed()
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.answers["/usr/sbin/ufw"] = "Status: inactive\n"
    save_undo_point(machine, active=True)
    assert not make_firewall(machine).leaving()["changed"]
    assert make_firewall(machine, check=True).left()["changed"]
    machine.calls.clear()
    assert make_firewall(machine).left()["changed"]
    assert "ufw --force enable" in machine.commands()
