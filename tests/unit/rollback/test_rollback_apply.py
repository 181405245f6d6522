"""The rollback: the engine applies a change and undoes it."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from rollback_machine import NAME, RollbackNode


def get_engine_arguments(node: RollbackNode) -> list[str]:
    """Return the arguments of the engine in the last command for systemd."""
    return node.calls[-1][node.calls[-1].index(f"{node.store}/engine.py") + 1 :]


def test_apply_writes_runs_and_reports(node: RollbackNode) -> None:
    old, new = node.etc / "old", node.etc / "sub/new"
    old.write_text("x")
    node.arm(old, new)
    files = {str(old): None, str(new): {"text": "hello\n", "mode": 0o600}}
    transaction_engine.apply_change(node.run, NAME, files, [["touch", str(node.root / "ran")]])
    assert transaction_engine.read_apply_progress(NAME)["state"] == "waiting"
    node.run_engine(*get_engine_arguments(node))
    assert transaction_engine.wait_for_apply(NAME, 1)["state"] == "done"
    assert not old.exists()
    assert new.read_text() == "hello\n"
    assert new.stat().st_mode & 0o777 == 0o600
    assert (node.root / "ran").exists()


def test_failed_change_is_reverted_at_once(node: RollbackNode) -> None:
    new = node.etc / "new"
    node.arm(new)
    transaction_engine.apply_change(
        node.run, NAME, {str(new): {"text": "x", "mode": 0o644}}, [["ls", "/no/such"]]
    )
    node.run_engine(*get_engine_arguments(node))
    assert not new.exists()
    assert transaction_engine.read_apply_progress(NAME)["state"] == "failed"
    assert "no/such" in transaction_engine.read_apply_progress(NAME)["words"]
    assert "it could not be applied: `ls /no/such`" in transaction_engine.report_of(NAME)["why"]


def test_apply_does_not_stop_the_unit_that_it_runs_in(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[Any] = []
    monkeypatch.setattr(
        transaction_engine,
        "run_with_deadline",
        lambda command, *_: commands.append(command) or (int(command == ["no"]), ""),
    )
    node.arm()
    transaction_engine.apply_change(node.run, NAME, {}, [["no"]])
    transaction_engine.do_apply(str(node.folder))
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert not [command for command in commands if "fullmesh-apply-static-ip.service" in command]


def test_an_engine_error_is_reported_without_a_failed_unit(node: RollbackNode) -> None:
    node.arm()
    (node.folder / "plan.json").write_text("{}")
    node.run_engine("apply", str(node.folder))
    tail = [line for line in (node.store).rglob("log") if "KeyError" in line.read_text()]
    assert tail


def test_foreign_state_that_the_kernel_rejects_is_reported(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is restored. The kernel rejects a route through the old network, as iproute2 6.1 reports it."""
    addresses: list[str] = []
    link_state = {"ifname": "eth1", "mtu": 1500, "flags": ["UP"]}

    def run_command(command: list[str], *_: Any, **__: Any) -> tuple[int, str]:
        text = " ".join(command)
        if text == "ip -j addr show":
            infos = [{"local": one, "prefixlen": 32, "scope": "global"} for one in addresses]
            return 0, json.dumps([{**link_state, "addr_info": infos}])
        if text.startswith("ip addr add 10.0.0.200/32 "):
            addresses.append("10.0.0.200")
        if " route replace " in text:
            return 2, "Error: Nexthop has invalid gateway."
        return 0, ""

    monkeypatch.setattr(transaction_engine, "run_with_deadline", run_command)
    monkeypatch.setattr(transaction_engine, "SETTLE_SECONDS", 1.5)
    link: transaction_engine.ViewLink = {
        "mtu": 0,
        "up": True,
        "addresses": ["10.0.0.200/32"],
        "leases": [],
        "manner": {},
    }
    others: transaction_engine.KernelGoal = {
        "links": {"eth1": link},
        "routes": [["-4", "eth1", "192.0.2.0/24 via 10.0.0.8 proto bird"]],
        "connected": [],
        "ours": {"addresses": {}, "routes": []},
    }
    node.arm()
    transaction_engine.apply_change(node.run, NAME, {}, [], others=others)
    transaction_engine.do_apply(str(node.folder))
    gone = "ip -4 route replace 192.0.2.0/24 via 10.0.0.8 proto bird dev eth1"
    assert transaction_engine.read_apply_progress(NAME)["lost"] == [gone]
    last = node.read_log().splitlines()[-1]
    assert "restored for other owners: ip addr add 10.0.0.200/32 dev eth1; lost, " in last
    assert last.endswith("; lost, of others: " + gone)


def test_a_run_killed_before_arming_leaves_no_boot_unit(node: RollbackNode) -> None:
    """Found by tests/unit/test_schedules.py: a confirmation removed the record, and the boot unit stayed."""
    node.arm()
    (node.folder / "armed").unlink()
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert not node.folder.exists()
    assert not node.units.exists()


def test_other_folders_in_the_store_are_kept(node: RollbackNode) -> None:
    """lost+found, if the store is a file system. A file named like a state does not make a transaction."""
    for name in ("lost+found", "other"):
        (node.store / name).mkdir(parents=True)
        (node.store / name / "kept").touch()
    (node.store / "other" / "confirmed").touch()
    node.arm()
    transaction_engine.restore_at_boot(str(node.store))
    assert (node.store / "lost+found/kept").exists()
    assert (node.store / "other/kept").exists()
    assert transaction_engine.state_of(str(node.folder)) == "fired"


def test_apply_waits_until_the_session_has_ended(node: RollbackNode) -> None:
    new = node.etc / "new"
    node.arm(new)
    session = subprocess.Popen(["sleep", "1"])
    with ThreadPoolExecutor(1) as pool:
        transaction_engine.apply_change(
            node.run, NAME, {str(new): {"text": "x", "mode": 0o644}}, [], leave=os.getpid()
        )
        plan = json.loads((node.folder / "plan.json").read_text())
        (node.folder / "plan.json").write_text(json.dumps(plan | {"leave": session.pid}))
        done = pool.submit(node.run_engine, *get_engine_arguments(node))
        assert not new.exists()
        session.wait()
        done.result()
    assert new.exists()


def test_nothing_is_applied_after_the_rollback(node: RollbackNode) -> None:
    new = node.etc / "new"
    node.arm(new)
    transaction_engine.apply_change(node.run, NAME, {str(new): {"text": "x", "mode": 0o644}}, [])
    arguments = get_engine_arguments(node)
    node.run_engine("restore", str(node.folder))
    node.run_engine(*arguments)
    assert not new.exists()
