"""Read the settings of role ec2_security_group, and find their faults."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fullmesh.ec2 import rules as ec2_rules
from fullmesh.ec2.model import Need
from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model import services
from fullmesh.model.types import ClusterPlan

GROUP_ID = re.compile(r"sg-[0-9a-f]{8,17}\Z")
VPC_ID = re.compile(r"vpc-[0-9a-f]{8,17}\Z")
# CreateSecurityGroup allows these characters, but no name like an id. Shorter, so that descriptions fit into 255.
GROUP_NAME = re.compile(r"(?!sg-)[A-Za-z0-9][A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{0,99}\Z")


@dataclass(frozen=True)
class SecurityGroupSettings:
    """The role's settings, see its README."""

    mode: str = ec2_rules.PORTS
    name: str = "fullmesh"
    groups: tuple[str, ...] = ()
    ssh_from: tuple[str, ...] = ()
    extra_ports: tuple[str, ...] = ()
    vpc_id: str = ""
    interface_limit: object = 5
    rule_limit: object = 60
    tags: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any], plan: ClusterPlan) -> SecurityGroupSettings:
        """Read the role's variables. The plan's controllers may use ssh as well."""

        def words(key: str) -> tuple[str, ...]:
            value = given.get(key) or []
            return tuple(str(one) for one in (value if isinstance(value, list) else [value]))

        sources = dict.fromkeys([*map(str, plan.get("controllers") or []), *words("ssh_from")])
        return cls(
            str(given.get("mode", ec2_rules.PORTS)),
            str(given.get("name", "fullmesh")),
            words("groups"),
            tuple(_normalize_network(one) for one in sources),
            words("extra_ports"),
            str(given.get("vpc_id") or ""),
            given.get("interface_limit", 5),
            given.get("rule_limit", 60),
            dict(given.get("tags") or {}),
        )

    def needs(self, plan: ClusterPlan) -> list[Need]:
        """Return the ports that members must open to each other."""
        return ec2_rules.list_member_needs(
            self.mode, services.list_open_ports(plan, "peers"), self.extra_ports
        )

    def needs_at(self, plan: ClusterPlan, node: str) -> list[Need]:
        """Return the ports of the plan that peers must reach on *node*, including those that everybody may reach."""
        needs = [
            *services.list_open_ports(plan, "peers", node),
            *services.list_open_ports(plan, "everybody", node),
        ]
        return ec2_rules.list_member_needs(ec2_rules.PORTS, needs, self.extra_ports)

    def guests(self, plan: ClusterPlan, node: str = "") -> list[tuple[Need, str]]:
        """Return the ports for other clients, each with its network: ssh, and services open to more than peers.

        Args:
            plan: the cluster plan.
            node: only services on this node. "" for all nodes.
        """
        found = [(ec2_rules.SSH, source) for source in self.ssh_from]
        for port in services.list_open_ports(plan, "controllers", node):
            networks = dict.fromkeys(map(_normalize_network, plan["controllers"]))
            found += [(ec2_rules.parse_need(port), network) for network in networks]
        for port in services.list_open_ports(plan, "everybody", node):
            found += [(ec2_rules.parse_need(port), network) for network in ec2_rules.EVERYBODY]
        return found


def _normalize_network(text: str) -> str:
    """Return the network as EC2 writes it, or the text itself if it is not a network."""
    try:
        return str(ipaddress.ip_network(text.strip(), strict=False))
    except ValueError:
        return text


def find_group_settings_faults(own: SecurityGroupSettings) -> list[Fault]:
    """Find faults in the settings before AWS is queried."""
    found = []
    if own.mode not in (ec2_rules.PORTS, ec2_rules.EFA):
        text = f"ec2_security_group_mode is {own.mode!r}"
        found.append(Fault("EC-101", text, "Use ports, or efa for instances with EFA"))
    for source in own.ssh_from:
        if "/" not in _normalize_network(source) or source in ec2_rules.EVERYBODY:
            text = f"ssh from {source!r} is refused"
            found.append(Fault("EC-102", text, "List the addresses or networks that you work from"))
    for port in own.extra_ports:
        try:
            ec2_rules.parse_need(port)
        except ValueError as error:
            text = f"ec2_security_group_extra_ports: {error}"
            found.append(Fault("EC-103", text, "Correct it"))
    for one in own.groups:
        tag, equals, _value = one.partition("=")
        if not GROUP_ID.match(one) and not (equals and tag):
            text = f"ec2_security_group_groups names {one!r}"
            found.append(Fault("EC-104", text, "Use an ID (sg-…) or a tag (Name=my-group)"))
    return found + _find_format_faults(own)


def _find_format_faults(own: SecurityGroupSettings) -> list[Fault]:
    found = []
    if not GROUP_NAME.match(own.name):
        text = f"ec2_security_group_name is {own.name!r}"
        step = (
            "Use up to 100 letters, digits and . _ - : / and begin with a letter or digit, not sg-"
        )
        found.append(Fault("EC-120", text, step))
    if own.vpc_id and not VPC_ID.match(own.vpc_id):
        text = f"ec2_security_group_vpc_id is {own.vpc_id!r}"
        found.append(Fault("EC-120", text, "Use an ID like vpc-0a1b2c3d, or leave it empty"))
    for name, value in (
        ("interface_limit", own.interface_limit),
        ("rule_limit", own.rule_limit),
    ):
        if not parse_decimal(str(value), 1000):  # AWS: their product
            text = f"ec2_security_group_{name} is {value!r}"
            found.append(Fault("EC-120", text, "Use your account's quota, 1 to 1000"))
    return found
