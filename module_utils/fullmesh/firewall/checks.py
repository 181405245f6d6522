# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find all reasons not to change a node's firewall, and notes. Standard library only."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

from ..files import read_text_or_empty, write_or_remove_file
from ..tools.firewalld import ETC
from . import firewalld, firewalld_files, firewalld_others, foreign, reached, ufw
from .call import UNIT
from .observed import RIVALS

if TYPE_CHECKING:
    from .call import FirewallCall
    from .observed import ObservedFirewall
    from .types import FirewallSettings


# firewalld 0.9.0 (2020) introduced policies. Without them, ssh does not stay open in every zone.
OLDEST = (0, 9)


class FirewallChecks:
    """Every reason not to change this node's firewall: faults and notes of the call."""

    def __init__(self, call: FirewallCall, observed: ObservedFirewall) -> None:
        self.call = call
        self.params = call.params
        self.run = call.run
        self.root = call.root
        self.observed = observed

    def check_all(self, want: FirewallSettings) -> None:
        """Collect every reason not to touch this node's firewall."""
        if self.check_backend():
            return  # the other checks read the rules of the nftables backend
        self.check_ufw(want)
        for name in RIVALS if not self.observed.is_running() else ():
            if self.observed.units.get(name, {}).get("ActiveState") == "active":
                self.call.faults.append(
                    f"[PF-111] {name} is active and starting firewalld would stop it, with the rules it holds. "
                    f"Fix: run `systemctl disable --now {name}` if you no longer need them."
                )
        if self.observed.units.get(UNIT, {}).get("LoadState") == "masked":
            self.call.faults.append(
                "[PF-112] firewalld.service is masked. "
                "Fix: run `systemctl unmask firewalld`, or set peer_firewall_mode to off."
            )
        binds = want["mode"] in firewalld_files.BINDING
        for claim in (
            firewalld_others.find_claiming_zones(self.root, want["zone"], want["peers"])
            if binds
            else ()
        ):
            self.call.faults.append(
                "[PF-113] {}: firewalld uses one zone only, and it would not be {}. "
                "Fix: remove the source from that zone.".format(claim, want["zone"])
            )
        self.check_interface(want)
        self.check_foreign_rules(want, self.observed.takes_over_ufw())
        self.check_ssh_at_start(want)
        self.check_first_start(want)
        self.note_peer_losses(want)

    def check_ufw(self, want: FirewallSettings) -> None:
        """Refuse to replace ufw if the user did not choose that, or if rules would be lost."""
        if not self.observed.ufw_on:
            return
        if self.params["ufw"] == "refuse":
            self.call.faults.append(
                "[PF-110] ufw is active on this node (/etc/ufw/ufw.conf: ENABLED=yes): two firewalls would drop "
                "packets of each other. Fix: set peer_firewall_ufw to carry, or run `ufw disable`, then run again."
            )
            return
        lost = self.observed.list_lost_ufw_rules(want)
        if lost and self.params["ufw"] == "carry":
            self.call.faults.append(
                "[PF-122] ufw is active and this cannot be carried over to firewalld: {}. Fix: delete it in ufw, or "
                "set peer_firewall_ufw to discard to continue without it.".format("; ".join(lost))
            )

    def check_backend(self) -> bool:
        """Refuse firewalld's iptables backend: it flushes the rules of others and shares their chains."""
        refused = firewalld.has_iptables_backend(self.root)
        if refused:
            self.call.faults.append(
                "[PF-126] /etc/firewalld/firewalld.conf has FirewallBackend=iptables, which is not supported. "
                "Fix: set FirewallBackend=nftables there and run `systemctl try-restart firewalld`."
            )
        return refused

    def check_interface(self, want: FirewallSettings) -> None:
        """Refuse or note a zone of the cluster's interface that opens the peers' ports to everyone."""
        links = foreign.find_cluster_links(self.run, want["peers"])
        found: dict[tuple[str, str], str] = {}
        for interface in sorted({link["interface"] for link in links}):
            said = firewalld_others.find_interface_zones(
                self.root, self.run, interface, self.observed.is_running()
            )
            for zone, who in said or [(want["default_zone"], "the default zone")]:
                found.setdefault((interface, zone), who)
        for (interface, zone), who in found.items():
            binds = want["mode"] in firewalld_files.BINDING
            fine = (want["default_zone"], want["zone"]) if binds else ()
            if (
                not binds and zone != want["zone"]
            ):  # Fullmesh's zone, which only exists in `peers_only`
                self.note_open_zone(interface, zone)
            elif zone not in fine:
                self.call.faults.append(
                    f"[PF-123] The cluster's interface {interface} is in zone {zone} ({who}): "
                    "that zone would decide the access of "
                    f"all other clients there. Fix: remove it (`firewall-cmd --permanent --zone={zone} "
                    f"--remove-interface={interface}`, or `nmcli connection modify PROFILE connection.zone ''`)."
                )

    def note_open_zone(self, interface: str, zone: str) -> None:
        """Note a zone that opens the plan's ports to everyone. It did so before, and belongs to the user."""
        first = [port.replace("-", "/").split("/") for port in self.params["ports"]]
        known = [(int(words[0]), words[-1]) for words in first]
        wide = [
            f"{number}/{protocol}"
            for number, protocol in known
            if firewalld_others.is_allowed_by_zone(self.root, zone, number, protocol)
        ]
        if wide:
            text = (
                "the cluster's interface {} is in zone {}, which opens {} to all clients, not only to peers. "
                "Check that this is intended: `firewall-cmd --info-zone={}`."
            )
            text = text.format(interface, zone, ", ".join(wide), zone)
            self.call.add_note("PF-209", text)

    def check_first_start(self, want: FirewallSettings) -> None:
        """Refuse to start a firewall that would block listeners in use, or note the losses."""
        of_plan: FirewallSettings = {**want, "ports": self.params["ports"]}
        lost = self.observed.find_lost_listeners(of_plan) if self.observed.is_first_start() else []
        if not lost:
            return
        if self.params["start"] == "refuse":
            self.call.faults.append(
                "[PF-129] No firewall runs on this node, and firewalld's zone {} would block reachable listeners: {}. "
                "Fix: open the ports that others need (`firewall-offline-cmd --zone={} {}`), or set "
                "peer_firewall_existing_services to open (to the peers, from now on) or to block.".format(
                    want["default_zone"],
                    reached.describe_listeners(lost),
                    want["default_zone"],
                    reached.build_open_option(lost[0]),
                )
            )
            return
        who = "everybody but the peers" if self.params["start"] == "carry" else "everybody"
        text = f"firewalld was off. Its start blocks for {who}: {reached.describe_listeners(lost)}."
        self.call.add_note("PF-211", text)

    def note_peer_losses(self, want: FirewallSettings) -> None:
        """Note the ports that peers could reach and lose to their own zone."""
        place = self.root + firewalld_files.map_own_paths(want["zone"])["zone"]
        if want[
            "mode"
        ] not in firewalld_files.BINDING or firewalld_files.MARK in read_text_or_empty(place):
            return
        held = reached.map_interface_addresses(self.run)
        zones = reached.map_interface_zones(
            self.run, self.root, self.observed.is_running(), want["default_zone"]
        )
        mine = {link["interface"] for link in foreign.find_cluster_links(self.run, want["peers"])}
        lost = [
            one
            for one in self.observed.find_other_listeners(want)
            if not self.observed.is_running()
            or any(
                self.observed.is_listener_allowed(zones[name], one)
                for name in mine & set(reached.list_listener_interfaces(one, held))
            )
        ]
        if lost:
            text = (
                "peers reached this so far and lose it (peer_firewall_mode: peers_only): "
                f"{reached.describe_listeners(lost)}."
            )
            self.call.add_note("PF-210", text)

    def check_foreign_rules(self, want: FirewallSettings, ufw_goes: bool) -> None:
        """Refuse if a rule outside of firewalld would still block peers from the plan's ports."""
        # A carried port is reached in its owner's way: podman and Docker listen on a port that their own rule forwards.
        of_plan: FirewallSettings = {**want, "ports": want["planned_ports"]}
        faults, notes = foreign.check_foreign_rules(self.run, of_plan, ufw_goes)
        self.call.faults += faults
        self.call.notes += [note for note in notes if note not in self.call.notes]

    def check_ssh_at_start(self, want: FirewallSettings) -> None:
        """Refuse to start a firewall that blocks ssh for all but peers and controllers."""
        bare = not self.observed.is_installed() and not want["own_service"]
        # ufw's clients are allowed by its policy, and controllers by theirs, so the zone blocks none of them.
        if self.observed.is_running() or self.observed.takes_over_ufw() or bare:
            return
        shut, zone = self.observed.list_closed_ssh_ports(want), want["default_zone"]
        by_service = want["own_service"] and (
            not self.observed.is_installed()
            or firewalld_others.has_zone_service(self.root, zone, "ssh")
        )
        if shut and not by_service:
            self.call.faults.append(
                f"[PF-115] sshd listens on {shut[0]}, but firewalld's default zone {zone} would "
                "block it. "
                f"Fix: run `firewall-offline-cmd --zone={zone} --add-port={shut[0]}/tcp` first."
            )

    def check_reload(self) -> None:
        """Refuse a reload that would drop run-time settings of others."""
        for text in self.observed.list_unsaved_settings():
            self.call.faults.append(
                f"[PF-114] The reload would drop this run-time setting: {text}. "
                "Fix: keep it with `firewall-cmd --runtime-to-permanent`, or drop it with `firewall-cmd --reload`."
            )

    def note_ufw_takeover(self, want: FirewallSettings) -> None:
        """Note the consequences for ufw's rules."""
        rules = ufw.list_carried_rules(self.root, *self.observed.list_ufw_exemptions(want))
        lost = self.observed.list_lost_ufw_rules(want)
        self.call.notes += ufw.describe_ufw_takeover(rules, want["ports"], lost)

    def check_configuration(self, moved: dict[str, str]) -> None:
        """Let firewalld check a copy of its configuration with Fullmesh's files. Invalid files never reach /etc."""
        version = self.run(["firewall-offline-cmd", "--version"])[1]
        if () < firewalld.parse_firewalld_version(version) < OLDEST:
            self.call.faults.append(
                "[PF-127] firewalld {} has no policies, which keep ssh open to the controllers. Fix: install "
                "0.9 or newer (EL 8.4, Ubuntu 22.04 and newer have it), or set peer_firewall_mode to off and "
                "open {} to the peers with your own tool.".format(
                    version.strip(), ", ".join(self.params["ports"])
                )
            )
            return
        copy = tempfile.mkdtemp(prefix="fullmesh-firewalld-")
        try:
            target = copy + "/firewalld"
            shutil.copytree(self.root + ETC, target, symlinks=True)
            for path, text in moved.items():
                write_or_remove_file(target + path[len(ETC) :], text)
            rc, out = self.run(
                ["firewall-offline-cmd", "--system-config", target, "--check-config"]
            )
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if rc != 0:
            self.call.faults.append(
                "[PF-116] firewalld rejects the configuration with Fullmesh's files: "
                f"{out.strip()!r}. Nothing was changed. "
                "Check: is its version at least 0.9, and is the rest of /etc/firewalld valid?"
            )
