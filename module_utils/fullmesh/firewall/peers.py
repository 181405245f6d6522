# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The cluster's ports for its peers in firewalld, one node: opened, off, reloaded, given back. Stdlib only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import firewalld as core
from . import preserve as keep
from . import ufw
from .node import UNIT, RefusedError
from .opening import Opening

if TYPE_CHECKING:
    from .types import Changed, Off

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
        lost += core.rules_beside(self.run) if core.with_iptables(self.root) else []
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
                command = ["systemctl", "disable", "--now", UNIT]
                self.must(command, "PF-117", "firewalld did not stop")
        return {"changed": True, "installed": True}

    def leaving(self) -> Changed:
        """Before an undo: note other people's rules, and change hands with ufw where firewalld came with us."""
        self.look()
        if not self.check and self.running() and not core.with_iptables(self.root):
            keep.save(self.run, keep.dump(self.run))
        if not self.waits_for_ufw() or not self.running() or self.ran_before():
            return {"changed": False}
        if not self.check:
            self.must(["systemctl", "stop", UNIT], "PF-117", "firewalld did not stop")
        return self.ufw_on_again()

    def left(self) -> Changed:
        """After an undo: put back what firewalld's end flushed."""
        result: Changed = self.ufw_on_again() if self.waits_for_ufw() else {"changed": False}
        if not self.check:
            faults = keep.restore(self.run, keep.saved())
            keep.forget()
            self.faults += [f"[PF-128] the iptables rules of others: {one}." for one in faults]
        self.stop_on_faults()
        return result

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
