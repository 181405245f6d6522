# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Hold one call of the peers' firewall: its request, its commands, and its reports. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..answer import Diff, Note
    from ..commands import Runner
    from .types import FirewallParams

UNIT = "firewalld.service"
NAME = "peer_firewall"
# Listeners from before the first start that peers may still reach. In the folder of the undo point, and removed with
# it.
CARRIED = "/var/lib/fullmesh/undo/peer_firewall/listeners.json"


class FirewallRefusedError(Exception):
    """Coded sentences for the user."""


class FirewallCall:
    """One call on one node, which all parts of the firewall share.

    Attributes:
        faults: coded sentences about reasons to change nothing.
        notes: coded remarks for the report.
        diff: the changes.
    """

    def __init__(self, params: FirewallParams, check: bool, run: Runner, root: str = "") -> None:
        self.params = params
        self.check = check
        self.run = run
        self.root = root
        self.faults: list[str] = []
        self.notes: list[Note] = []
        self.diff: list[Diff] = []

    def add_note(self, code: str, text: str) -> None:
        """Keep one remark for the report."""
        self.notes.append({"code": code, "text": text})

    def add_diff(self, name: str, before: str, after: str) -> None:
        """Keep one difference."""
        self.diff.append(
            {"before": before, "after": after, "before_header": name, "after_header": name}
        )

    def stop_on_faults(self) -> None:
        """End with every fault found so far."""
        if self.faults:
            raise FirewallRefusedError("\n".join(self.faults))
