# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the steps before, in and after an undo of the peers' firewall. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..state.record import UndoPoint
from ..transaction import engine
from . import firewalld, firewalld_files, firewalld_others, preserve, ufw
from .call import CARRIED, NAME, UNIT
from .change import LINKS, RELOAD
from .services import STOP

if TYPE_CHECKING:
    from .call import FirewallCall
    from .observed import ObservedFirewall
    from .rollback import FirewallRollback
    from .services import FirewallServices
    from .types import FirewallResult, FirewallUndoResult


class FirewallUndo:
    """The undo of one node, as a transaction of its own."""

    def __init__(
        self,
        call: FirewallCall,
        observed: ObservedFirewall,
        rollback: FirewallRollback,
        services: FirewallServices,
    ) -> None:
        self.call = call
        self.run = call.run
        self.root = call.root
        self.observed = observed
        self.rollback = rollback
        self.services = services

    def begin(self) -> FirewallUndoResult:
        """Before an undo: arm a rollback to the present firewall.

        Then stop Fullmesh's firewalld, or hand over to ufw.
        """
        self.observed.read_state()
        nothing: FirewallUndoResult = {"changed": False, "armed": False}
        if not UndoPoint(self.root, NAME).exists():
            return nothing
        if not self.call.check:
            self.arm_rollback()
        if not self.observed.is_running() or self.observed.ran_before():
            return {**nothing, "armed": self.rollback.armed}
        with_ufw = self.observed.waits_for_ufw()
        try:
            shut = with_ufw and not self.call.check and self.services.shut_gate_if_possible()
            if not self.call.check:
                self.services.stop_firewalld()
            if with_ufw:
                self.services.restore_ufw()
            if shut:
                self.services.open_gate()
        except Exception as exc:
            self.rollback.revert_change(exc)
            raise
        return {"changed": True, "armed": self.rollback.armed}

    def arm_rollback(self) -> None:
        """Arm the rollback: the old state may block this connection, after changes by the user or of sshd's port."""
        record = UndoPoint(self.root, NAME).load()
        paths = [*sorted(record["files"]), *LINKS, CARRIED]
        commands: list[str] = []
        boot: list[str] = []
        if self.observed.is_running():
            # The link by which D-Bus finds firewalld comes back with the files, and systemd has not read it.
            commands = ["systemctl daemon-reload", RELOAD, *self.rollback.list_addition_commands()]
            commands += (
                []
                if firewalld_others.has_full_flush(self.root)
                else [firewalld_files.build_ipset_cleanup(self.call.params["zone"])]
            )
            boot = ["systemctl --no-block start " + UNIT]
        elif self.observed.is_installed():
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
        self.rollback.arm(paths, commands, boot, "undo of the peers' firewall", trials)

    def reload_restored(self) -> FirewallResult:
        """Make a running firewalld read its files again."""
        self.observed.read_state()
        if not self.observed.is_running():
            return {"changed": False}
        # An undo continues in any case: Fullmesh's files are gone, and the kernel still has their rules.
        lost = self.observed.list_unsaved_settings()
        lost += (
            ["other programs' iptables rules, if any"]
            if firewalld.has_iptables_backend(self.root)
            else []
        )
        if lost:
            text = "The undo's reload of firewalld dropped this run-time setting: {}. Fix: set it again."
            self.call.add_note("PF-208", text.format("; ".join(lost)))
        if not self.call.check:
            with self.services.keep_foreign_rules():
                self.services.reload_firewalld()
        return {"changed": True}

    def finish(self) -> FirewallUndoResult:
        """After an undo: restore rules that firewalld's stop flushed. A new connection can now confirm."""
        check, params = self.call.check, self.call.params
        word = engine.state_of(engine.folder(NAME))
        if word in ("restoring", "fired"):
            self.rollback.disarm(params["token"])
        waits = self.observed.waits_for_ufw()
        result: FirewallResult = self.services.restore_ufw() if waits else {"changed": False}
        if not check:
            faults = preserve.restore_iptables(self.run, preserve.read_saved_iptables())
            self.call.faults += [
                f"[PF-128] The iptables rules of others could not be restored: {one}. Fix: load them again as you "
                "did before (`systemctl restart docker` for Docker's)."
                for one in faults
            ]
        self.call.stop_on_faults()
        armed = word == "armed" and not check
        if armed and params["rollback_seconds"] <= 0:
            self.rollback.disarm(params["token"])
            armed = False
        elif armed:
            engine.mark_change_applied(NAME)
        elif not check:
            preserve.remove_saved_iptables()
        return {**result, "armed": armed}
