# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a node has of firewalld, ufw and listeners, and what the role wants of it. Stdlib only."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from ..answer import diff_file
from ..files import SPACE, read_text_or_empty
from ..schema.ports import is_port_listed, parse_port_entry
from ..state.observe import UNIT_PROPERTIES, has_unit_file
from ..state.record import UndoPoint
from ..tools import systemctl
from ..transaction import session
from . import denials as firewall_denials
from . import firewalld, firewalld_files, firewalld_others, reached, ufw

if TYPE_CHECKING:
    from ..answer import Diff, Note
    from ..commands import Runner
    from .types import FirewallListener, FirewallParams, FirewallRequest, FirewallSettings


UNIT = "firewalld.service"
# firewalld.service conflicts with them: starting it would stop them and with them the rules they hold.
RIVALS = ("iptables.service", "ip6tables.service", "ebtables.service", "nftables.service")
NAME = "peer_firewall"
# What listened before the first start and is open to the peers since; lies beside the undo point and goes with it.
CARRIED = "/var/lib/fullmesh/undo/peer_firewall/listeners.json"


class FirewallRefusedError(Exception):
    """Coded sentences for the user."""


class FirewallNode:
    """One node, looked at; nothing of it is changed here.

    Attributes:
        faults: coded sentences, why nothing is changed.
        notes: coded remarks, for the report.
        diff: what changes.
        units: property -> value of each systemd unit that was asked about.
        armed: the node puts everything back by itself unless somebody confirms.
        ufw_on: ufw judges packets now.
        planned: ports of the plan.
        carried: ports of other listeners that the peers keep.
    """

    def __init__(self, params: FirewallParams, check: bool, run: Runner, root: str = "") -> None:
        self.params = params
        self.check = check
        self.run = run
        self.root = root
        self.faults: list[str] = []
        self.notes: list[Note] = []
        self.diff: list[Diff] = []
        self.units: dict[str, dict[str, str]] = {}
        self.armed = False
        self.changed = False
        self.ufw_on = False
        self.begun = time.time()
        self.planned: list[str] = []
        self.carried: list[str] = []

    def look(self) -> None:
        """Ask systemd about firewalld and what would fight with it, in one call."""
        names = (UNIT, *RIVALS)
        _, out = self.run(systemctl.build_show_command(UNIT_PROPERTIES, names))
        self.units.update(zip(names, systemctl.parse_unit_blocks(out)))

    def running(self) -> bool:
        """Say whether firewalld runs."""
        return self.units.get(UNIT, {}).get("ActiveState") in ("active", "reloading", "activating")

    def enabled(self) -> bool:
        """Say whether firewalld starts at boot."""
        return self.units.get(UNIT, {}).get("UnitFileState") == "enabled"

    def installed(self) -> bool:
        """Say whether firewalld is there."""
        return has_unit_file(self.units.get(UNIT, {}))

    def want(self) -> FirewallSettings:
        """Complete what was asked by what only the node knows: our way in."""
        pid, ports = os.getpid(), self.params["ports"]
        roce = self.params["rdma"] == "true" or (
            self.params["rdma"] == "auto" and firewalld.has_roce_device(self.root)
        )
        asked: FirewallRequest = {
            "zone": self.params["zone"],
            "mode": self.params["mode"],
            "peers": self.params["peers"],
            "controllers": [
                *self.params["controllers"],
                *session.list_ssh_clients(os.environ, pid),
            ],
            "ports": [*ports, firewalld.ROCE_PORT]
            if roce and firewalld.ROCE_PORT not in ports
            else ports,
            "controller_ports": self.params["controller_ports"],
            "public_ports": self.params["public_ports"],
            "ssh_ports": session.list_ssh_ports(os.environ, pid) or [22],
            "default_zone": firewalld_others.read_firewalld_setting(
                self.root, "DefaultZone", "public"
            ),
        }
        policy = self.ufw_policy(asked)  # who looks at ufw; what follows asks for that
        service = self.own_service(asked)
        self.planned, self.carried = asked["ports"], self.carry(asked)
        more = [*asked["ports"], *self.carried]
        return {**asked, "ports": more, "ufw_policy": policy, "own_service": service}

    def first_start(self) -> bool:
        """Say whether this run starts a firewall where none judged before: firewalld off and never ours, no ufw."""
        place = firewalld_files.map_own_paths(self.params["zone"])
        mine = any(
            firewalld_files.MARK in read_text_or_empty(self.root + place[name])
            for name in ("job", "zone")
        )
        return not (self.running() or self.takes_ufw() or mine)

    def loses(self, want: FirewallRequest) -> list[FirewallListener]:
        """List what listens and the default zone, or the zone of its interface, shuts once firewalld runs."""
        held = reached.map_interface_addresses(self.run)
        zones = reached.map_interface_zones(
            self.run, self.root, self.running(), want["default_zone"]
        )
        return [
            one
            for one in self.listeners(want)
            if not held
            or any(
                not self.lets(zones[name], one)
                for name in reached.list_listener_interfaces(one, held)
            )
        ]

    def listeners(self, want: FirewallRequest) -> list[FirewallListener]:
        """List what listens here and is neither ssh nor the plan's."""
        ssh = [f"{port}/tcp" for port in want["ssh_ports"]]
        found = reached.find_listeners(self.root + "/proc")
        ours = [*ssh, *want["ports"], *want["public_ports"]]
        return [one for one in found if not is_port_covered(one["port"], ours)]

    def lets(self, zone: str, one: FirewallListener) -> bool:
        """Say whether a zone lets everybody to a listener."""
        number, _, protocol = one["port"].partition("/")
        return bool(firewalld_others.is_allowed_by_zone(self.root, zone, int(number), protocol))

    def carry(self, want: FirewallRequest) -> list[str]:
        """List the ports of other listeners that the peers keep, from the first start on."""
        if self.params["start"] != "carry":
            return []
        if self.first_start():
            return [one["port"] for one in self.loses(want)]
        try:
            return [str(port) for port in json.loads(read_text_or_empty(self.root + CARRIED))]
        except (ValueError, TypeError):
            return []

    def ufw_policy(self, want: FirewallRequest) -> str:
        """Render what ufw's user allowed; also later on, when ufw is off because of us."""
        self.ufw_on = ufw.is_ufw_enabled(self.root) and ufw.is_ufw_installed(self.root)
        if not (self.ufw_on or ufw.is_ufw_replaced(self.root)) or self.params["ufw"] == "refuse":
            return ""
        rules = ufw.list_carried_rules(self.root, *self.ours(want))
        return str(ufw.render_ufw_policy(want["zone"], rules))

    def ours(self, want: FirewallRequest) -> tuple[list[str], list[str]]:
        """Return the senders that no rule of ufw's may keep from these ports."""
        ports = [*want["ports"], *(f"{port}/tcp" for port in want["ssh_ports"])]
        if self.params["mode"] == "peers_trusted":
            ports = ["1-65535/tcp", "1-65535/udp"]
        return [*want["peers"], *want["controllers"]], ports

    def own_service(self, want: FirewallRequest) -> bool:
        """Say whether the service ``ssh`` needs our file: sshd listens elsewhere, and it is us who shut the door."""
        path = self.root + firewalld_files.map_own_paths(want["zone"])["service"]
        if firewalld_files.MARK in read_text_or_empty(path):
            return True
        # Under ufw it was ufw's rules that let anybody in, and they go on: a door for all would be a new one.
        starts = not self.running() and not self.takes_ufw()
        return starts and bool(self.shut(want)) and not os.path.exists(path)

    def shut(self, want: FirewallRequest) -> list[int]:
        """List the ssh ports that the default zone would not let in."""
        zone, ports = want["default_zone"], list(want["ssh_ports"])
        if (
            not self.installed()
            and firewalld_others.parse_object_file(self.root, "zones", zone) is None
        ):
            return [port for port in ports if port != 22]  # noqa: PLR2004 (every distribution's public zone has ssh)
        return [
            port for port in ports if not firewalld_others.is_allowed_by_zone(self.root, zone, port)
        ]

    def takes_ufw(self) -> bool:
        """Say whether this run takes over from ufw."""
        return self.ufw_on and self.params["ufw"] != "refuse"

    def lost(self, want: FirewallRequest) -> list[str]:
        """Name what firewalld would not do as ufw did it: rules without words, and a door that its zone opens."""
        open_ = [port for port in want["ssh_ports"] if port not in self.shut(want)]
        rules = ufw.list_carried_rules(self.root, *self.ours(want))
        found: list[str] = ufw.list_unsupported_rules(self.root, *self.ours(want))
        found += ufw.find_newly_open_ssh(self.root, want["default_zone"], open_, rules)
        return found

    def unsaved(self) -> list[str]:
        """List what others set at runtime only, and a reload would drop."""
        zone = str(self.params["zone"])
        found: list[str] = []
        flush = firewalld_others.has_full_flush(self.root)
        for kind, word in (("zone", "--list-all-zones"), ("policy", "--list-all-policies")):
            ran = self.run(["firewall-cmd", word])
            kept = self.run(["firewall-cmd", "--permanent", word])
            if ran[0] != 0 or kept[0] != 0:
                continue
            found += firewalld_others.find_unsaved_settings(ran[1], kept[1], zone, kind)
            if kind == "zone" and flush:
                passed = [
                    zone,
                    firewalld_others.read_firewalld_setting(self.root, "DefaultZone", "public"),
                ]
                found += firewalld_others.find_unbound_interfaces(self.run, ran[1], kept[1], passed)
        return found + (firewalld_others.find_unsaved_entries(self.run, zone) if flush else [])

    def additions(self) -> list[firewalld_others.Addition]:
        """What others have added to zones at runtime only, and is put back."""
        ran = self.run(["firewall-cmd", "--list-all-zones"])
        kept = self.run(["firewall-cmd", "--permanent", "--list-all-zones"])
        if ran[0] != 0 or kept[0] != 0:
            return []
        return firewalld_others.find_runtime_additions(ran[1], kept[1], str(self.params["zone"]))

    def runtime_faults(self, want: FirewallSettings) -> list[str]:
        """Compare the kernel's rules with the files, whatever backend firewalld has."""
        found: list[str] = firewalld.find_ruleset_faults(
            firewalld.read_nftables_table(self.run), want
        )
        return found

    def ran_before(self) -> bool:
        """Say whether firewalld ran before the role came, by the undo point; without one nothing is known."""
        services = UndoPoint(self.root, NAME).load()["services"]
        return services[UNIT]["active"] if UNIT in services else True

    def differs(self, path: str, text: str) -> bool:
        """Say whether a file of ours has to change, and keep the diff."""
        before = read_text_or_empty(self.root + path)
        mine = (
            firewalld_files.MARK in before
            or path != firewalld_files.map_own_paths(self.params["zone"])["service"]
        )
        if before == text or not (text or mine):
            return False
        self.diff.append(diff_file(path, before, text, self.root))
        return True

    def show(self, name: str, before: str, after: str) -> None:
        """Keep one diff."""
        self.diff.append(
            {"before": before, "after": after, "before_header": name, "after_header": name}
        )

    def stop_on_faults(self) -> None:
        """End with every fault found so far."""
        if self.faults:
            raise make_refusal(self.faults)

    def must(self, command: list[str], code: str, sentence: str) -> None:
        """Run a command that has to work."""
        rc, out = self.run(command)
        if rc == 0:
            return
        denials = firewall_denials.list_denials("firewalld", self.run, self.begun, self.root)
        look = "See `journalctl -u firewalld`."
        if denials:
            look = (
                "SELinux is in its way: {}. Label its files again (`restorecon -Rv /etc/firewalld /usr/lib/firewalld`) "
                "or fix the policy; see `ausearch -m avc -ts recent`.".format(
                    "; ".join(denials[:3])
                )
            )
        said = "[{}] {}: `{}` says {!r}. {}{}"
        back = "Everything was put back. " if self.armed else ""
        raise make_refusal(
            [said.format(code, sentence, " ".join(command), out.strip(SPACE), back, look)]
        )


def is_port_covered(port: str, ports: list[str]) -> bool:
    """Say whether a port with its protocol (``22/tcp``) is one of these."""
    one = parse_port_entry(port)
    return port in ports or (one is not None and is_port_listed(ports, one[0].first, one[1]))


def make_refusal(faults: list[str]) -> FirewallRefusedError:
    """Wrap sentences."""
    return FirewallRefusedError("\n".join(faults))
