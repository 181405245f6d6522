# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Why a node's firewall is not touched, all of it at once, and what is said beside. Stdlib only."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

from ..files import look, settle
from . import firewalld as core
from . import firewalld_files as own_files
from . import firewalld_others as theirs
from . import foreign as beside
from . import reached, ufw
from .node import RIVALS, UNIT, FirewallNode

if TYPE_CHECKING:
    from .types import Want


# Policies came with it (firewalld 0.9.0, 2020); without them nothing keeps ssh open whatever zone it comes through.
OLDEST = (0, 9)


class Refusals(FirewallNode):
    """Every reason not to touch this node's firewall."""

    def refuse(self, want: Want) -> None:
        """Collect every reason not to touch this node's firewall."""
        if self.refuse_backend():
            return  # the other checks read the rules of the nftables backend
        self.refuse_ufw(want)
        for name in RIVALS if not self.running() else ():
            if self.units.get(name, {}).get("ActiveState") == "active":
                self.faults.append(
                    f"[PF-111] {name} is active and starting firewalld would stop it, with the rules it holds. "
                    f"Run `systemctl disable --now {name}` when they are no longer needed."
                )
        if self.units.get(UNIT, {}).get("LoadState") == "masked":
            self.faults.append(
                "[PF-112] firewalld.service is masked: somebody decided against it. "
                "Run `systemctl unmask firewalld`, or set peer_firewall_mode to off."
            )
        binds = want["mode"] in own_files.BINDING
        for claim in theirs.claims(self.root, want["zone"], want["peers"]) if binds else ():
            self.faults.append(
                "[PF-113] {}: firewalld asks one zone only, and it would not be {}. "
                "Take the source out of that zone.".format(claim, want["zone"])
            )
        self.refuse_interface(want)
        self.refuse_beside(want, self.takes_ufw())
        self.refuse_start(want)
        self.refuse_loss(want)
        self.remark_loss(want)

    def refuse_ufw(self, want: Want) -> None:
        """Refuse to take over from ufw where that was not wanted, or where rules would get lost."""
        if not self.ufw_on:
            return
        if self.params["ufw"] == "refuse":
            self.faults.append(
                "[PF-110] ufw is active on this node (/etc/ufw/ufw.conf: ENABLED=yes): two firewalls would each drop "
                "what the other lets in. Set peer_firewall_ufw to carry, or run `ufw disable`, and run again."
            )
            return
        lost = self.lost(want)
        if lost and self.params["ufw"] == "carry":
            self.faults.append(
                "[PF-122] ufw is active and this cannot be carried over to firewalld: {}. Delete it in ufw, or set "
                "peer_firewall_ufw to discard to go on without it.".format("; ".join(lost))
            )

    def refuse_backend(self) -> bool:
        """Refuse firewalld's iptables backend: it flushes the rules of others and shares their chains."""
        refused = core.with_iptables(self.root)
        if refused:
            self.faults.append(
                "[PF-126] /etc/firewalld/firewalld.conf has FirewallBackend=iptables, which is not supported. "
                "Fix: set FirewallBackend=nftables there and run `systemctl try-restart firewalld`."
            )
        return refused

    def refuse_interface(self, want: Want) -> None:
        """Refuse, or say, where a zone of the cluster's interface lets everybody to what shall be the peers'."""
        links = beside.own_links(self.run, want["peers"])
        found: dict[tuple[str, str], str] = {}
        for interface in sorted({link["interface"] for link in links}):
            said = theirs.interface_zones(self.root, self.run, interface, self.running())
            for zone, who in said or [(want["default_zone"], "the default zone")]:
                found.setdefault((interface, zone), who)
        for (interface, zone), who in found.items():
            binds = want["mode"] in own_files.BINDING
            fine = (want["default_zone"], want["zone"]) if binds else ()
            if not binds and zone != want["zone"]:  # ours, which there is in `peers_only` alone
                self.remark_zone(interface, zone)
            elif zone not in fine:
                self.faults.append(
                    f"[PF-123] the cluster's interface {interface} is in zone {zone} ({who}): "
                    "that zone would decide what everybody "
                    f"who is no peer reaches there. Take it out (`firewall-cmd --permanent --zone={zone} "
                    f"--remove-interface={interface}`, or `nmcli connection modify PROFILE connection.zone ''`)."
                )

    def remark_zone(self, interface: str, zone: str) -> None:
        """Say where a zone opens the plan's ports to everybody: it was so before, and is the user's own."""
        first = [port.replace("-", "/").split("/") for port in self.params["ports"]]
        known = [(int(words[0]), words[-1]) for words in first]
        wide = [
            f"{number}/{protocol}"
            for number, protocol in known
            if theirs.zone_allows(self.root, zone, number, protocol)
        ]
        if wide:
            text = (
                "the cluster's interface {} is in zone {}, which lets everybody there to {}, not the peers only. "
                "Is that meant? `firewall-cmd --info-zone={}` says what it opens."
            )
            text = text.format(interface, zone, ", ".join(wide), zone)
            self.notes.append({"code": "PF-209", "text": text})

    def refuse_loss(self, want: Want) -> None:
        """Refuse to start a firewall that would cut what others reach, or say what it cuts."""
        of_plan: Want = {**want, "ports": self.params["ports"]}
        lost = self.loses(of_plan) if self.first_start() else []
        if not lost:
            return
        if self.params["start"] == "refuse":
            self.faults.append(
                "[PF-129] no firewall runs on this node, and firewalld's zone {} would cut what listens here: {}. "
                "Open what others need before it starts (`firewall-offline-cmd --zone={} {}`), or set "
                "peer_firewall_start to carry (open to the peers from now on) or to cut.".format(
                    want["default_zone"],
                    reached.told(lost),
                    want["default_zone"],
                    reached.opener(lost[0]),
                )
            )
            return
        who = "everybody but the peers" if self.params["start"] == "carry" else "everybody"
        text = f"firewalld was off; its start shuts for {who}: {reached.told(lost)}."
        self.notes.append({"code": "PF-211", "text": text})

    def remark_loss(self, want: Want) -> None:
        """Say what peers reached so far and lose to a zone of their own."""
        place = self.root + own_files.paths(want["zone"])["zone"]
        if want["mode"] not in own_files.BINDING or own_files.MARK in look(place):
            return
        held = reached.cards(self.run)
        zones = reached.zones_of(self.run, self.root, self.running(), want["default_zone"])
        mine = {link["interface"] for link in beside.own_links(self.run, want["peers"])}
        lost = [
            one
            for one in self.listeners(want)
            if not self.running()
            or any(self.lets(zones[name], one) for name in mine & set(reached.ways_to(one, held)))
        ]
        if lost:
            text = f"peers reached this so far and lose it (peer_firewall_mode: peers_only): {reached.told(lost)}."
            self.notes.append({"code": "PF-210", "text": text})

    def refuse_beside(self, want: Want, ufw_goes: bool) -> None:
        """Refuse where a rule beside firewalld would keep peers from the plan's ports all the same."""
        # A carried port is reached as its owner made it: podman and Docker listen on what their own rule leads on.
        of_plan: Want = {**want, "ports": self.planned}
        faults, notes = beside.look(self.run, of_plan, ufw_goes)
        self.faults += faults
        self.notes += [note for note in notes if note not in self.notes]

    def refuse_start(self, want: Want) -> None:
        """Refuse to start a firewall that shuts ssh for everybody but peers and controllers."""
        bare = not self.installed() and not want["own_service"]
        # Whom ufw let in comes in by its policy, and the controllers by theirs: the zone shuts nobody out.
        if self.running() or self.takes_ufw() or bare:
            return
        shut, zone = self.shut(want), want["default_zone"]
        by_service = want["own_service"] and (
            not self.installed() or theirs.zone_has_service(self.root, zone, "ssh")
        )
        if shut and not by_service:
            self.faults.append(
                f"[PF-115] sshd listens on {shut[0]} and firewalld's default zone {zone} would "
                "close it once it starts. "
                f"Run `firewall-offline-cmd --zone={zone} --add-port={shut[0]}/tcp` first."
            )

    def refuse_reload(self) -> None:
        """Refuse a reload that would drop what others set at runtime only."""
        for text in self.unsaved():
            self.faults.append(
                f"[PF-114] set at runtime only, the reload would drop it: {text}. "
                "Keep it with `firewall-cmd --runtime-to-permanent`, or drop it with `firewall-cmd --reload`."
            )

    def remark_ufw(self, want: Want) -> None:
        """Say what becomes of ufw's rules."""
        rules = ufw.carried(self.root, *self.ours(want))
        lost = self.lost(want)
        self.notes += ufw.remarks(rules, want["ports"], lost)

    def validate(self, moved: dict[str, str]) -> None:
        """Let firewalld check a copy of its configuration with our files in it: nothing wrong ever gets to /etc."""
        version = self.run(["firewall-offline-cmd", "--version"])[1]
        if () < core.version_of(version) < OLDEST:
            self.faults.append(
                "[PF-127] firewalld {} has no policies, which keep ssh open to the controllers (0.9 or newer has). "
                "Bring a newer one (EL 8.4, Ubuntu 22.04 and newer have it), or set peer_firewall_mode to off and "
                "open {} to the peers with your own tool.".format(
                    version.strip(), ", ".join(self.params["ports"])
                )
            )
            return
        copy = tempfile.mkdtemp(prefix="fullmesh-firewalld-")
        try:
            target = copy + "/firewalld"
            shutil.copytree(self.root + own_files.ETC, target, symlinks=True)
            for path, text in moved.items():
                settle(target + path[len(own_files.ETC) :], text)
            rc, out = self.run(
                ["firewall-offline-cmd", "--system-config", target, "--check-config"]
            )
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        if rc != 0:
            self.faults.append(
                "[PF-116] firewalld does not accept the configuration with our files in it: "
                f"{out.strip()!r}. Nothing was changed. "
                "Is its version at least 0.9, is the rest of /etc/firewalld in order?"
            )
