# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage SELinux's mode, now and at the next boot. Standard library only."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TypedDict

from .answer import diff_file, make_diff
from .files import SPACE, read_text_file, split_words, write_file_atomically
from .state.record import UndoPoint
from .transaction import engine, session

if TYPE_CHECKING:
    from .answer import Diff, Note
    from .commands import Runner


CONFIG = "/etc/selinux/config"
ENFORCE = "/sys/fs/selinux/enforce"
RELABEL = "/.autorelabel"
NAME = "selinux_mode"
NUMBERS = {"enforcing": "1", "permissive": "0"}


class SelinuxStatus(TypedDict):
    """SELinux on a node.

    Attributes:
        config: the text of its file.
        configured: the mode in this file.
        type: the policy's name.
        runtime: ``enforcing``, ``permissive``, "" for off.
        installed: there is a file or a kernel with SELinux.
        policy: there is a policy of this type.
        container: the kernel belongs to another machine.
        cmdline: of the kernel.
    """

    config: str
    configured: str
    runtime: str
    installed: bool
    container: bool
    cmdline: list[str]
    type: str
    policy: bool


class SelinuxPlan(TypedDict):
    """The planned changes: the modes in the file and now ("" for no change), labels, a reboot, and notes."""

    config: str
    runtime: str
    relabel: bool
    reboot: bool
    notes: list[Note]


class SelinuxParams(TypedDict):
    """The parameters of selinux_state. The module documents them."""

    mode: str
    state: str
    staged: bool
    rollback_seconds: int
    token: str


class SelinuxResult(TypedDict):
    """The module's answer, for the manifest and the report."""

    changed: bool
    installed: bool
    runtime: str
    reboot_required: bool
    may_reboot: bool
    armed: bool
    files: list[str]
    notes: list[Note]
    diff: list[Diff]


class SelinuxRefusedError(Exception):
    """Coded sentences for the user."""


def parse_selinux_setting(text: str, key: str) -> str:
    """Return the value of a KEY=value line, or ""."""
    found = re.findall(rf"^\s*{key}\s*=\s*(\S+)", text, re.MULTILINE | re.ASCII)
    return str(found[-1]).lower() if found else ""


def replace_selinux_mode(text: str, mode: str) -> str:
    """Return the configuration with another mode and no other change."""
    if not parse_selinux_setting(text, "SELINUX"):
        end = "" if not text or text.endswith("\n") else "\n"
        kind = "" if parse_selinux_setting(text, "SELINUXTYPE") else "SELINUXTYPE=targeted\n"
        return text + end + f"SELINUX={mode}\n" + kind
    return re.sub(r"^(\s*SELINUX\s*=\s*)\S+", r"\g<1>" + mode, text, flags=re.MULTILINE | re.ASCII)


class SelinuxNode:
    """The node. Tests use another root."""

    def __init__(self, root: str, run: Runner) -> None:
        self.root = root
        self.run = run
        self.point = UndoPoint(root, NAME)

    def at(self, path: str) -> str:
        """Return the local path of a path on the node."""
        return self.root + path

    def observe(self) -> SelinuxStatus:
        """Observe SELinux once."""
        config = read_text_file(self.at(CONFIG))
        number = read_text_file(self.at(ENFORCE)).strip(SPACE)
        kind = parse_selinux_setting(config, "SELINUXTYPE") or "targeted"
        policies = self.at(f"/etc/selinux/{kind}/policy")
        return {
            "config": config,
            "configured": parse_selinux_setting(config, "SELINUX"),
            "runtime": {"1": "enforcing", "0": "permissive"}.get(number, ""),
            "installed": bool(config or number),
            "container": os.path.exists(self.at("/run/systemd/container")),
            "cmdline": split_words(read_text_file(self.at("/proc/cmdline"))),
            "type": kind,
            "policy": os.path.isdir(policies) and bool(os.listdir(policies)),
        }


def plan_selinux_change(seen: SelinuxStatus, mode: str, staged: bool = False) -> SelinuxPlan:
    """Plan the change, as data: config, runtime, relabel, reboot, and notes."""
    plan: SelinuxPlan = {
        "config": "",
        "runtime": "",
        "relabel": False,
        "reboot": False,
        "notes": [],
    }
    if not seen["installed"]:
        if mode == "enforcing":
            text = "this system has no SELinux, so there is nothing to enforce (AppArmor is not changed)"
            plan["notes"].append(make_selinux_note("SE-201", text))
        return plan
    if mode == "keep":
        if seen["runtime"] != "enforcing":
            text = "SELinux is {} and was not changed (selinux_mode: keep)".format(
                seen["runtime"] or "off"
            )
            plan["notes"].append(make_selinux_note("SE-202", text))
        return plan
    if seen["configured"] != mode:
        plan["config"] = mode
    goal = "enforcing" if mode == "enforcing" else "permissive"
    if seen["runtime"] and seen["runtime"] != goal:
        plan["runtime"] = goal
    if seen["runtime"] and mode == "disabled":
        plan["reboot"] = True
    if not seen["runtime"] and mode != "disabled":
        # With selinux=0 in the kernel arguments, a reboot changes nothing and does not label the files.
        plan["reboot"] = not seen["container"] and "selinux=0" not in seen["cmdline"]
        plan["relabel"] = plan["reboot"]
    if staged and plan["relabel"] and mode == "enforcing":
        plan["config"] = "" if seen["configured"] == "permissive" else "permissive"
    plan["notes"] += list_selinux_notes(seen, mode, plan)
    return plan


def list_selinux_notes(seen: SelinuxStatus, mode: str, plan: SelinuxPlan) -> list[Note]:
    """Return notes for the user."""
    found = []
    if mode != "enforcing":
        text = f"SELinux does not protect this node because of the setting selinux_mode: {mode}"
        found.append(make_selinux_note("SE-203", text))
    if plan["reboot"]:
        text = f"SELinux becomes {mode} with the next boot"
        extra = ", which relabels all files first and takes longer" if plan["relabel"] else ""
        found.append(make_selinux_note("SE-204", text + extra + ". Reboot when no job runs"))
    if not seen["runtime"] and mode != "disabled" and seen["container"]:
        text = f"the kernel of this container has no SELinux: only {CONFIG} was set"
        found.append(make_selinux_note("SE-205", text))
    bad = [word for word in seen["cmdline"] if word in ("selinux=0", "enforcing=0")]
    if bad and mode == "enforcing":
        text = "the boot line has {}, which beats {}".format(" ".join(bad), CONFIG)
        step = f". Remove it, for example with `grubby --update-kernel=ALL --remove-args={bad[0]}`"
        found.append(make_selinux_note("SE-206", text + step))
    return found


def make_selinux_note(code: str, text: str) -> Note:
    """Make one warning."""
    return {"code": code, "text": text + "."}


def check_relabel_policy(seen: SelinuxStatus, mode: str, plan: SelinuxPlan) -> None:
    """Refuse a change that would prevent the node from booting."""
    if plan["relabel"] and not seen["policy"]:
        raise SelinuxRefusedError(
            "[SE-110] selinux_mode is {} and the policy {!r} is not installed: the node would not boot. "
            "Fix: install it (dnf install selinux-policy-targeted), or set selinux_mode to keep.".format(
                mode, seen["type"]
            )
        )


class SelinuxSwitch:
    """One run of selinux_state."""

    def __init__(self, node: SelinuxNode, params: SelinuxParams, check: bool) -> None:
        self.node = node
        self.params = params
        self.check = check
        self.armed = False
        self.diff: list[Diff] = []

    def present(self) -> SelinuxResult:
        """Set the mode."""
        seen = self.node.observe()
        plan = plan_selinux_change(seen, self.params["mode"], self.params["staged"])
        check_relabel_policy(seen, self.params["mode"], plan)
        relabel = plan["relabel"] and not os.path.exists(self.node.at(RELABEL))
        text = (
            replace_selinux_mode(seen["config"], plan["config"])
            if plan["config"]
            else seen["config"]
        )
        if text != seen["config"]:
            self.diff.append(diff_file(CONFIG, seen["config"], text, self.node.root))
        self.show("SELinux now", seen["runtime"], plan["runtime"] or seen["runtime"])
        if not self.check:
            if self.params["mode"] != "keep":
                self.remember(seen)
            self.act(text if plan["config"] else "", plan["runtime"])
            if relabel:
                write_file_atomically(self.node.at(RELABEL), "-F\n")
        return self.answer(seen, plan, bool(plan["config"] or plan["runtime"] or relabel))

    def remember(self, seen: SelinuxStatus) -> None:
        """Save the original runtime mode, or its absence."""
        record = self.node.point.load()
        if seen["installed"] and "selinux" not in record["part"]:
            record["part"]["selinux"] = {"runtime": seen["runtime"]}
            self.node.point.save(record, {})

    def act(self, config: str, runtime: str) -> None:
        """Apply the differences. Enforcing is armed to revert itself."""
        if runtime == "enforcing":
            self.arm("SELinux enforcing")
        if config:
            write_file_atomically(self.node.at(CONFIG), config)
        if runtime:
            self.enforce(runtime)
        if self.armed:
            engine.mark_change_applied(NAME)

    def arm(self, what: str) -> None:
        """Arm a rollback to permissive mode with the present configuration."""
        seconds = int(self.params["rollback_seconds"])
        if seconds <= 0:
            return
        command = f"echo 0 > {self.node.at(ENFORCE)}"
        try:
            engine.arm(
                self.node.run,
                NAME,
                seconds,
                [self.node.at(CONFIG), self.node.at(RELABEL)],
                [command],
                boot=[command],
                what=what,
                token=self.params["token"],
            )
        except (engine.RollbackError, OSError) as exc:
            raise SelinuxRefusedError(
                f"[SE-112] The guard that switches SELinux back could not be started: {exc}. Nothing was changed. "
                "Check: `systemctl status` on this node."
            ) from exc
        self.armed = True

    def enforce(self, mode: str) -> None:
        """Set the runtime mode and read it back."""
        error = ""
        try:
            with open(self.node.at(ENFORCE), "w") as stream:
                stream.write(NUMBERS[mode])
        except OSError as exc:
            error = str(exc)
        seen = read_text_file(self.node.at(ENFORCE)).strip(SPACE)
        if seen != NUMBERS[mode]:
            raise SelinuxRefusedError(
                "[SE-111] The kernel did not become {}: {}, the value seen is {!r}. "
                "Is the boolean secure_mode_policyload on?".format(mode, error or "no error", seen)
            )

    def confirmed(self) -> SelinuxResult:
        """Disarm the rollback over a connection that was made under the new mode."""
        words = session.find_ssh_session(os.environ, os.getppid())
        if not self.check and engine.needs_fresh_connection(NAME, words):
            raise SelinuxRefusedError(engine.OLDER)
        word = self.disarm()
        seen = self.node.observe()
        return self.answer(seen, plan_selinux_change(seen, "keep"), word == "disarmed")

    def disarm(self) -> str:
        """End the rollback and return the result."""
        try:
            word = (
                "idle" if self.check else engine.disarm(self.node.run, NAME, self.params["token"])
            )
        except engine.RollbackError as exc:
            raise SelinuxRefusedError(str(exc)) from exc
        if word == "fired":
            raise SelinuxRefusedError(
                "[SE-113] The change was not confirmed in time, so this node is permissive again. "
                "Check: `ausearch -m avc -ts recent` shows denials. Fix them and run again."
            )
        return str(word)

    def before(self) -> str:
        """Return the runtime mode before the role's first change, or "" if it is unknown."""
        part = self.node.point.load()["part"]
        return part["selinux"]["runtime"] if "selinux" in part else ""

    def leaving(self) -> SelinuxResult:
        """Prepare an undo that returns to enforcing: arm a rollback to the present permissive mode."""
        seen = self.node.observe()
        if self.before() == "enforcing" and seen["runtime"] == "permissive" and not self.check:
            self.arm("undo: SELinux enforcing")
        return self.answer(seen, plan_selinux_change(seen, "keep"), False)

    def restored(self) -> SelinuxResult:
        """Restore the original runtime mode."""
        seen, before = self.node.observe(), self.before()
        word = engine.state_of(engine.folder(NAME))
        if word in ("restoring", "fired"):
            self.disarm()
        moved = bool(before and seen["runtime"] and seen["runtime"] != before)
        if moved:
            self.show("SELinux now", seen["runtime"], before)
            if not self.check:
                self.enforce(before)
        self.armed = word == "armed" and not self.check
        if self.armed:
            engine.mark_change_applied(NAME)
        notes: list[Note] = []
        if not before and seen["runtime"] and seen["configured"] == "disabled":
            text = (
                "SELinux was off before and is so again with the next boot. Reboot when no job runs"
            )
            notes.append(make_selinux_note("SE-204", text))
        return {**self.answer(seen, plan_selinux_change(seen, "keep"), moved), "notes": notes}

    def show(self, name: str, before: str, after: str) -> None:
        """Add one diff."""
        if before != after:
            end = "" if before.endswith("\n") else "\n"
            self.diff.append(make_diff(name, before + end, after + end))

    def answer(self, seen: SelinuxStatus, plan: SelinuxPlan, changed: bool) -> SelinuxResult:
        """Return the answer for the manifest and the report."""
        return {
            "changed": changed,
            "installed": seen["installed"],
            "runtime": plan["runtime"] or seen["runtime"],
            "reboot_required": plan["reboot"],
            "may_reboot": bool(self.params["staged"]),
            "armed": self.armed,
            "files": [CONFIG] if seen["installed"] else [],
            "notes": plan["notes"],
            "diff": self.diff,
        }
