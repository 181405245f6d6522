"""Find gaps in network ACLs. ACLs are stateless, so replies need their own rule, and they act only between subnets.

Traffic inside one subnet never passes its network ACL (AWS VPC guide, "Network ACL basics"), so two nodes of one
subnet are not checked here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fullmesh.ec2.model import (
    ALL,
    IN,
    OUT,
    Acl,
    Ec2Resources,
    Need,
    Span,
    is_within_network,
    subtract_spans,
)


@dataclass(frozen=True, order=True)
class AclGap:
    """Ports that an ACL blocks.

    Attributes:
        acl: its id.
        subnet: the subnet that it guards.
        direction: ``in`` or ``out``, seen from that subnet.
        address: the other end.
        need: the ports.
        number: the entry that denies them, 0 if no entry allows them.
    """

    acl: str
    subnet: str
    direction: str
    address: str
    need: Need
    number: int


@dataclass(frozen=True)
class AclEndpoint:
    """One end of a connection. The subnet is empty outside the VPC."""

    address: str
    subnet: str = ""


def find_denied_ports(acl: Acl, direction: str, address: str, need: Need) -> list[tuple[Need, int]]:
    """Return the parts of *need* that *acl* denies, each with the number of the denying entry (0: no entry)."""
    left: list[Span] = [(need.first, need.last)]
    result: list[tuple[Need, int]] = []
    for entry in acl.entries:
        if entry.direction != direction or entry.protocol not in (ALL, need.protocol):
            continue
        if not is_within_network(address, entry.network):
            continue
        rest = subtract_spans(left, [(entry.first, entry.last)])
        if not entry.allow:
            taken = subtract_spans(left, rest)
            # the line that every ACL ends with ("*") is 32767, for IPv6 32768
            number = entry.number if entry.number < 32767 else 0  # noqa: PLR2004 (AWS's own number)
            result += [(Need(need.protocol, low, high), number) for low, high in taken]
        left = rest
    result += [(Need(need.protocol, low, high), 0) for low, high in left]
    return sorted(result)


def find_acl_gaps(
    seen: Ec2Resources, source: AclEndpoint, target: AclEndpoint, needs: Iterable[Need]
) -> list[AclGap]:
    """Return the ports that the ACLs between *source* and *target* block."""
    if source.subnet == target.subnet:
        return []
    found = []
    for here, other, direction in ((source, target, OUT), (target, source, IN)):
        acl = seen.acl_of(here.subnet) if here.subnet else None
        if acl is None:
            continue
        for need in needs:
            for part, number in find_denied_ports(acl, direction, other.address, need):
                found.append(AclGap(acl.id, here.subnet, direction, other.address, part, number))
    return found
