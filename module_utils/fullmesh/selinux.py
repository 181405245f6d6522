# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""SELinux' mode, now and at the next boot. Stdlib only."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from .files import put, read
from .state.record import Point
from .transaction import engine as rollback
from .transaction import session as way_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Entry = dict[str, Any]
    Runner = Callable[[list[str]], tuple[int, str]]

CONFIG = "/etc/selinux/config"
ENFORCE = "/sys/fs/selinux/enforce"
RELABEL = "/.autorelabel"
NAME = "selinux_mode"
NUMBERS = {"enforcing": "1", "permissive": "0"}


class RefusedError(Exception):
    """Coded sentences for the user."""


def setting(text: str, key: str) -> str:
    """Return the value of a KEY=value line, empty where there is none."""
    found = re.findall(rf"^\s*{key}\s*=\s*(\S+)", text, re.MULTILINE)
    return str(found[-1]).lower() if found else ""


def with_mode(text: str, mode: str) -> str:
    """Return the configuration with another mode and nothing else changed."""
    if not setting(text, "SELINUX"):
        end = "" if not text or text.endswith("\n") else "\n"
        kind = "" if setting(text, "SELINUXTYPE") else "SELINUXTYPE=targeted\n"
        return text + end + f"SELINUX={mode}\n" + kind
    return re.sub(r"^(\s*SELINUX\s*=\s*)\S+", r"\g<1>" + mode, text, flags=re.MULTILINE)


class Node:
    """The machine; tests bring another root."""

    def __init__(self, root: str, run: Runner) -> None:
        self.root = root
        self.run = run
        self.point = Point(root, NAME)

    def at(self, path: str) -> str:
        """Say where a path of the node is for us."""
        return self.root + path

    def observe(self) -> Entry:
        """Look at everything that matters, once."""
        config = read(self.at(CONFIG))
        number = read(self.at(ENFORCE)).strip()
        kind = setting(config, "SELINUXTYPE") or "targeted"
        policies = self.at(f"/etc/selinux/{kind}/policy")
        return {
            "config": config,
            "configured": setting(config, "SELINUX"),
            "runtime": {"1": "enforcing", "0": "permissive"}.get(number, ""),
            "installed": bool(config or number),
            "container": os.path.exists(self.at("/run/systemd/container")),
            "cmdline": read(self.at("/proc/cmdline")).split(),
            "type": kind,
            "policy": os.path.isdir(policies) and bool(os.listdir(policies)),
        }


def decide(seen: Entry, mode: str, staged: bool = False) -> Entry:
    """Work out what to do, as data: config, runtime, relabel, reboot, and what to say."""
    plan: Entry = {"config": "", "runtime": "", "relabel": False, "reboot": False, "notes": []}
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


def remarks(seen: Entry, mode: str, plan: Entry) -> list[Entry]:
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


def note(code: str, text: str) -> Entry:
    """Make one warning."""
    return {"code": code, "text": text + "."}


def refuse(seen: Entry, mode: str, plan: Entry) -> None:
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

    def __init__(self, node: Node, params: Entry, check: bool) -> None:
        self.node = node
        self.params = params
        self.check = check
        self.armed = False
        self.diff: list[Entry] = []

    def present(self) -> Entry:
        """Set the mode."""
        seen = self.node.observe()
        plan = decide(seen, self.params["mode"], self.params["staged"])
        refuse(seen, self.params["mode"], plan)
        relabel = plan["relabel"] and not os.path.exists(self.node.at(RELABEL))
        text = with_mode(seen["config"], plan["config"]) if plan["config"] else seen["config"]
        self.show(CONFIG, seen["config"], text)
        self.show("SELinux now", seen["runtime"], plan["runtime"] or seen["runtime"])
        if not self.check:
            if self.params["mode"] != "keep":
                self.remember(seen)
            self.act(text if plan["config"] else "", plan["runtime"])
            if relabel:
                put(self.node.at(RELABEL), "-F\n")
        return self.answer(seen, plan, bool(plan["config"] or plan["runtime"] or relabel))

    def remember(self, seen: Entry) -> None:
        """Keep the runtime mode of before, also that there was none."""
        self.node.point.settle()
        record = self.node.point.load()
        if seen["installed"] and "selinux" not in record["part"]:
            record["part"]["selinux"] = {"runtime": seen["runtime"]}
            self.node.point.save(record, {})

    def act(self, config: str, runtime: str) -> None:
        """Change what differs; enforcing is armed to undo itself."""
        seconds = int(self.params["rollback_seconds"])
        if runtime == "enforcing" and seconds > 0:
            command = f"echo 0 > {self.node.at(ENFORCE)}"
            try:
                paths, what = [self.node.at(CONFIG)], "SELinux enforcing"
                rollback.arm(
                    self.node.run, NAME, seconds, paths, [command], boot=[command], what=what
                )
            except (rollback.RollbackError, OSError) as exc:
                raise RefusedError(
                    f"[SE-112] the timer that would switch back could not be armed: {exc}. Nothing was changed. "
                    "Look at `systemctl status` on this node."
                ) from exc
            self.armed = True
        if config:
            put(self.node.at(CONFIG), config)
        if runtime:
            self.enforce(runtime)
        if self.armed:
            rollback.changed(NAME)

    def enforce(self, mode: str) -> None:
        """Set the runtime mode and read it back."""
        error = ""
        try:
            with open(self.node.at(ENFORCE), "w") as stream:
                stream.write(NUMBERS[mode])
        except OSError as exc:
            error = str(exc)
        seen = read(self.node.at(ENFORCE)).strip()
        if seen != NUMBERS[mode]:
            raise RefusedError(
                "[SE-111] the kernel did not become {}: {}, the value seen is {!r}. "
                "Is the boolean secure_mode_policyload on?".format(mode, error or "no error", seen)
            )

    def confirmed(self) -> Entry:
        """Disarm the rollback over a connection that came in under the new mode."""
        words = way_in.session(os.environ, os.getppid())
        if not self.check and rollback.proves_nothing(NAME, words):
            raise RefusedError(rollback.OLDER)
        word = "idle" if self.check else rollback.disarm(self.node.run, NAME)
        if word == "fired":
            raise RefusedError(
                "[SE-113] nobody came back in time, so this node is permissive again. Look for denials with "
                "`ausearch -m avc -ts recent`, fix them, and run again."
            )
        seen = self.node.observe()
        return self.answer(seen, decide(seen, "keep"), word == "disarmed")

    def restored(self) -> Entry:
        """Set the runtime mode of before."""
        if not self.check:
            self.node.point.settle()
        part = self.node.point.load()["part"]
        seen, before = self.node.observe(), part["selinux"]["runtime"] if "selinux" in part else ""
        moved = bool(before and seen["runtime"] and seen["runtime"] != before)
        if moved:
            self.show("SELinux now", seen["runtime"], before)
            if not self.check:
                self.enforce(before)
        notes = []
        if not before and seen["runtime"] and seen["configured"] == "disabled":
            text = (
                "SELinux was off before and is so again with the next boot. Reboot when no job runs"
            )
            notes.append(note("SE-204", text))
        return dict(self.answer(seen, decide(seen, "keep"), moved), notes=notes)

    def show(self, name: str, before: str, after: str) -> None:
        """Keep one diff."""
        if before != after:
            end = "" if before.endswith("\n") else "\n"
            entry = {"before": before + end, "after": after + end}
            self.diff.append(dict(entry, before_header=name, after_header=name))

    def answer(self, seen: Entry, plan: Entry, changed: bool) -> Entry:
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
