# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage the peers' ports in firewalld on one node. peer_zone calls one method for each state.

Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import ufw
from .call import UNIT, FirewallCall, FirewallRefusedError
from .change import FirewallChange
from .checks import FirewallChecks
from .observed import ObservedFirewall
from .rollback import FirewallRollback
from .services import FirewallServices
from .undo import FirewallUndo

if TYPE_CHECKING:
    from ..commands import Runner
    from .types import (
        FirewallOffResult,
        FirewallOpenResult,
        FirewallParams,
        FirewallResult,
        FirewallUndoResult,
        RollbackEndResult,
    )

__all__ = ["UNIT", "Firewall", "FirewallRefusedError"]


class Firewall:
    """One call on one node, and its parts."""

    def __init__(self, params: FirewallParams, check: bool, run: Runner, root: str = "") -> None:
        self.call = FirewallCall(params, check, run, root)
        self.observed = ObservedFirewall(self.call)
        self.checks = FirewallChecks(self.call, self.observed)
        self.rollback = FirewallRollback(self.call, self.observed)
        self.services = FirewallServices(self.call, self.observed, self.rollback)
        self.change = FirewallChange(
            self.call, self.observed, self.checks, self.rollback, self.services
        )
        self.undo = FirewallUndo(self.call, self.observed, self.rollback, self.services)

    def present(self) -> FirewallOpenResult:
        """Open the ports."""
        return self.change.open_ports()

    def confirmed(self) -> RollbackEndResult:
        """Disarm the rollback of an earlier call."""
        return self.rollback.confirm()

    def leaving(self) -> FirewallUndoResult:
        """Begin an undo."""
        return self.undo.begin()

    def reloaded(self) -> FirewallResult:
        """Load the state that an undo restored."""
        return self.undo.reload_restored()

    def left(self) -> FirewallUndoResult:
        """Finish an undo."""
        return self.undo.finish()

    def off(self) -> FirewallOffResult:
        """Stop and disable firewalld, as the user requested."""
        call, observed = self.call, self.observed
        observed.read_state()
        call.add_note(
            "PF-201",
            "the firewall of this node is off (peer_firewall_mode: off), so every port is open to all clients. "
            "Use this for tests only, then set peers_range again.",
        )
        if ufw.is_ufw_enabled(call.root):
            text = "ufw is active and belongs to the user, so it still drops packets."
            call.add_note("PF-202", text)
        running, enabled = observed.is_running(), observed.is_enabled()
        if not (running or enabled):
            return {"changed": False, "installed": observed.is_installed()}
        call.add_diff(UNIT, f"running: {running}\nenabled: {enabled}\n", "off\n")
        if not call.check:
            with self.services.keep_foreign_rules():
                self.services.stop_firewalld()
                self.services.disable_firewalld()
        return {"changed": True, "installed": True}
