# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The cluster's ports for its peers in firewalld, one node: opened, off, reloaded, given back. Stdlib only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..state.record import Point
from ..transaction import engine as rollback
from ..transaction import session as way_in
from . import firewalld as core
from . import firewalld_files as own_files
from . import firewalld_others as theirs
from . import preserve as keep
from . import ufw
from .node import CARRIED, NAME, UNIT, RefusedError
from .opening import LINKS, RELOAD, STOP, Opening

if TYPE_CHECKING:
    from .types import Changed, Off, Undone

__all__ = ["UNIT", "Firewall", "RefusedError"]


class Firewall(Opening):
    """One run on one node, in any of the states that a role may want."""

    def reloaded(self) -> Changed:
        """Make a running firewalld read its files again."""
        self.look()
        if not self.running():
            return {"changed": False}
        # An undo has to go through all the same: our files are gone, and the kernel still has their rules.
        lost = self.unsaved()
        lost += ["other programs' iptables rules, if any"] if core.with_iptables(self.root) else []
        if lost:
            text = (
                "set at runtime only, firewalld's reload for the undo dropped it: {}. Set it again."
            )
            self.notes.append({"code": "PF-208", "text": text.format("; ".join(lost))})
        if not self.check:
            with self.keeping():
                self.reload()
        return {"changed": True}

    def off(self) -> Off:
        """Stop and disable firewalld, because we were told so."""
        self.look()
        text = (
            "the firewall of this node is off (peer_firewall_mode: off), every port is open to everybody. "
            "Fit for tests only; set it back to peers_range."
        )
        self.notes.append({"code": "PF-201", "text": text})
        if ufw.enabled(self.root):
            text = "ufw is active and not ours to stop: it still drops what it drops."
            self.notes.append({"code": "PF-202", "text": text})
        if not (self.running() or self.enabled()):
            return {"changed": False, "installed": self.installed()}
        self.show(UNIT, f"running: {self.running()}\nenabled: {self.enabled()}\n", "off\n")
        if not self.check:
            with self.keeping():
                self.must(STOP, "PF-117", "firewalld did not stop")
                command = ["systemctl", "disable", UNIT]
                self.must(command, "PF-117", "firewalld could not be disabled")
        return {"changed": True, "installed": True}

    def leaving(self) -> Undone:
        """Before an undo: arm what brings back the firewall of now; firewalld of ours stops, or ufw takes over."""
        self.look()
        nothing: Undone = {"changed": False, "armed": False}
        if not Point(self.root, NAME).exists():
            return nothing
        if not self.check:
            self.arm_for_undo()
        if not self.running() or self.ran_before():
            return {**nothing, "armed": self.armed}
        with_ufw = self.waits_for_ufw()
        try:
            shut = with_ufw and not self.check and self.shut_gate_if_possible()
            if not self.check:
                self.must(STOP, "PF-117", "firewalld did not stop")
            if with_ufw:
                self.ufw_on_again()
            if shut:
                self.open_gate()
        except Exception as exc:
            self.go_back(exc)
            raise
        return {"changed": True, "armed": self.armed}

    def shut_gate_if_possible(self) -> bool:
        """Shut the gate; without nftables' command and library there is none, and an undo goes through all the same."""
        ports = way_in.ssh_ports(os.environ, os.getpid()) or [22]
        return not keep.shut_gate(self.run, ports)

    def arm_for_undo(self) -> None:
        """What was there before may keep us out as well: the user has changed it since, or sshd has moved."""
        record = Point(self.root, NAME).load()
        paths = [*sorted(record["files"]), *LINKS, CARRIED]
        commands: list[str] = []
        boot: list[str] = []
        if self.running():
            # The link by which D-Bus finds firewalld comes back with the files, and systemd has not read it.
            commands = ["systemctl daemon-reload", RELOAD, *self.additions_again()]
            commands += (
                [] if theirs.flushes_all(self.root) else [own_files.tidy(self.params["zone"])]
            )
            boot = ["systemctl --no-block start " + UNIT]
        elif self.installed():
            commands = [" ".join(STOP), "systemctl daemon-reload"]
            boot = ["systemctl --no-block stop " + UNIT]
        if ufw.taken(self.root):
            paths.append(ufw.CONF)
            # before firewalld's start, which flushes its rules and leaves its INPUT DROP
            commands.insert(0, f"! test -x {ufw.COMMAND} || {ufw.COMMAND} disable")
        if not core.with_iptables(self.root):
            commands += keep.save(self.run, keep.dump(self.run))
        # as for shut_gate_if_possible: then there is nothing to open
        trials = [keep.trial()] if ufw.taken(self.root) else []
        trials = [one for one in trials if self.run(["/bin/sh", "-c", one])[0] == 0]
        commands += [keep.opening() for _ in trials]
        self.start_timer(paths, commands, boot, "undo of the peers' firewall", trials)

    def left(self) -> Undone:
        """After an undo: put back what firewalld's end flushed; from now on a new connection proves the way in."""
        word = rollback.state_of(rollback.folder(NAME))
        if word in ("restoring", "fired"):
            self.disarmed(self.params["token"])
        result: Changed = self.ufw_on_again() if self.waits_for_ufw() else {"changed": False}
        if not self.check:
            faults = keep.restore(self.run, keep.saved())
            self.faults += [
                f"[PF-128] The iptables rules of others could not be restored: {one}. Fix: load them again as you "
                "did before (`systemctl restart docker` for Docker's)."
                for one in faults
            ]
        self.stop_on_faults()
        armed = word == "armed" and not self.check
        if armed and self.params["rollback_seconds"] <= 0:
            self.disarmed(self.params["token"])
            armed = False
        elif armed:
            rollback.changed(NAME)
        elif not self.check:
            keep.forget()
        return {**result, "armed": armed}

    def waits_for_ufw(self) -> bool:
        """Say whether ufw was on before the role came and is not now."""
        if not (ufw.taken(self.root) and ufw.installed(self.root)):
            return False
        same = ufw.conf_is_of_before(self.root)
        return not same or (ufw.was_loaded(self.root) and not ufw.loaded(self.run))

    def ufw_on_again(self) -> Changed:
        """Give ufw its configuration and its rules back."""
        wanted = ufw.was_loaded(self.root)
        self.show("ufw", "disabled\n", "active\n" if wanted else "enabled at boot\n")
        if not self.check:
            if wanted and not ufw.loaded(self.run):
                command = [ufw.COMMAND, "--force", "enable"]
                self.must(command, "PF-125", "ufw could not be switched on")
            ufw.give_conf_back(self.root)
        return {"changed": True}
