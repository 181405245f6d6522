"""The peers' firewall: SELinux denials and failing steps."""

from __future__ import annotations

import pytest
from ansible.module_utils.fullmesh.firewall import (
    denials,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine
from firewall_machine import (
    AUDIT,
    STOP_COMMAND,
    Machine,
    build_ruleset_without,
    expect_refusal,
    make_firewall,
    write_file,
)

# As the virtual machines of tests/vm log them. Their domain of firewalld is permissive.
READ = (
    'AVC avc:  denied  { search } for  pid=239 comm="firewalld" name="root" dev="vda" ino=767 scontext='
    "system_u:system_r:firewalld_t:s0 tcontext=unconfined_u:object_r:user_home_dir_t:s0 tclass=dir permissive=1"
)


SEND = (
    "USER_AVC pid=214 uid=100 auid=4294967295 ses=4294967295 subj=system_u:system_r:system_dbusd_t:s0 "
    "msg='avc:  denied  { send_msg } for msgtype=method_return dest=:1.51 spid=239 tpid=665 "
    "scontext=system_u:system_r:firewalld_t:s0 tcontext=unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023 "
    "tclass=dbus permissive=1"
)


OTHER = "AVC avc:  denied  { read } for  pid=9 scontext=u:r:chronyd_t:s0 tcontext=u:object_r:etc_t:s0 tclass=file"


DENIED = {
    READ.replace("=1", "=0"): "firewalld_t may not search a dir of user_home_dir_t",
    SEND.replace(
        "permissive=1", "permissive=0"
    ): "firewalld_t may not send_msg a dbus of unconfined_t",
    READ: "",
    SEND: "",
    OTHER: "",
    "something else": "",
}


def set_enforcing(machine: Machine, value: str = "1\n") -> None:
    write_file(machine.root, denials.ENFORCE, value)


@pytest.mark.parametrize(("line", "denial"), DENIED.items())
def test_only_denials_of_firewalld_are_reported(machine: Machine, line: str, denial: str) -> None:
    def run(argv: list[str]) -> tuple[int, str]:
        assert argv[0] != "journalctl" or "--since=@1000" in argv
        return (0, f"{line}\n{line}\n") if argv[0] == "journalctl" else (127, "")

    set_enforcing(machine)
    expected = [denial] if denial else []
    assert denials.list_denials("firewalld", run, 1000.4, str(machine.root)) == expected
    set_enforcing(machine, "0\n")
    assert denials.list_denials("firewalld", run, 1000.4, str(machine.root)) == []


def test_only_new_lines_of_the_audit_log_are_read(machine: Machine) -> None:
    def run(argv: list[str]) -> tuple[int, str]:
        both = AUDIT.format(999) + "\n" + AUDIT.format(1000).replace("write", "read")
        return (0, both) if argv[0] == "ausearch" else (0, "")

    set_enforcing(machine)
    found = denials.list_denials("firewalld", run, 1000.4, str(machine.root))
    assert found == ["firewalld_t may not read a file of lib_t"]


@pytest.mark.parametrize("denied", [True, False])
def test_selinux_is_named_if_it_blocks_the_start(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, denied: bool
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    set_enforcing(machine)
    machine.fails = "start firewalld"
    run = machine.run

    def run_with_denial(argv: list[str]) -> tuple[int, str]:
        line = AUDIT.format(4102444800) if denied else OTHER
        return (0, line) if argv[0] == "ausearch" else run(argv)

    machine.run = run_with_denial  # type: ignore[method-assign]
    message = expect_refusal(machine)
    assert "[PF-117]" in message
    expected = "SELinux blocks it: firewalld_t may not write a file of lib_t. Fix: label its files"
    assert (expected in message) is denied
    assert ("journalctl -u firewalld" in message) is not denied


def test_missing_rules_are_an_error_and_are_rolled_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[str] = []
    monkeypatch.setattr(engine, "undone", lambda run, name, why: undone.append(name))
    run = machine.run

    def run_and_lose_rule(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        machine.table = build_ruleset_without("29500")
        return rc, out

    machine.run = run_and_lose_rule  # type: ignore[method-assign]
    assert "[PF-118]" in expect_refusal(machine)
    assert undone == ["peer_firewall"]


def test_mode_off_is_reported_and_names_ufw(machine: Machine) -> None:
    write_file(machine.root, "/etc/ufw/ufw.conf", "ENABLED=yes\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = make_firewall(machine, state="off")
    assert run.off()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-201", "PF-202"]
    assert f"{STOP_COMMAND}\nsystemctl disable firewalld.service" in machine.commands()
