# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Observe firewalld, ufw and listeners of a node, and derive the settings. Standard library only."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ..files import read_text_or_empty
from ..schema.ports import is_port_listed, parse_port_entry
from ..state.observe import UNIT_PROPERTIES, has_unit_file
from ..state.record import UndoPoint
from ..tools import systemctl
from ..tools.firewalld import read_object_file
from ..transaction import session
from . import firewalld, firewalld_files, firewalld_others, reached, ufw
from .call import CARRIED, NAME, UNIT

if TYPE_CHECKING:
    from .call import FirewallCall
    from .types import FirewallListener, FirewallRequest, FirewallSettings


# firewalld.service conflicts with them: starting it would stop them and with them the rules they hold.
RIVALS = ("iptables.service", "ip6tables.service", "ebtables.service", "nftables.service")


class ObservedFirewall:
    """The present state of one node.

    Nothing is changed here.

    Attributes:
        units: property -> value of each systemd unit at the start of the call.
        ufw_on: ufw was active at the start of the call.
    """

    def __init__(self, call: FirewallCall) -> None:
        self.params = call.params
        self.run = call.run
        self.root = call.root
        self.units: dict[str, dict[str, str]] = {}
        self.ufw_on = False

    def read_state(self) -> None:
        """Query systemd about firewalld and its rivals in one call, and whether ufw is on."""
        names = (UNIT, *RIVALS)
        _, out = self.run(systemctl.build_show_command(UNIT_PROPERTIES, names))
        self.units.update(zip(names, systemctl.parse_unit_blocks(out)))
        self.ufw_on = ufw.is_ufw_enabled(self.root) and ufw.is_ufw_installed(self.root)

    def is_running(self) -> bool:
        """Return whether firewalld runs."""
        return self.units.get(UNIT, {}).get("ActiveState") in ("active", "reloading", "activating")

    def is_enabled(self) -> bool:
        """Return whether firewalld starts at boot."""
        return self.units.get(UNIT, {}).get("UnitFileState") == "enabled"

    def is_installed(self) -> bool:
        """Return whether firewalld is installed."""
        return has_unit_file(self.units.get(UNIT, {}))

    def build_settings(self) -> FirewallSettings:
        """Complete the request with the node's own data, the ssh access."""
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
            "tunnel_peers": self.params["tunnel_peers"],
            "tunnel_ports": self.params["tunnel_ports"],
            "ssh_ports": session.list_ssh_ports(os.environ, pid) or [22],
            "default_zone": firewalld_others.read_firewalld_setting(
                self.root, "DefaultZone", "public"
            ),
        }
        carried = self.list_carried_ports(asked)
        return {
            **asked,
            "ports": [*asked["ports"], *carried],
            "planned_ports": asked["ports"],
            "carried_ports": carried,
            "ufw_policy": self.render_ufw_policy(asked),
            "own_service": self.needs_own_service(asked),
        }

    def is_first_start(self) -> bool:
        """Return whether this starts the first firewall.

        That is so if firewalld is off and was never Fullmesh's, and there is no ufw.
        """
        place = firewalld_files.map_own_paths(self.params["zone"])
        mine = any(
            firewalld_files.MARK in read_text_or_empty(self.root + place[name])
            for name in ("job", "zone")
        )
        return not (self.is_running() or self.takes_over_ufw() or mine)

    def find_lost_listeners(self, want: FirewallRequest) -> list[FirewallListener]:
        """Return the listeners that a running firewalld would block.

        The zone of the interface decides, or else the default zone.
        """
        held = reached.map_interface_addresses(self.run)
        zones = reached.map_interface_zones(
            self.run, self.root, self.is_running(), want["default_zone"]
        )
        return [
            one
            for one in self.find_other_listeners(want)
            if not held
            or any(
                not self.is_listener_allowed(zones[name], one)
                for name in reached.list_listener_interfaces(one, held)
            )
        ]

    def find_other_listeners(self, want: FirewallRequest) -> list[FirewallListener]:
        """Return the listeners other than ssh and the plan's."""
        ssh = [f"{port}/tcp" for port in want["ssh_ports"]]
        found = reached.find_listeners(self.root + "/proc")
        ours = [*ssh, *want["ports"], *want["public_ports"], *want["tunnel_ports"]]
        return [one for one in found if not is_port_covered(one["port"], ours)]

    def is_listener_allowed(self, zone: str, one: FirewallListener) -> bool:
        """Return whether a zone opens a listener to all clients."""
        number, _, protocol = one["port"].partition("/")
        return bool(firewalld_others.is_allowed_by_zone(self.root, zone, int(number), protocol))

    def list_carried_ports(self, want: FirewallRequest) -> list[str]:
        """List the ports of other listeners that the peers keep, from the first start on."""
        if self.params["start"] != "carry":
            return []
        if self.is_first_start():
            return [one["port"] for one in self.find_lost_listeners(want)]
        try:
            return [str(port) for port in json.loads(read_text_or_empty(self.root + CARRIED))]
        except (ValueError, TypeError):
            return []

    def render_ufw_policy(self, want: FirewallRequest) -> str:
        """Render the rules of ufw's user as a policy, even after Fullmesh has disabled ufw."""
        if not (self.ufw_on or ufw.is_ufw_replaced(self.root)) or self.params["ufw"] == "refuse":
            return ""
        rules = ufw.list_carried_rules(self.root, *self.list_ufw_exemptions(want))
        return str(ufw.render_ufw_policy(want["zone"], rules))

    def list_ufw_exemptions(self, want: FirewallRequest) -> tuple[list[str], list[str]]:
        """Return the senders that no rule of ufw's may keep from these ports."""
        ports = [*want["ports"], *(f"{port}/tcp" for port in want["ssh_ports"])]
        if self.params["mode"] == "peers_trusted":
            ports = ["1-65535/tcp", "1-65535/udp"]
        return [*want["peers"], *want["controllers"]], ports

    def needs_own_service(self, want: FirewallRequest) -> bool:
        """Return whether the service ``ssh`` needs Fullmesh's file.

        It does if sshd has other ports that Fullmesh would block.
        """
        path = self.root + firewalld_files.map_own_paths(want["zone"])["service"]
        if firewalld_files.MARK in read_text_or_empty(path):
            return True
        # ufw's rules allowed clients, and they stay. A zone that opens ssh to all would be new.
        starts = not self.is_running() and not self.takes_over_ufw()
        return starts and bool(self.list_closed_ssh_ports(want)) and not os.path.exists(path)

    def list_closed_ssh_ports(self, want: FirewallRequest) -> list[int]:
        """Return the ssh ports that the default zone would block."""
        zone, ports = want["default_zone"], list(want["ssh_ports"])
        if not self.is_installed() and read_object_file(self.root, "zones", zone) is None:
            return [port for port in ports if port != 22]  # noqa: PLR2004 (every distribution's public zone has ssh)
        return [
            port for port in ports if not firewalld_others.is_allowed_by_zone(self.root, zone, port)
        ]

    def takes_over_ufw(self) -> bool:
        """Return whether this run replaces ufw."""
        return self.ufw_on and self.params["ufw"] != "refuse"

    def list_lost_ufw_rules(self, want: FirewallRequest) -> list[str]:
        """Describe ufw's rules that firewalld would not replace: unsupported rules, and a port that its zone opens."""
        open_ = [port for port in want["ssh_ports"] if port not in self.list_closed_ssh_ports(want)]
        rules = ufw.list_carried_rules(self.root, *self.list_ufw_exemptions(want))
        found: list[str] = ufw.list_unsupported_rules(self.root, *self.list_ufw_exemptions(want))
        found += ufw.find_newly_open_ssh(self.root, want["default_zone"], open_, rules)
        return found

    def list_unsaved_settings(self) -> list[str]:
        """Return run-time settings of others that a reload would drop."""
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

    def find_runtime_additions(self) -> list[firewalld_others.Addition]:
        """Return the run-time additions of others to zones, which are restored."""
        ran = self.run(["firewall-cmd", "--list-all-zones"])
        kept = self.run(["firewall-cmd", "--permanent", "--list-all-zones"])
        if ran[0] != 0 or kept[0] != 0:
            return []
        return firewalld_others.find_runtime_additions(ran[1], kept[1], str(self.params["zone"]))

    def find_runtime_faults(self, want: FirewallSettings) -> list[str]:
        """Compare the kernel's rules with the files, for every backend of firewalld."""
        found: list[str] = firewalld.find_ruleset_faults(
            firewalld.read_nftables_table(self.run), want
        )
        return found

    def ran_before(self) -> bool:
        """Return whether firewalld ran before the role's first change, True if unknown."""
        services = UndoPoint(self.root, NAME).load()["services"]
        return services[UNIT]["active"] if UNIT in services else True

    def waits_for_ufw(self) -> bool:
        """Return whether ufw was on before the role's first change and is off now."""
        if not (ufw.is_ufw_replaced(self.root) and ufw.is_ufw_installed(self.root)):
            return False
        same = ufw.is_ufw_conf_original(self.root)
        return not same or (ufw.was_ufw_loaded(self.root) and not ufw.is_ufw_loaded(self.run))


def is_port_covered(port: str, ports: list[str]) -> bool:
    """Return whether a port with its protocol (``22/tcp``) is one of these."""
    one = parse_port_entry(port)
    return port in ports or (one is not None and is_port_listed(ports, one[0].first, one[1]))
