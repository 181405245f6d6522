"""Parse EC2's answers into plain data: interfaces, security groups, network ACLs, and arithmetic of ports.

The answers come from ``amazon.aws.ec2_eni_info``, ``ec2_security_group_info`` and ``ec2_vpc_nacl_info``. A rule with
something unknown (a new kind of source) is assumed to allow nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

Span = tuple[int, int]
ALL, EVERY_PORT = "-1", (0, 65535)
IN, OUT = "in", "out"
# protocol numbers that have a name in the EC2 API (RFC 1700)
NAMES = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "all": ALL, "-1": ALL}


@dataclass(frozen=True, order=True)
class Need:
    """Ports that must be open, both ends included. ``-1`` means every protocol."""

    protocol: str
    first: int
    last: int

    def __str__(self) -> str:
        if self.protocol == ALL:
            return "all traffic"
        ports = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{ports}/{self.protocol}"


@dataclass(frozen=True, order=True)
class SecurityGroupRule:
    """One rule of a security group. EC2 identifies a rule by all fields except its description.

    Attributes:
        direction: ``in`` or ``out``.
        protocol: ``tcp``, ``udp``, ``icmp``, ``icmpv6``, a number, or ``-1`` for all.
        first: lowest port, 0 for ``-1``.
        last: highest port, 65535 for ``-1``.
        target: ``sg-…``, a network, or ``pl-…`` (prefix list).
        description: free text.
    """

    direction: str
    protocol: str
    first: int
    last: int
    target: str
    description: str = field(default="", compare=False)

    def __str__(self) -> str:
        word = "from" if self.direction == IN else "to"
        return f"{Need(self.protocol, self.first, self.last)} {word} {self.target}"


@dataclass(frozen=True)
class SecurityGroup:
    """A security group."""

    id: str
    name: str
    vpc: str
    rules: tuple[SecurityGroupRule, ...]
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.id} ({self.name})"


@dataclass(frozen=True)
class Ec2Interface:
    """An elastic network interface. ``kind`` is ``interface``, ``efa`` or ``efa-only``."""

    id: str
    instance: str
    vpc: str
    subnet: str
    zone: str
    kind: str
    groups: tuple[str, ...]
    addresses: tuple[str, ...]
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def efa(self) -> bool:
        """Return whether it carries EFA traffic."""
        return self.kind.startswith("efa")


@dataclass(frozen=True, order=True)
class AclEntry:
    """One numbered entry of a network ACL. The matching entry with the lowest number decides."""

    number: int
    direction: str
    protocol: str
    allow: bool
    network: str
    first: int
    last: int


@dataclass(frozen=True)
class Acl:
    """A network ACL."""

    id: str
    subnets: tuple[str, ...]
    entries: tuple[AclEntry, ...]


@dataclass(frozen=True)
class Ec2Resources:
    """All data that was read from EC2."""

    interfaces: tuple[Ec2Interface, ...] = ()
    groups: Mapping[str, SecurityGroup] = field(default_factory=dict)
    acls: tuple[Acl, ...] = ()

    def acl_of(self, subnet: str) -> Acl | None:
        """Return the ACL of a subnet. A subnet has exactly one."""
        return next((acl for acl in self.acls if subnet in acl.subnets), None)

    def named(self, ids: Iterable[str]) -> str:
        """List groups with their names."""
        return ", ".join(str(self.groups.get(one, one)) for one in ids) or "none"


def subtract_spans(spans: Sequence[Span], holes: Iterable[Span]) -> list[Span]:
    """Return *spans* without *holes*, sorted."""
    left = sorted(spans)
    for low, high in holes:
        kept: list[Span] = []
        for first, last in left:
            if high < first or low > last:
                kept.append((first, last))
                continue
            if first < low:
                kept.append((first, low - 1))
            if last > high:
                kept.append((high + 1, last))
        left = kept
    return left


def merge_needs(needs: Iterable[Need]) -> list[Need]:
    """Merge the ports into as few needs as possible."""
    result: list[Need] = []
    for need in sorted(set(needs)):
        last = result[-1] if result else None
        if last and last.protocol == need.protocol and need.first <= last.last + 1:
            result[-1] = Need(last.protocol, last.first, max(last.last, need.last))
        else:
            result.append(need)
    return result


@lru_cache(maxsize=65536)
def is_within_network(inner: str, outer: str) -> bool:
    """Return whether the address or network *inner* is in *outer*. If either is not a network, return False."""
    try:
        small = ipaddress.ip_network(inner, strict=False)
        large = ipaddress.ip_network(outer, strict=False)
    except ValueError:
        return False
    if isinstance(small, ipaddress.IPv4Network) and isinstance(large, ipaddress.IPv4Network):
        return small.subnet_of(large)
    if isinstance(small, ipaddress.IPv6Network) and isinstance(large, ipaddress.IPv6Network):
        return small.subnet_of(large)
    return False


def normalize_protocol(value: object) -> str:
    """Return ``tcp`` for 6 and so on. A protocol without a name stays a number."""
    text = str(value).lower()
    return NAMES.get(text, text)


def parse_port_span(protocol: str, first: object, last: object) -> Span:
    """Return the ports of a rule. Protocols other than TCP, UDP and ICMP have no ports (EC2 API)."""
    if protocol not in ("tcp", "udp", "icmp", "icmpv6") or first is None or last is None:
        return EVERY_PORT
    return int(str(first)), int(str(last))


def _parse_group_rules(
    permissions: Iterable[Mapping[str, Any]], direction: str
) -> Iterable[SecurityGroupRule]:
    sources = (
        ("ip_ranges", "cidr_ip"),
        ("ipv6_ranges", "cidr_ipv6"),
        ("prefix_list_ids", "prefix_list_id"),
        ("user_id_group_pairs", "group_id"),
    )
    for entry in permissions:
        protocol = normalize_protocol(entry.get("ip_protocol", ALL))
        first, last = parse_port_span(protocol, entry.get("from_port"), entry.get("to_port"))
        for kind, key in sources:
            for source in entry.get(kind) or []:
                target = str(source.get(key) or "")
                text = str(source.get("description") or "")
                yield SecurityGroupRule(direction, protocol, first, last, target, text)


def parse_ec2_group(answer: Mapping[str, Any]) -> SecurityGroup:
    """Read one entry of ``ec2_security_group_info``."""
    rules = [
        *_parse_group_rules(answer.get("ip_permissions") or [], IN),
        *_parse_group_rules(answer.get("ip_permissions_egress") or [], OUT),
    ]
    return SecurityGroup(
        str(answer["group_id"]),
        str(answer.get("group_name") or ""),
        str(answer.get("vpc_id") or ""),
        tuple(sorted(rules)),
        str(answer.get("description") or ""),
        {str(key): str(value) for key, value in (answer.get("tags") or {}).items()},
    )


def parse_ec2_interface(answer: Mapping[str, Any]) -> Ec2Interface:
    """Read one entry of ``ec2_eni_info``."""
    held = [one.get("private_ip_address") for one in answer.get("private_ip_addresses") or []]
    held += [answer.get("private_ip_address")]
    held += [one.get("ipv6_address") for one in answer.get("ipv6_addresses") or []]
    return Ec2Interface(
        str(answer["network_interface_id"]),
        str((answer.get("attachment") or {}).get("instance_id") or ""),
        str(answer.get("vpc_id") or ""),
        str(answer.get("subnet_id") or ""),
        str(answer.get("availability_zone") or ""),
        str(answer.get("interface_type") or "interface"),
        tuple(str(one["group_id"]) for one in answer.get("groups") or []),
        tuple(dict.fromkeys(_normalize_address(one) for one in held if one)),
        {str(key): str(value) for key, value in (answer.get("tags") or {}).items()},
    )


def _normalize_address(address: object) -> str:
    try:
        return str(ipaddress.ip_address(str(address)))
    except ValueError:
        return str(address)


def parse_ec2_acl(answer: Mapping[str, Any]) -> Acl:
    """Read one entry of ``ec2_vpc_nacl_info``: ``[number, protocol, action, network, type, code, from, to]``."""
    entries = []
    for direction, key in ((IN, "ingress"), (OUT, "egress")):
        for line in answer.get(key) or []:
            protocol = normalize_protocol(line[1])
            first, last = parse_port_span(protocol, line[6], line[7])
            allow = str(line[2]).lower() == "allow"
            network = str(line[3] or "")
            entries.append(AclEntry(int(line[0]), direction, protocol, allow, network, first, last))
    subnets = tuple(str(one) for one in answer.get("subnets") or [])
    return Acl(str(answer["nacl_id"]), subnets, tuple(sorted(entries)))


def parse_ec2_answers(
    interfaces: Iterable[Mapping[str, Any]],
    groups: Iterable[Mapping[str, Any]],
    acls: Iterable[Mapping[str, Any]],
) -> Ec2Resources:
    """Parse the three answers. An interface that occurs twice counts once."""
    found = {one.id: one for one in map(parse_ec2_interface, interfaces)}
    known = {one.id: one for one in map(parse_ec2_group, groups)}
    return Ec2Resources(tuple(found.values()), known, tuple(map(parse_ec2_acl, acls)))
