# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Start, reload, stop and replace firewalld and ufw. Rules of others are kept. Standard library only."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from typing import TYPE_CHECKING

from ..files import SPACE
from ..transaction import session
from . import denials as firewall_denials
from . import firewalld, firewalld_files, firewalld_others, preserve, ufw
from .call import UNIT, FirewallRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .call import FirewallCall
    from .observed import ObservedFirewall
    from .rollback import FirewallRollback
    from .types import FirewallResult

    Pause = Iterator[None]

# On its own: systemd would also stop units with PartOf=, such as fail2ban's, and not start them again.
STOP = ["systemctl", "stop", "--job-mode=ignore-dependencies", UNIT]


class FirewallServices:
    """Switch one node between firewalld and ufw."""

    def __init__(
        self, call: FirewallCall, observed: ObservedFirewall, rollback: FirewallRollback
    ) -> None:
        self.call = call
        self.run = call.run
        self.root = call.root
        self.observed = observed
        self.rollback = rollback
        self.begun = time.time()

    def run_or_refuse(self, command: list[str], code: str, sentence: str) -> None:
        """Run a command that has to work."""
        rc, out = self.run(command)
        if rc == 0:
            return
        denials = firewall_denials.list_denials("firewalld", self.run, self.begun, self.root)
        check = "See `journalctl -u firewalld`."
        if denials:
            check = (
                "SELinux blocks it: {}. Fix: label its files (`restorecon -Rv /etc/firewalld /usr/lib/firewalld`) "
                "or fix the policy. Check: `ausearch -m avc -ts recent`.".format(
                    "; ".join(denials[:3])
                )
            )
        said = "[{}] {}: `{}` says {!r}. {}{}"
        back = "Fullmesh restored the earlier state. " if self.rollback.armed else ""
        raise FirewallRefusedError(
            said.format(code, sentence, " ".join(command), out.strip(SPACE), back, check)
        )

    @contextlib.contextmanager
    def keep_foreign_rules(self) -> Pause:
        """Restore foreign state that firewalld drops: run-time networks and bans in zones, and iptables rules.

        If firewalld uses its iptables backend (PF-126), which an undo may meet, it shares the chains, and no rules are
        restored.
        """
        before = preserve.dump_iptables(self.run)
        others = {} if firewalld.has_iptables_backend(self.root) else before
        added = (
            self.observed.find_runtime_additions()
            if self.observed.is_running()
            else firewalld_others.find_container_sources(self.run, before.values())
        )
        yield
        self.add_to_zones(added)
        faults = preserve.restore_iptables(self.run, others)
        if faults:
            raise FirewallRefusedError(
                "[PF-128] firewalld flushed the iptables rules of others, and they could not be restored: {}. "
                "Fix: load them again as you did before (`systemctl restart docker` for Docker's).".format(
                    "; ".join(faults)
                )
            )

    def add_to_zones(self, added: Sequence[firewalld_others.Addition]) -> None:
        """Add the previous additions of others to zones, unless firewalld is stopped."""
        if added and self.run(["firewall-cmd", "--state"])[0] != 0:
            return
        for zone, what, value in added:
            command = firewalld_others.build_add_command(zone, what, value)
            rc, out = self.run(command)
            # Another program may have added it already, and a different zone in a file is intended
            if rc != 0 and "ALREADY_ENABLED" not in out and "ZONE_CONFLICT" not in out:
                why = f"{value}, which another program had added to zone {zone} at runtime, could not be added again"
                raise FirewallRefusedError(
                    f"[PF-117] {why}: {out.strip(SPACE)!r}. Check: `{shlex.join(command)}`."
                )

    def start_or_reload(self, reload: bool) -> None:
        """Reload once, or start for the first time. A reload keeps established connections, firewall-cmd(1)."""
        # A flushed ruleset cannot be reloaded: firewalld fails without its table.
        lost = reload and not firewalld.read_nftables_table(self.run)
        if reload and not lost:
            self.reload_firewalld()
        if lost or not self.observed.is_running():
            verb = "restart" if lost else "start"
            # apt's policy_rc_d denied this reload. Without it, D-Bus does not know the user of a newly installed
            # polkit, and firewalld waits for polkit until it fails (Debian 13).
            self.run(["systemctl", "reload", "dbus.service"])
            self.run_or_refuse(["systemctl", verb, UNIT], "PF-117", f"firewalld did not {verb}")
            # systemd considers it started once it has its D-Bus name, but it answers only after loading the rules. On a
            # busy node that takes longer than D-Bus waits (25 s, seen at a load of 20 on two cores).
            if "Did not receive a reply" in self.run(["firewall-cmd", "--state"])[1]:
                self.run(["firewall-cmd", "--state"])
            self.run_or_refuse(
                ["firewall-cmd", "--state"], "PF-117", "firewalld did not load its rules"
            )
        if not self.observed.is_enabled():
            self.run_or_refuse(
                ["systemctl", "enable", UNIT], "PF-117", "firewalld could not be enabled"
            )

    def reload_firewalld(self) -> None:
        """Make firewalld read its files again, and only them."""
        self.run_or_refuse(["firewall-cmd", "--reload"], "PF-117", "firewalld failed to reload")
        if not firewalld_others.has_full_flush(self.root):
            # The verification finds entries that it cannot remove.
            cleanup = firewalld_files.build_ipset_cleanup(self.call.params["zone"])
            self.run(["/bin/sh", "-c", cleanup])

    def stop_firewalld(self) -> None:
        """Stop firewalld, and keep the rules of other programs."""
        self.run_or_refuse(STOP, "PF-117", "firewalld did not stop")

    def disable_firewalld(self) -> None:
        """Keep it from starting at boot."""
        command = ["systemctl", "disable", UNIT]
        self.run_or_refuse(command, "PF-117", "firewalld could not be disabled")

    def shut_gate(self, ssh_ports: list[int]) -> None:
        """Block new connections except ssh. The rollback unblocks them last, after ufw's rules are loaded."""
        said = preserve.block_new_connections(self.run, ssh_ports)
        if said:
            raise FirewallRefusedError(
                f"[PF-125] ufw was left on, because it could not be replaced until firewalld runs: {said!r}. "
                "Fix: install nftables and run again."
            )

    def shut_gate_if_possible(self) -> bool:
        """Block new connections if nftables' command or library exists. An undo continues without it."""
        ports = session.list_ssh_ports(os.environ, os.getpid()) or [22]
        return not preserve.block_new_connections(self.run, ports)

    def open_gate(self) -> None:
        """Unblock new connections."""
        said = preserve.unblock_new_connections(self.run)
        if said:
            raise FirewallRefusedError(
                f"[PF-130] The table inet {preserve.GATE}, which lets nothing new in but ssh while one firewall "
                f"replaces another, could not be removed: {said!r}. Fix: nft '{preserve.OPEN}'."
            )

    def disable_ufw(self) -> None:
        """Switch ufw off, now that firewalld has the rules: at no moment is the node without a firewall."""
        ufw.save_ufw_state(self.root, ufw.is_ufw_loaded(self.run))
        self.run_or_refuse([ufw.COMMAND, "disable"], "PF-125", "ufw could not be disabled")

    def restore_ufw(self) -> FirewallResult:
        """Restore ufw's configuration and its rules."""
        wanted = ufw.was_ufw_loaded(self.root)
        self.call.add_diff("ufw", "disabled\n", "active\n" if wanted else "enabled at boot\n")
        if not self.call.check:
            if wanted and not ufw.is_ufw_loaded(self.run):
                command = [ufw.COMMAND, "--force", "enable"]
                self.run_or_refuse(command, "PF-125", "ufw could not be enabled")
            ufw.restore_ufw_conf(self.root)
        return {"changed": True}
