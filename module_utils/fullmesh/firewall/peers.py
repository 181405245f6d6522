# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The cluster's ports for its peers in firewalld, one node: opened, off, reloaded, given back. Stdlib only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..state.record import UndoPoint
from ..transaction import engine, session
from . import firewalld, firewalld_files, firewalld_others, preserve, ufw
from .node import CARRIED, NAME, UNIT, FirewallRefusedError
from .opening import LINKS, RELOAD, STOP, FirewallOpening

if TYPE_CHECKING:
    from .types import FirewallOffResult, FirewallResult, FirewallUndoResult

__all__ = ["UNIT", "Firewall", "FirewallRefusedError"]


class Firewall(FirewallOpening):
    """One run on one node, in any of the states that a role may want."""

    def reloaded(self) -> FirewallResult:
        """Make a running firewalld read its files again."""
        self.look()
        if not self.running():
            return {"changed": False}
        # An undo has to go through all the same: our files are gone, and the kernel still has their rules.
        lost = self.unsaved()
        lost += (
            ["other programs' iptables rules, if any"]
            if firewalld.has_iptables_backend(self.root)
            else []
        )
        if lost:
            text = (
                "set at runtime only, firewalld's reload for the undo dropped it: {}. Set it again."
            )
            self.notes.append({"code": "PF-208", "text": text.format("; ".join(lost))})
        if not self.check:
            with self.keeping():
                self.reload()
        return {"changed": True}

    def off(self) -> FirewallOffResult:
        """Stop and disable firewalld, because we were told so."""
        self.look()
        text = (
            "the firewall of this node is off (peer_firewall_mode: off), every port is open to everybody. "
            "Fit for tests only; set it back to peers_range."
        )
        self.notes.append({"code": "PF-201", "text": text})
        if ufw.is_ufw_enabled(self.root):
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

    def leaving(self) -> FirewallUndoResult:
        """Before an undo: arm what brings back the firewall of now; firewalld of ours stops, or ufw takes over."""
        self.look()
        nothing: FirewallUndoResult = {"changed": False, "armed": False}
        if not UndoPoint(self.root, NAME).exists():
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
        ports = session.list_ssh_ports(os.environ, os.getpid()) or [22]
        return not preserve.block_new_connections(self.run, ports)

    def arm_for_undo(self) -> None:
        """What was there before may keep us out as well: the user has changed it since, or sshd has moved."""
        record = UndoPoint(self.root, NAME).load()
        paths = [*sorted(record["files"]), *LINKS, CARRIED]
        commands: list[str] = []
        boot: list[str] = []
        if self.running():
            # The link by which D-Bus finds firewalld comes back with the files, and systemd has not read it.
            commands = ["systemctl daemon-reload", RELOAD, *self.additions_again()]
            commands += (
                []
                if firewalld_others.has_full_flush(self.root)
                else [firewalld_files.build_ipset_cleanup(self.params["zone"])]
            )
            boot = ["systemctl --no-block start " + UNIT]
        elif self.installed():
            commands = [" ".join(STOP), "systemctl daemon-reload"]
            boot = ["systemctl --no-block stop " + UNIT]
        if ufw.is_ufw_replaced(self.root):
            paths.append(ufw.CONF)
            # before firewalld's start, which flushes its rules and leaves its INPUT DROP
            commands.insert(0, f"! test -x {ufw.COMMAND} || {ufw.COMMAND} disable")
        if not firewalld.has_iptables_backend(self.root):
            commands += preserve.save_iptables(self.run, preserve.dump_iptables(self.run))
        # as for shut_gate_if_possible: then there is nothing to open
        trials = [preserve.build_unblock_trial()] if ufw.is_ufw_replaced(self.root) else []
        trials = [one for one in trials if self.run(["/bin/sh", "-c", one])[0] == 0]
        commands += [preserve.build_unblock_command() for _ in trials]
        self.start_timer(paths, commands, boot, "undo of the peers' firewall", trials)

    def left(self) -> FirewallUndoResult:
        """After an undo: put back what firewalld's end flushed; from now on a new connection proves the way in."""
        word = engine.state_of(engine.folder(NAME))
        if word in ("restoring", "fired"):
            self.disarmed(self.params["token"])
        result: FirewallResult = self.ufw_on_again() if self.waits_for_ufw() else {"changed": False}
        if not self.check:
            faults = preserve.restore_iptables(self.run, preserve.read_saved_iptables())
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
            engine.mark_change_applied(NAME)
        elif not self.check:
            preserve.remove_saved_iptables()
        return {**result, "armed": armed}

    def waits_for_ufw(self) -> bool:
        """Say whether ufw was on before the role came and is not now."""
        if not (ufw.is_ufw_replaced(self.root) and ufw.is_ufw_installed(self.root)):
            return False
        same = ufw.is_ufw_conf_original(self.root)
        return not same or (ufw.was_ufw_loaded(self.root) and not ufw.is_ufw_loaded(self.run))

    def ufw_on_again(self) -> FirewallResult:
        """Give ufw its configuration and its rules back."""
        wanted = ufw.was_ufw_loaded(self.root)
        self.show("ufw", "disabled\n", "active\n" if wanted else "enabled at boot\n")
        if not self.check:
            if wanted and not ufw.is_ufw_loaded(self.run):
                command = [ufw.COMMAND, "--force", "enable"]
                self.must(command, "PF-125", "ufw could not be switched on")
            ufw.restore_ufw_conf(self.root)
        return {"changed": True}
