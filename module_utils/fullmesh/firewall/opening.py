# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The plan's ports opened to the peers: one transaction, proved in the kernel. Stdlib only."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from typing import TYPE_CHECKING

from ..files import SPACE, write_file_atomically, write_or_remove_file
from ..transaction import engine, session
from . import firewalld, firewalld_files, firewalld_others, preserve, ufw
from .node import CARRIED, NAME, UNIT, make_refusal
from .refusals import FirewallRefusals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .types import FirewallOpenResult, FirewallReport, FirewallSettings, RollbackEndResult

    Pause = Iterator[None]

# What `systemctl enable` makes, by the [Install] section of the unit.
LINKS = (
    "/etc/systemd/system/multi-user.target.wants/firewalld.service",
    "/etc/systemd/system/dbus-org.fedoraproject.FirewallD1.service",
)
RELOAD = "firewall-cmd --reload || systemctl restart " + UNIT
# Alone: systemd would stop what calls itself a part of it as well (PartOf=), as fail2ban does, and not start it again.
STOP = ["systemctl", "stop", "--job-mode=ignore-dependencies", UNIT]
# Where nobody has to confirm, for the change itself: systemd gives a start 90 s, D-Bus 25 s an answer.
ALONE_SECONDS = 300


class FirewallOpening(FirewallRefusals):
    """The change of one node, its rollback and its proof."""

    def present(self) -> FirewallOpenResult:
        """Open the ports."""
        self.look()
        want = self.want()
        self.refuse(want)
        self.stop_on_faults()
        wanted = firewalld_files.render_own_files(want)
        moved = {path: text for path, text in wanted.items() if self.differs(path, text)}
        told = self.describe(want, wanted)
        if not self.installed():
            # Once firewalld is here the next call says all of this again.
            self.notes = self.notes if self.check else []
            self.show("package firewalld", "absent\n", "installed, running, enabled\n")
            return {**told, "changed": True, "needs_package": True, "armed": False}
        stale = [] if moved or not self.running() else self.runtime_faults(want)
        if self.takes_ufw():
            self.show("ufw", "active\n", "disabled\n")
            self.remark_ufw(want)
        if moved or stale or self.takes_ufw() or not (self.running() and self.enabled()):
            self.act(want, moved, stale)
        return {
            **told,
            "changed": self.changed,
            "needs_package": False,
            "armed": self.armed,
        }

    def act(self, want: FirewallSettings, moved: dict[str, str], stale: list[str]) -> None:
        """Write, start or reload, and prove."""
        self.changed = True
        if stale:
            self.show("firewalld at runtime", "\n".join(stale) + "\n", "as in the files\n")
        reload = self.running() and bool(moved or stale)
        if reload:
            self.refuse_reload()
        if moved or not self.running():
            self.validate(moved)
        self.stop_on_faults()
        if self.check:
            return
        if reload or self.takes_ufw() or not self.running():
            self.arm(want)
        try:
            self.change(want, moved, reload)
        except Exception as exc:
            self.go_back(exc)
            raise
        if self.armed and self.params["rollback_seconds"] <= 0:
            self.disarmed()
            self.armed = False
        elif self.armed:
            engine.mark_change_applied(NAME)

    def change(self, want: FirewallSettings, moved: dict[str, str], reload: bool) -> None:
        """Do it: at no moment is the node open that was not, and nobody's rules get lost."""
        if self.takes_ufw():
            # ufw has to go first: firewalld's start would flush its rules and leave its INPUT DROP, which locks out.
            self.shut_gate(want)
            self.take_ufw()
        if self.carried and self.first_start():
            write_file_atomically(self.root + CARRIED, json.dumps(self.carried) + "\n")
        self.write(moved)
        with self.keeping():
            self.start_or_reload(reload)
        self.prove(want)
        if self.takes_ufw():
            self.open_gate()
        # Once more: what firewalld's direct rules bring is in the kernel only now.
        self.refuse_beside(want, False)
        self.stop_on_faults()

    def write(self, moved: dict[str, str]) -> None:
        """Write the files."""
        for path in sorted(moved) if not self.check else ():
            write_or_remove_file(self.root + path, moved[path])

    def shut_gate(self, want: FirewallSettings) -> None:
        """Let nothing new in but ssh; the rollback opens it last, after ufw's rules are in."""
        said = preserve.block_new_connections(self.run, want["ssh_ports"])
        if said:
            raise make_refusal(
                [
                    f"[PF-125] ufw was left on: nothing could be put in its place until firewalld runs: {said!r}. "
                    "Install nftables and run again."
                ]
            )

    def open_gate(self) -> None:
        """Let in what the firewall lets in."""
        said = preserve.unblock_new_connections(self.run)
        if said:
            raise make_refusal(
                [
                    f"[PF-130] The table inet {preserve.GATE}, which lets nothing new in but ssh while one firewall "
                    f"replaces another, could not be removed: {said!r}. Fix: nft '{preserve.OPEN}'."
                ]
            )

    def take_ufw(self) -> None:
        """Switch ufw off, now that firewalld has the rules: at no moment is the node without a firewall."""
        if not self.takes_ufw():
            return
        ufw.save_ufw_state(self.root, ufw.is_ufw_loaded(self.run))
        self.must([ufw.COMMAND, "disable"], "PF-125", "ufw could not be switched off")

    @contextlib.contextmanager
    def keeping(self) -> Pause:
        """Put back what firewalld drops of others: networks and bans in zones at runtime only, and iptables rules.

        Not the rules where its iptables backend (PF-126) shares their chains, which an undo may still meet.
        """
        before = preserve.dump_iptables(self.run)
        others = {} if firewalld.has_iptables_backend(self.root) else before
        runs, saved = self.running(), before.values()
        added = (
            self.additions() if runs else firewalld_others.find_container_sources(self.run, saved)
        )
        yield
        self.add_again(added)
        faults = preserve.restore_iptables(self.run, others)
        if faults:
            raise make_refusal(
                [
                    "[PF-128] firewalld flushed the iptables rules of others, and they could not be restored: {}. "
                    "Fix: load them again as you did before (`systemctl restart docker` for Docker's).".format(
                        "; ".join(faults)
                    )
                ]
            )

    def add_again(self, added: list[firewalld_others.Addition]) -> None:
        """Add to zones what others had added; not where firewalld was told to stop."""
        if added and self.run(["firewall-cmd", "--state"])[0] != 0:
            return
        for zone, what, value in added:
            command = firewalld_others.build_add_command(zone, what, value)
            rc, out = self.run(command)
            # whoever added it may have been faster, and where a file has it in another zone that is meant
            if rc != 0 and "ALREADY_ENABLED" not in out and "ZONE_CONFLICT" not in out:
                why = f"{value}, which somebody had put into zone {zone} at runtime, could not be put there again"
                raise make_refusal(
                    [f"[PF-117] {why}: {out.strip(SPACE)!r}. Look at `{shlex.join(command)}`."]
                )

    def start_or_reload(self, reload: bool) -> None:
        """One reload, or the first start; a reload keeps established connections, firewall-cmd(1)."""
        # A ruleset that somebody flushed cannot be reloaded: firewalld stumbles over the missing table.
        lost = reload and not firewalld.read_nftables_table(self.run)
        if reload and not lost:
            self.reload()
        if lost or not self.running():
            verb = "restart" if lost else "start"
            self.must(["systemctl", verb, UNIT], "PF-117", f"firewalld did not {verb}")
            # systemd calls it started once it has its D-Bus name; it answers there when the rules are loaded.
            # On a busy node that takes longer than D-Bus waits (25 s, seen at a load of 20 on two cores).
            if "Did not receive a reply" in self.run(["firewall-cmd", "--state"])[1]:
                self.run(["firewall-cmd", "--state"])
            self.must(["firewall-cmd", "--state"], "PF-117", "firewalld did not load its rules")
        if not self.enabled():
            self.must(["systemctl", "enable", UNIT], "PF-117", "firewalld could not be enabled")

    def reload(self) -> None:
        """Make firewalld read its files again, and only them."""
        self.must(["firewall-cmd", "--reload"], "PF-117", "firewalld did not take the reload")
        if not firewalld_others.has_full_flush(self.root):
            # What it cannot take out is seen by the proof.
            self.run(["/bin/sh", "-c", firewalld_files.build_ipset_cleanup(self.params["zone"])])

    def prove(self, want: FirewallSettings) -> None:
        """Compare the kernel's rules with the files."""
        found = self.runtime_faults(want)
        if found:
            raise make_refusal(
                [
                    "[PF-118] firewalld runs, and the kernel's rules are not what its files say: {}. Everything was "
                    "put back. See `journalctl -u firewalld` and `nft list table inet firewalld`.".format(
                        "; ".join(found)
                    )
                ]
            )

    def arm(self, want: FirewallSettings) -> None:
        """Arm the rollback."""
        paths = [*sorted(firewalld_files.map_own_paths(want["zone"]).values()), *LINKS, CARRIED]
        commands = [RELOAD, *self.additions_again()]
        if not firewalld_others.has_full_flush(self.root):
            commands.append(firewalld_files.build_ipset_cleanup(want["zone"]))
        boot: list[str] = []
        if not self.running():
            # It would be started all the same at that boot: systemd has the job already.
            boot = ["systemctl --no-block stop " + UNIT]
            commands = [" ".join(STOP), "systemctl daemon-reload"]
        if self.takes_ufw():
            paths += [ufw.CONF, ufw.get_ufw_record(self.root).path[len(self.root) :]]
        commands += preserve.save_iptables(self.run, preserve.dump_iptables(self.run))
        trials = []
        if self.takes_ufw():
            commands.append(preserve.build_unblock_command())
            trials.append(preserve.build_unblock_trial())
        self.start_timer(paths, commands, boot, "the peers' firewall", trials)

    def start_timer(
        self,
        paths: list[str],
        commands: list[str],
        boot: list[str],
        what: str,
        trials: Sequence[str] = (),
    ) -> None:
        """Arm the rollback: *paths* as they are now, then *commands*, or *boot* after a reboot in between."""
        seconds = int(self.params["rollback_seconds"])
        seconds = seconds if seconds > 0 else ALONE_SECONDS
        token = self.params["token"]
        try:
            engine.arm(
                self.run,
                NAME,
                seconds,
                paths,
                commands,
                boot=boot,
                trials=trials,
                what=what,
                token=token,
            )
        except (engine.RollbackError, OSError) as exc:
            raise make_refusal(
                [
                    "[PF-119] the guard that puts the firewall back could not be started: "
                    f"{exc}. Nothing was changed. "
                    "Look at `systemctl status` on this node."
                ]
            ) from exc
        self.armed = True

    def additions_again(self) -> list[str]:
        """Commands for a rollback: what others have added to zones at runtime only."""
        found = self.additions() if self.running() else []
        return [f"{shlex.join(firewalld_others.build_add_command(*one))} || true" for one in found]

    def go_back(self, cause: Exception) -> None:
        """Put everything back at once instead of waiting for the timer; say what could not be."""
        report = engine.undone(self.run, NAME, "the change failed") if self.armed else None
        left = report.get("faults", []) if report else []
        if left:
            text = "{} But this could not be put back: {}.".format(cause, "; ".join(left))
            raise make_refusal([text]) from cause

    def confirmed(self) -> RollbackEndResult:
        """Disarm the rollback over a connection that the new rules let in; one from before passes them by."""
        words = session.find_ssh_session(os.environ, os.getppid())
        if not self.check and engine.needs_fresh_connection(NAME, words):
            raise make_refusal([engine.OLDER])
        return self.disarmed(self.params["token"])

    def disarmed(self, token: str | None = None) -> RollbackEndResult:
        """Disarm the rollback; *token* where another call has armed it."""
        try:
            word = "idle" if self.check else engine.disarm(self.run, NAME, token)
        except engine.RollbackError as exc:
            raise make_refusal([str(exc)]) from exc
        preserve.remove_saved_iptables()
        if word == "fired":
            raise make_refusal(
                [
                    "[PF-120] nobody came back in time, so this node has put its firewall back as it was. "
                    "Raise peer_firewall_rollback_seconds if it is only slow, and run again."
                ]
            )
        return {"changed": word == "disarmed", "rollback": word}

    def describe(self, want: FirewallSettings, wanted: dict[str, str]) -> FirewallReport:
        """Assemble what the role tells the manifest and the report."""
        controllers = firewalld_files.group_by_family(want["controllers"])
        return {
            "files": sorted(path for path, text in wanted.items() if text),
            "ssh_ports": want["ssh_ports"],
            "controllers": [one for family in sorted(controllers) for one in controllers[family]],
            "default_zone": want["default_zone"],
            "ports": want["ports"],
            "ufw": self.takes_ufw() or ufw.is_ufw_replaced(self.root),
        }
