# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Open the plan's ports to the peers in one transaction, and verify it in the kernel. Standard library only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..answer import diff_file
from ..files import read_text_or_empty, write_file_atomically, write_or_remove_file
from . import firewalld_files, firewalld_others, preserve, ufw
from .call import CARRIED, UNIT, FirewallRefusedError
from .services import STOP

if TYPE_CHECKING:
    from .call import FirewallCall
    from .checks import FirewallChecks
    from .observed import ObservedFirewall
    from .rollback import FirewallRollback
    from .services import FirewallServices
    from .types import FirewallOpenResult, FirewallReport, FirewallSettings

# The links that `systemctl enable` creates from the [Install] section of the unit.
LINKS = (
    "/etc/systemd/system/multi-user.target.wants/firewalld.service",
    "/etc/systemd/system/dbus-org.fedoraproject.FirewallD1.service",
)
RELOAD = "firewall-cmd --reload || systemctl restart " + UNIT


class FirewallChange:
    """The change of one node, and its proof."""

    def __init__(
        self,
        call: FirewallCall,
        observed: ObservedFirewall,
        checks: FirewallChecks,
        rollback: FirewallRollback,
        services: FirewallServices,
    ) -> None:
        self.call = call
        self.run = call.run
        self.root = call.root
        self.observed = observed
        self.checks = checks
        self.rollback = rollback
        self.services = services

    def open_ports(self) -> FirewallOpenResult:
        """Open the ports."""
        call, observed = self.call, self.observed
        observed.read_state()
        want = observed.build_settings()
        self.checks.check_all(want)
        call.stop_on_faults()
        wanted = firewalld_files.render_own_files(want)
        moved = {path: text for path, text in wanted.items() if self.find_difference(path, text)}
        report = self.build_report(want, wanted)
        if not observed.is_installed():
            # After the installation of firewalld, the next call reports these again.
            call.notes = call.notes if call.check else []
            call.add_diff("package firewalld", "absent\n", "installed, running, enabled\n")
            return {**report, "changed": True, "needs_package": True, "armed": False}
        runs, with_ufw = observed.is_running(), observed.takes_over_ufw()
        stale = [] if moved or not runs else observed.find_runtime_faults(want)
        if with_ufw:
            call.add_diff("ufw", "active\n", "disabled\n")
            self.checks.note_ufw_takeover(want)
        changed = bool(moved or stale or with_ufw or not (runs and observed.is_enabled()))
        if changed:
            self.apply_settings(want, moved, stale)
        return {**report, "changed": changed, "needs_package": False, "armed": self.rollback.armed}

    def find_difference(self, path: str, text: str) -> bool:
        """Return whether a file of Fullmesh has to change, and save the diff."""
        before = read_text_or_empty(self.root + path)
        service = firewalld_files.map_own_paths(self.call.params["zone"])["service"]
        mine = firewalld_files.MARK in before or path != service
        if before == text or not (text or mine):
            return False
        self.call.diff.append(diff_file(path, before, text, self.root))
        return True

    def apply_settings(
        self, want: FirewallSettings, moved: dict[str, str], stale: list[str]
    ) -> None:
        """Write, start or reload, and verify. In check mode, only find faults."""
        call, runs = self.call, self.observed.is_running()
        if stale:
            call.add_diff("firewalld at runtime", "\n".join(stale) + "\n", "as in the files\n")
        reload = runs and bool(moved or stale)
        if reload:
            self.checks.check_reload()
        if moved or not runs:
            self.checks.check_configuration(moved)
        call.stop_on_faults()
        if call.check:
            return
        if reload or self.observed.takes_over_ufw() or not runs:
            self.arm_rollback(want)
        try:
            self.change_node(want, moved, reload)
        except Exception as exc:
            self.rollback.revert_change(exc)
            raise
        self.rollback.wait_for_confirmation()

    def change_node(self, want: FirewallSettings, moved: dict[str, str], reload: bool) -> None:
        """Apply the change. The node is never open in between, and rules of others are kept."""
        with_ufw, carried = self.observed.takes_over_ufw(), want["carried_ports"]
        if with_ufw:
            # ufw has to go first: firewalld's start would flush its rules and leave its INPUT DROP, which locks out.
            self.services.shut_gate(want["ssh_ports"])
            self.services.disable_ufw()
        if carried and self.observed.is_first_start():
            write_file_atomically(self.root + CARRIED, json.dumps(carried) + "\n")
        for path in sorted(moved):
            write_or_remove_file(self.root + path, moved[path])
        with self.services.keep_foreign_rules():
            self.services.start_or_reload(reload)
        self.prove_rules(want)
        if with_ufw:
            self.services.open_gate()
        # Again, because firewalld's direct rules are in the kernel only now.
        self.checks.check_foreign_rules(want, False)
        self.call.stop_on_faults()

    def prove_rules(self, want: FirewallSettings) -> None:
        """Compare the kernel's rules with the files."""
        found = self.observed.find_runtime_faults(want)
        if found:
            raise FirewallRefusedError(
                "[PF-118] firewalld runs, but the kernel's rules differ from its files: {}. Everything was "
                "reverted. Check: `journalctl -u firewalld`, `nft list table inet firewalld`.".format(
                    "; ".join(found)
                )
            )

    def arm_rollback(self, want: FirewallSettings) -> None:
        """Arm the rollback with the firewall as it is now."""
        paths = [*sorted(firewalld_files.map_own_paths(want["zone"]).values()), *LINKS, CARRIED]
        commands = [RELOAD, *self.rollback.list_addition_commands()]
        if not firewalld_others.has_full_flush(self.root):
            commands.append(firewalld_files.build_ipset_cleanup(want["zone"]))
        boot: list[str] = []
        if not self.observed.is_running():
            # It would be started all the same at that boot: systemd has the job already.
            boot = ["systemctl --no-block stop " + UNIT]
            commands = [" ".join(STOP), "systemctl daemon-reload"]
        with_ufw = self.observed.takes_over_ufw()
        if with_ufw:
            paths += [ufw.CONF, ufw.get_ufw_record(self.root).path[len(self.root) :]]
        commands += preserve.save_iptables(self.run, preserve.dump_iptables(self.run))
        trials = []
        if with_ufw:
            commands.append(preserve.build_unblock_command())
            trials.append(preserve.build_unblock_trial())
        self.rollback.arm(paths, commands, boot, "the peers' firewall", trials)

    def build_report(self, want: FirewallSettings, wanted: dict[str, str]) -> FirewallReport:
        """Return the answer for the manifest and the report."""
        controllers = firewalld_files.group_by_family(want["controllers"])
        return {
            "files": sorted(path for path, text in wanted.items() if text),
            "ssh_ports": want["ssh_ports"],
            "controllers": [one for family in sorted(controllers) for one in controllers[family]],
            "default_zone": want["default_zone"],
            "ports": want["ports"],
            "ufw": self.observed.takes_over_ufw() or ufw.is_ufw_replaced(self.root),
        }
