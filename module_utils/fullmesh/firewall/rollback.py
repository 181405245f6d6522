# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage the peers' firewall rollback: arm before a change, disarm on a new connection. Standard library only."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

from ..transaction import engine, session
from . import firewalld_others, preserve
from .call import NAME, FirewallRefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .call import FirewallCall
    from .observed import ObservedFirewall
    from .types import RollbackEndResult

# Time for a change without confirmation: systemd gives a start 90 s, D-Bus 25 s an answer.
ALONE_SECONDS = 300


class FirewallRollback:
    """The node's guard.

    Attributes:
        armed: the node restores everything by itself unless a new connection confirms.
    """

    def __init__(self, call: FirewallCall, observed: ObservedFirewall) -> None:
        self.call = call
        self.observed = observed
        self.armed = False

    def arm(
        self,
        paths: list[str],
        commands: list[str],
        boot: list[str],
        what: str,
        trials: Sequence[str] = (),
    ) -> None:
        """Arm the rollback: *paths* as they are now, then *commands*, or *boot* after a reboot in between."""
        seconds = int(self.call.params["rollback_seconds"])
        try:
            engine.arm(
                self.call.run,
                NAME,
                seconds if seconds > 0 else ALONE_SECONDS,
                paths,
                commands,
                boot=boot,
                trials=trials,
                what=what,
                token=self.call.params["token"],
            )
        except (engine.RollbackError, OSError) as exc:
            raise FirewallRefusedError(
                "[PF-119] The guard that restores the firewall could not be started: "
                f"{exc}. Nothing was changed. "
                "Check: `systemctl status` on this node."
            ) from exc
        self.armed = True

    def list_addition_commands(self) -> list[str]:
        """Return the rollback's commands for run-time additions of others to zones."""
        found = self.observed.find_runtime_additions() if self.observed.is_running() else []
        return [f"{shlex.join(firewalld_others.build_add_command(*one))} || true" for one in found]

    def revert_change(self, cause: Exception) -> None:
        """Restore everything at once instead of waiting for the timer. Report failures."""
        report = engine.undone(self.call.run, NAME, "the change failed") if self.armed else None
        left = report.get("faults", []) if report else []
        if left:
            text = "{} But this could not be restored: {}.".format(cause, "; ".join(left))
            raise FirewallRefusedError(text) from cause

    def wait_for_confirmation(self) -> None:
        """After a change: let the timer run, or disarm it if no confirmation is needed."""
        if self.armed and self.call.params["rollback_seconds"] <= 0:
            self.disarm()
            self.armed = False
        elif self.armed:
            engine.mark_change_applied(NAME)

    def confirm(self) -> RollbackEndResult:
        """Disarm over a connection that the new rules accepted. Older connections bypass them."""
        words = session.find_ssh_session(os.environ, os.getppid())
        if not self.call.check and engine.needs_fresh_connection(NAME, words):
            raise FirewallRefusedError(engine.OLDER)
        return self.disarm(self.call.params["token"])

    def disarm(self, token: str | None = None) -> RollbackEndResult:
        """Disarm the rollback. *token* if another call has armed it."""
        try:
            word = "idle" if self.call.check else engine.disarm(self.call.run, NAME, token)
        except engine.RollbackError as exc:
            raise FirewallRefusedError(str(exc)) from exc
        preserve.remove_saved_iptables()
        if word == "fired":
            raise FirewallRefusedError(
                "[PF-120] The change was not confirmed in time, so this node has restored its firewall. "
                "Fix: raise peer_firewall_rollback_seconds if it is only slow, and run again."
            )
        return {"changed": word == "disarmed", "rollback": word}
