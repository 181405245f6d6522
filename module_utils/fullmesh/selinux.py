# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""SELinux' mode, now and at the next boot. Stdlib only."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TypedDict

from .answer import diff, diff_file
from .files import SPACE, put, read, split_words
from .state.record import Point
from .transaction import engine as rollback
from .transaction import session as way_in

if TYPE_CHECKING:
    from .answer import Diff, Note
    from .commands import Runner


CONFIG = "/etc/selinux/config"
ENFORCE = "/sys/fs/selinux/enforce"
RELABEL = "/.autorelabel"
NAME = "selinux_mode"
NUMBERS = {"enforcing": "1", "permissive": "0"}


class Seen(TypedDict):
    """SELinux on a node.

    Attributes:
        config: the text of its file; configured: the mode there; type: the policy's name.
        runtime: ``enforcing``, ``permissive``, "" for off.
        installed: there is a file or a kernel with SELinux; policy: there is a policy of this type.
        container: the kernel is another machine's; cmdline: of the kernel.
    """

    config: str
    configured: str
    runtime: str
    installed: bool
    container: bool
    cmdline: list[str]
    type: str
    policy: bool


class Plan(TypedDict):
    """What is to be done: the mode for the file and for now ("" where it stays), labels, a reboot; what to say."""

    config: str
    runtime: str
    relabel: bool
    reboot: bool
    notes: list[Note]


class Wanted(TypedDict):
    """What selinux_state is asked for; its documentation says what each of them is."""

    mode: str
    state: str
    staged: bool
    rollback_seconds: int
    token: str


class Switched(TypedDict):
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


class RefusedError(Exception):
    """Coded sentences for the user."""


def setting(text: str, key: str) -> str:
    """Return the value of a KEY=value line, empty where there is none."""
    found = re.findall(rf"^\s*{key}\s*=\s*(\S+)", text, re.MULTILINE | re.ASCII)
    return str(found[-1]).lower() if found else ""


def with_mode(text: str, mode: str) -> str:
    """Return the configuration with another mode and nothing else changed."""
    if not setting(text, "SELINUX"):
        end = "" if not text or text.endswith("\n") else "\n"
        kind = "" if setting(text, "SELINUXTYPE") else "SELINUXTYPE=targeted\n"
        return text + end + f"SELINUX={mode}\n" + kind
    return re.sub(r"^(\s*SELINUX\s*=\s*)\S+", r"\g<1>" + mode, text, flags=re.MULTILINE | re.ASCII)


class Node:
    """The machine; tests bring another root."""

    def __init__(self, root: str, run: Runner) -> None:
        self.root = root
        self.run = run
        self.point = Point(root, NAME)

    def at(self, path: str) -> str:
        """Say where a path of the node is for us."""
        return self.root + path

    def observe(self) -> Seen:
        """Look at everything that matters, once."""
        config = read(self.at(CONFIG))
        number = read(self.at(ENFORCE)).strip(SPACE)
        kind = setting(config, "SELINUXTYPE") or "targeted"
        policies = self.at(f"/etc/selinux/{kind}/policy")
        return {
            "config": config,
            "configured": setting(config, "SELINUX"),
            "runtime": {"1": "enforcing", "0": "permissive"}.get(number, ""),
            "installed": bool(config or number),
            "container": os.path.exists(self.at("/run/systemd/container")),
            "cmdline": split_words(read(self.at("/proc/cmdline"))),
            "type": kind,
            "policy": os.path.isdir(policies) and bool(os.listdir(policies)),
        }


def decide(seen: Seen, mode: str, staged: bool = False) -> Plan:
    """Work out what to do, as data: config, runtime, relabel, reboot, and what to say."""
    plan: Plan = {"config": "", "runtime": "", "relabel": False, "reboot": False, "notes": []}
    if not seen["installed"]:
        if mode == "enforcing":
            text = "this system has no SELinux, so there is nothing to enforce (AppArmor is left as it is)"
            plan["notes"].append(note("SE-201", text))
        return plan
    if mode == "keep":
        if seen["runtime"] != "enforcing":
            text = "SELinux is {} and was left so (selinux_mode: keep)".format(
                seen["runtime"] or "off"
            )
            plan["notes"].append(note("SE-202", text))
        return plan
    if seen["configured"] != mode:
        plan["config"] = mode
    goal = "enforcing" if mode == "enforcing" else "permissive"
    if seen["runtime"] and seen["runtime"] != goal:
        plan["runtime"] = goal
    if seen["runtime"] and mode == "disabled":
        plan["reboot"] = True
    if not seen["runtime"] and mode != "disabled":
        # With selinux=0 on the boot line a boot changes nothing, and nobody would label the files.
        plan["reboot"] = not seen["container"] and "selinux=0" not in seen["cmdline"]
        plan["relabel"] = plan["reboot"]
    if staged and plan["relabel"] and mode == "enforcing":
        plan["config"] = "" if seen["configured"] == "permissive" else "permissive"
    plan["notes"] += remarks(seen, mode, plan)
    return plan


def remarks(seen: Seen, mode: str, plan: Plan) -> list[Note]:
    """Say what the user has to know."""
    found = []
    if mode != "enforcing":
        text = f"SELinux does not protect this node because it was asked so (selinux_mode: {mode})"
        found.append(note("SE-203", text))
    if plan["reboot"]:
        text = f"SELinux becomes {mode} with the next boot"
        extra = ", which relabels all files first and takes longer" if plan["relabel"] else ""
        found.append(note("SE-204", text + extra + ". Reboot when no job runs"))
    if not seen["runtime"] and mode != "disabled" and seen["container"]:
        text = f"the kernel of this container has no SELinux: only {CONFIG} was set"
        found.append(note("SE-205", text))
    bad = [word for word in seen["cmdline"] if word in ("selinux=0", "enforcing=0")]
    if bad and mode == "enforcing":
        text = "the boot line has {}, which beats {}".format(" ".join(bad), CONFIG)
        step = f". Remove it, such as with `grubby --update-kernel=ALL --remove-args={bad[0]}`"
        found.append(note("SE-206", text + step))
    return found


def note(code: str, text: str) -> Note:
    """Make one warning."""
    return {"code": code, "text": text + "."}


def refuse(seen: Seen, mode: str, plan: Plan) -> None:
    """Refuse what would keep the node from booting."""
    if plan["relabel"] and not seen["policy"]:
        raise RefusedError(
            "[SE-110] selinux_mode is {} and the policy {!r} is not installed: the node would not boot. Install it "
            "(dnf install selinux-policy-targeted), or set selinux_mode to keep.".format(
                mode, seen["type"]
            )
        )


class Switch:
    """One run."""

    def __init__(self, node: Node, params: Wanted, check: bool) -> None:
        self.node = node
        self.params = params
        self.check = check
        self.armed = False
        self.diff: list[Diff] = []

    def present(self) -> Switched:
        """Set the mode."""
        seen = self.node.observe()
        plan = decide(seen, self.params["mode"], self.params["staged"])
        refuse(seen, self.params["mode"], plan)
        relabel = plan["relabel"] and not os.path.exists(self.node.at(RELABEL))
        text = with_mode(seen["config"], plan["config"]) if plan["config"] else seen["config"]
        if text != seen["config"]:
            self.diff.append(diff_file(CONFIG, seen["config"], text, self.node.root))
        self.show("SELinux now", seen["runtime"], plan["runtime"] or seen["runtime"])
        if not self.check:
            if self.params["mode"] != "keep":
                self.remember(seen)
            self.act(text if plan["config"] else "", plan["runtime"])
            if relabel:
                put(self.node.at(RELABEL), "-F\n")
        return self.answer(seen, plan, bool(plan["config"] or plan["runtime"] or relabel))

    def remember(self, seen: Seen) -> None:
        """Keep the runtime mode of before, also that there was none."""
        record = self.node.point.load()
        if seen["installed"] and "selinux" not in record["part"]:
            record["part"]["selinux"] = {"runtime": seen["runtime"]}
            self.node.point.save(record, {})

    def act(self, config: str, runtime: str) -> None:
        """Change what differs; enforcing is armed to undo itself."""
        if runtime == "enforcing":
            self.arm("SELinux enforcing")
        if config:
            put(self.node.at(CONFIG), config)
        if runtime:
            self.enforce(runtime)
        if self.armed:
            rollback.changed(NAME)

    def arm(self, what: str) -> None:
        """Let the node become permissive again by itself, with the configuration of now."""
        seconds = int(self.params["rollback_seconds"])
        if seconds <= 0:
            return
        command = f"echo 0 > {self.node.at(ENFORCE)}"
        try:
            rollback.arm(
                self.node.run,
                NAME,
                seconds,
                [self.node.at(CONFIG), self.node.at(RELABEL)],
                [command],
                boot=[command],
                what=what,
                token=self.params["token"],
            )
        except (rollback.RollbackError, OSError) as exc:
            raise RefusedError(
                f"[SE-112] the guard that switches SELinux back could not be started: {exc}. Nothing was changed. "
                "Look at `systemctl status` on this node."
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
        seen = read(self.node.at(ENFORCE)).strip(SPACE)
        if seen != NUMBERS[mode]:
            raise RefusedError(
                "[SE-111] the kernel did not become {}: {}, the value seen is {!r}. "
                "Is the boolean secure_mode_policyload on?".format(mode, error or "no error", seen)
            )

    def confirmed(self) -> Switched:
        """Disarm the rollback over a connection that came in under the new mode."""
        words = way_in.session(os.environ, os.getppid())
        if not self.check and rollback.proves_nothing(NAME, words):
            raise RefusedError(rollback.OLDER)
        word = self.disarm()
        seen = self.node.observe()
        return self.answer(seen, decide(seen, "keep"), word == "disarmed")

    def disarm(self) -> str:
        """End the rollback; what came of it."""
        try:
            word = (
                "idle" if self.check else rollback.disarm(self.node.run, NAME, self.params["token"])
            )
        except rollback.RollbackError as exc:
            raise RefusedError(str(exc)) from exc
        if word == "fired":
            raise RefusedError(
                "[SE-113] nobody came back in time, so this node is permissive again. Look for denials with "
                "`ausearch -m avc -ts recent`, fix them, and run again."
            )
        return str(word)

    def before(self) -> str:
        """The runtime mode of before the role came; empty for none, and where nobody has kept it."""
        part = self.node.point.load()["part"]
        return part["selinux"]["runtime"] if "selinux" in part else ""

    def leaving(self) -> Switched:
        """Before an undo that makes the node enforce again: arm what makes it permissive, as it is now."""
        seen = self.node.observe()
        if self.before() == "enforcing" and seen["runtime"] == "permissive" and not self.check:
            self.arm("undo: SELinux enforcing")
        return self.answer(seen, decide(seen, "keep"), False)

    def restored(self) -> Switched:
        """Set the runtime mode of before."""
        seen, before = self.node.observe(), self.before()
        word = rollback.state_of(rollback.folder(NAME))
        if word in ("restoring", "fired"):
            self.disarm()
        moved = bool(before and seen["runtime"] and seen["runtime"] != before)
        if moved:
            self.show("SELinux now", seen["runtime"], before)
            if not self.check:
                self.enforce(before)
        self.armed = word == "armed" and not self.check
        if self.armed:
            rollback.changed(NAME)
        notes: list[Note] = []
        if not before and seen["runtime"] and seen["configured"] == "disabled":
            text = (
                "SELinux was off before and is so again with the next boot. Reboot when no job runs"
            )
            notes.append(note("SE-204", text))
        return {**self.answer(seen, decide(seen, "keep"), moved), "notes": notes}

    def show(self, name: str, before: str, after: str) -> None:
        """Keep one diff."""
        if before != after:
            end = "" if before.endswith("\n") else "\n"
            self.diff.append(diff(name, before + end, after + end))

    def answer(self, seen: Seen, plan: Plan, changed: bool) -> Switched:
        """Assemble what the role tells the manifest and the report."""
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
