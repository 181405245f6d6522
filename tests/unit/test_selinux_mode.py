"""SELinux' mode: what is decided, what is written, what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh import selinux
from ansible.module_utils.fullmesh.transaction import engine
from rehearsal import rehearse_rollback

from fullmesh.roles import selinux_mode

ROLE = Path(__file__).parents[2] / "roles/selinux_mode"
CONFIG = "# a comment\nSELINUX=permissive\n# SELINUXTYPE= takes one of\nSELINUXTYPE=targeted\n"


@pytest.mark.parametrize("mode", selinux_mode.MODES)
def test_the_four_modes_are_fine(mode: str) -> None:
    assert selinux_mode.find_selinux_faults(mode, 60) == []
    assert selinux_mode.find_selinux_faults(mode, 0) == []


@pytest.mark.parametrize(
    ("mode", "seconds", "code"),
    [
        ("strict", 60, "SE-101"),
        (True, 60, "SE-101"),
        ("enforcing", 5, "SE-102"),
        ("keep", "x", "SE-102"),
    ],
)
def test_invalid_settings_are_refused(mode: object, seconds: object, code: str) -> None:
    assert [fault.code for fault in selinux_mode.find_selinux_faults(mode, seconds)] == [code]


def test_a_reboot_takes_more_than_seconds() -> None:
    assert [fault.code for fault in selinux_mode.find_selinux_faults("enforcing", 60, 20)] == [
        "SE-103"
    ]
    assert selinux_mode.find_selinux_faults("enforcing", 60, 60) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (CONFIG, CONFIG.replace("permissive", "enforcing")),
        ("", "SELINUX=enforcing\nSELINUXTYPE=targeted\n"),
        ("SELINUXTYPE=mls", "SELINUXTYPE=mls\nSELINUX=enforcing\n"),
        ("#SELINUX=disabled\n SELINUX = disabled\n", "#SELINUX=disabled\n SELINUX = enforcing\n"),
    ],
)
def test_one_line_is_changed_and_nothing_else(before: str, after: str) -> None:
    assert selinux.replace_selinux_mode(before, "enforcing") == after
    assert selinux.replace_selinux_mode(after, "enforcing") == after


def make_state(**change: Any) -> dict[str, Any]:
    base = {
        "config": CONFIG,
        "configured": "enforcing",
        "runtime": "enforcing",
        "installed": True,
        "container": False,
        "cmdline": ["ro", "quiet"],
        "type": "targeted",
        "policy": True,
    }
    return base | change


NONE = {"installed": False, "configured": "", "runtime": "", "config": ""}
OFF = {"runtime": "", "configured": "disabled"}


@pytest.mark.parametrize(
    ("state", "mode", "config", "runtime", "reboot", "codes"),
    [
        ({}, "enforcing", "", "", False, []),
        ({"runtime": "permissive"}, "enforcing", "", "enforcing", False, []),
        ({"configured": "permissive"}, "enforcing", "enforcing", "", False, []),
        ({}, "permissive", "permissive", "permissive", False, ["SE-203"]),
        ({}, "disabled", "disabled", "permissive", True, ["SE-203", "SE-204"]),
        (OFF, "disabled", "", "", False, ["SE-203"]),
        (OFF, "enforcing", "enforcing", "", True, ["SE-204"]),
        (OFF | {"container": True}, "enforcing", "enforcing", "", False, ["SE-205"]),
        ({"cmdline": ["enforcing=0"]}, "enforcing", "", "", False, ["SE-206"]),
        ({"runtime": "permissive"}, "keep", "", "", False, ["SE-202"]),
        ({}, "keep", "", "", False, []),
        (NONE, "enforcing", "", "", False, ["SE-201"]),
        (NONE, "permissive", "", "", False, []),
        (NONE, "disabled", "", "", False, []),
    ],
)
def test_decisions(  # noqa: PLR0913, PLR0917 (a table)
    state: dict[str, Any], mode: str, config: str, runtime: str, reboot: bool, codes: list[str]
) -> None:
    plan = selinux.plan_selinux_change(make_state(**state), mode)
    assert (plan["config"], plan["runtime"], plan["reboot"]) == (config, runtime, reboot)
    assert [note["code"] for note in plan["notes"]] == codes
    assert plan["relabel"] is (reboot and mode != "disabled")


def test_enforcing_is_kept_unless_changed_explicitly() -> None:
    for mode in ("enforcing", "keep"):
        plan = selinux.plan_selinux_change(make_state(), mode)
        assert plan["config"] in ("", "enforcing")
        assert plan["runtime"] in ("", "enforcing")


# --- one run --------------------------------------------------------------------------------------


class Machine(selinux.SelinuxNode):
    """A node in a directory."""

    def __init__(self, root: Path) -> None:
        self.calls: list[list[str]] = []
        self.rc = 0
        super().__init__(str(root), self.note_call)

    def note_call(self, argv: list[str]) -> tuple[int, str]:
        self.calls.append(argv)
        if self.rc == 0:
            rehearse_rollback(argv)
        return self.rc, ""

    def put(self, path: str, text: str) -> None:
        target = Path(self.at(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def text(self, path: str) -> str:
        return str(selinux.read_text_file(self.at(path)))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(engine, "STORE", str(tmp_path / "rollback"))
    monkeypatch.setattr(engine, "UNITS", str(tmp_path / "units"))
    monkeypatch.setattr(selinux, "engine", engine)
    machine = Machine(tmp_path)
    monkeypatch.setattr(selinux.session, "find_ssh_session", lambda environ, pid: [])
    machine.put(selinux.CONFIG, CONFIG)
    machine.put(selinux.ENFORCE, "0")
    machine.put("/etc/selinux/targeted/policy/policy.33", "x")
    return machine


PARAMS: dict[str, Any] = {"rollback_seconds": 60, "token": "run"}


def switch(
    node: Machine, mode: str = "enforcing", check: bool = False, staged: bool = False
) -> selinux.SelinuxSwitch:
    return selinux.SelinuxSwitch(node, PARAMS | {"mode": mode, "staged": staged}, check)


def test_enforcing_now_and_at_boot_armed_and_idempotent(node: Machine) -> None:
    result = switch(node).present()
    assert result["changed"]
    assert result["armed"]
    assert result["runtime"] == "enforcing"
    assert node.text(selinux.ENFORCE) == "1"
    assert "SELINUX=enforcing" in node.text(selinux.CONFIG)
    again = switch(node).present()
    assert not again["changed"]
    assert not again["armed"]
    assert not os.path.exists(node.at(selinux.RELABEL))


def test_without_a_requested_mode_none_is_set() -> None:
    """A default that a later boot makes enforcing is a change that no run checks."""
    assert yaml.safe_load((ROLE / "defaults/main.yml").read_text())["selinux_mode"] == "keep"


@pytest.mark.parametrize("configured", ["disabled", "permissive"])
def test_keep_writes_nothing_and_saves_nothing(node: Machine, configured: str) -> None:
    node.put(selinux.CONFIG, CONFIG.replace("permissive", configured))
    os.unlink(node.at(selinux.ENFORCE))
    before = {path: path.read_bytes() for path in Path(node.root).rglob("*") if path.is_file()}
    result = switch(node, mode="keep").present()
    assert (result["changed"], result["armed"], result["reboot_required"]) == (False, False, False)
    assert [note["code"] for note in result["notes"]] == ["SE-202"]
    assert before == {p: p.read_bytes() for p in Path(node.root).rglob("*") if p.is_file()}


def test_undo_keeps_a_mode_that_we_did_not_set(node: Machine) -> None:
    switch(node, mode="keep").present()
    node.put(selinux.ENFORCE, "1")
    assert not switch(node).restored()["changed"]
    assert node.text(selinux.ENFORCE) == "1"


def test_check_mode_writes_nothing(node: Machine) -> None:
    run = switch(node, check=True)
    assert run.present()["changed"]
    assert len(run.diff) == 2
    assert node.text(selinux.ENFORCE) == "0"
    assert node.text(selinux.CONFIG) == CONFIG
    assert node.calls == []


def test_a_disabled_node_is_relabelled_at_the_next_boot(node: Machine) -> None:
    os.unlink(node.at(selinux.ENFORCE))
    assert switch(node).present()["reboot_required"]
    assert node.text(selinux.RELABEL) == "-F\n"
    assert not switch(node).present()["changed"]


def test_a_disabled_node_reboots_to_permissive_first(node: Machine) -> None:
    os.unlink(node.at(selinux.ENFORCE))
    node.put(selinux.CONFIG, CONFIG.replace("permissive", "disabled"))
    first = switch(node, staged=True).present()
    assert first["reboot_required"]
    assert "SELINUX=permissive" in node.text(selinux.CONFIG)
    assert node.text(selinux.RELABEL) == "-F\n"
    assert not switch(node, staged=True).present()["changed"]
    node.put(selinux.ENFORCE, "0")  # the boot, with the files labelled
    os.unlink(node.at(selinux.RELABEL))
    second = switch(node).present()
    assert (second["armed"], second["runtime"], second["reboot_required"]) == (
        True,
        "enforcing",
        False,
    )
    assert "SELINUX=enforcing" in node.text(selinux.CONFIG)
    # undo: the original files are restored, and the next boot turns SELinux off
    node.put(selinux.CONFIG, CONFIG.replace("permissive", "disabled"))
    undone = switch(node).restored()
    assert (undone["changed"], [note["code"] for note in undone["notes"]]) == (False, ["SE-204"])


def test_only_a_node_that_may_be_rebooted_takes_a_turn(node: Machine) -> None:
    os.unlink(node.at(selinux.ENFORCE))
    assert [switch(node, staged=may).present()["may_reboot"] for may in (True, False)] == [
        True,
        False,
    ]


def test_a_boot_line_that_disables_it_prevents_the_reboot(node: Machine) -> None:
    os.unlink(node.at(selinux.ENFORCE))
    node.put("/proc/cmdline", "ro selinux=0")
    result = switch(node, staged=True).present()
    assert not result["reboot_required"]
    assert not os.path.exists(node.at(selinux.RELABEL))
    assert [note["code"] for note in result["notes"]] == ["SE-206"]


def test_an_undo_notes_that_disabled_needs_a_reboot(node: Machine) -> None:
    node.put(selinux.CONFIG, CONFIG.replace("permissive", "disabled"))
    assert [note["code"] for note in switch(node).restored()["notes"]] == ["SE-204"]


def test_without_a_policy_the_node_would_not_boot(node: Machine) -> None:
    os.unlink(node.at(selinux.ENFORCE))
    os.unlink(node.at("/etc/selinux/targeted/policy/policy.33"))
    with pytest.raises(selinux.SelinuxRefusedError, match=r"\[SE-110\]"):
        switch(node).present()
    assert node.text(selinux.CONFIG) == CONFIG


def test_a_kernel_that_does_not_switch_is_an_error(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        selinux, "read_text_file", lambda path: "0" if path.endswith("enforce") else CONFIG
    )
    with pytest.raises(selinux.SelinuxRefusedError, match=r"\[SE-111\]"):
        switch(node).present()


def test_a_timer_that_cannot_be_armed_stops_it(node: Machine) -> None:
    node.rc = 1
    with pytest.raises(selinux.SelinuxRefusedError, match=r"\[SE-112\]"):
        switch(node).present()
    assert node.text(selinux.ENFORCE) == "0"
    assert node.text(selinux.CONFIG) == CONFIG


def test_a_connection_from_before_the_change_does_not_confirm(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(node).present()
    old = engine.read_apply_progress("selinux_mode")["connections"] + [[22, 50022]]
    engine.write_json_file(engine.folder("selinux_mode") + "/applied.json", {"connections": old})
    monkeypatch.setattr(
        selinux.session,
        "find_ssh_session",
        lambda environ, pid: ["192.0.2.1", "50022", "192.0.2.2", "22"],
    )
    with pytest.raises(selinux.SelinuxRefusedError, match="older than the change"):
        switch(node).confirmed()
    assert engine.state_of(engine.folder("selinux_mode")) == "armed"


def test_confirmed_and_too_late(node: Machine) -> None:
    switch(node).present()
    assert switch(node).confirmed()["changed"]
    node.put(selinux.ENFORCE, "0")
    switch(node).present()
    (Path(engine.STORE) / "selinux_mode/fired").touch()
    with pytest.raises(selinux.SelinuxRefusedError, match=r"\[SE-113\]"):
        switch(node).confirmed()


def test_undo_sets_the_runtime_mode_of_before(node: Machine) -> None:
    switch(node).present()
    assert switch(node).restored()["changed"]
    assert node.text(selinux.ENFORCE) == "0"
    assert not switch(node).restored()["changed"]


def test_an_undo_that_enforces_is_armed_and_confirmed(node: Machine) -> None:
    node.put(selinux.ENFORCE, "1")
    node.put(selinux.CONFIG, CONFIG.replace("permissive", "enforcing"))
    switch(node, mode="permissive").present()
    assert switch(node).leaving()["armed"]
    back = switch(node).restored()
    assert (back["changed"], back["armed"]) == (True, True)
    assert node.text(selinux.ENFORCE) == "1"
    assert not switch(node).confirmed()["armed"]
    assert engine.state_of(engine.folder("selinux_mode")) == ""


def test_an_unconfirmed_undo_is_reported(node: Machine) -> None:
    node.put(selinux.ENFORCE, "1")
    switch(node, mode="permissive").present()
    switch(node).leaving()
    (Path(engine.STORE) / "selinux_mode/fired").touch()
    with pytest.raises(selinux.SelinuxRefusedError, match=r"\[SE-113\]"):
        switch(node).restored()


def test_an_undo_that_stays_permissive_arms_nothing(node: Machine) -> None:
    switch(node).present()
    switch(node).confirmed()
    assert not switch(node).leaving()["armed"]
    assert not switch(node).restored()["armed"]
