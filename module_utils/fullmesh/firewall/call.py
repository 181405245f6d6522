# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""One call of the peers' firewall: its request, how it runs commands, and what it reports. Stdlib only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..answer import Diff, Note
    from ..commands import Runner
    from .types import FirewallParams

UNIT = "firewalld.service"
NAME = "peer_firewall"
# What listened before the first start and is open to the peers since; lies beside the undo point and goes with it.
CARRIED = "/var/lib/fullmesh/undo/peer_firewall/listeners.json"


class FirewallRefusedError(Exception):
    """Coded sentences for the user."""


class FirewallCall:
    """One call on one node, which all parts of the firewall share.

    Attributes:
        faults: coded sentences, why nothing is changed.
        notes: coded remarks, for the report.
        diff: what changes.
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
