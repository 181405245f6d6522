"""Compute the rules that a cluster needs in its security groups, and compare them with the existing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fullmesh.ec2.model import (
    ALL,
    EVERY_PORT,
    IN,
    OUT,
    Ec2Interface,
    Ec2Resources,
    Need,
    SecurityGroup,
    SecurityGroupRule,
    Span,
    is_within_network,
    merge_needs,
    subtract_spans,
)
from fullmesh.observed.ports import parse_port_entry

PORTS, EFA = "ports", "efa"
SSH = Need("tcp", 22, 22)
EVERYBODY = ("0.0.0.0/0", "::/0")
EVERYTHING = Need(ALL, *EVERY_PORT)
# Fullmesh marks its rules in their description, which the AWS console shows.
MARK = "Fullmesh "


def parse_need(text: object) -> Need:
    """Read ``29500/tcp`` or ``50000-54095/udp`` (firewalld's notation, as in the plan's ``open_ports``).

    Raises:
        ValueError: anything else.
    """
    found = parse_port_entry(text)
    if found is None or found[1] not in ("tcp", "udp") or not found[0].first:
        raise ValueError(
            f"{str(text)!r} is not a port within 1-65535. Write it like 22/tcp or 6000-6010/udp, lower end first"
        )
    span, protocol = found
    return Need(protocol, span.first, span.last)


def list_member_needs(
    mode: str, open_ports: Iterable[object], extra: Iterable[object] = ()
) -> list[Need]:
    """List the ports that members must open to each other: all traffic with EFA, else the plan's ports.

    Adjacent ports are merged, because a security group has room for few rules.
    """
    if mode == EFA:
        return [EVERYTHING]
    return merge_needs(parse_need(port) for port in [*open_ports, *extra])


def format_rule_mark(name: str) -> str:
    """Return the beginning of the description of each rule of the cluster *name*."""
    return f"{MARK}{name}: "


def build_group_rules(
    group: str, members: Sequence[Need], guests: Iterable[tuple[Need, str]], name: str
) -> list[SecurityGroupRule]:
    """Build the rules that *group* needs: members in both directions, and ports for named networks.

    Outbound rules are included, because a group without the default outbound rule blocks the cluster too.
    """
    rules = []
    for need in members:
        why = "all traffic between members (EFA)" if need.protocol == ALL else "between members"
        for direction in (IN, OUT):
            text = format_rule_mark(name) + why
            rules.append(
                SecurityGroupRule(direction, need.protocol, need.first, need.last, group, text)
            )
    for need, network in guests:
        why = "ssh" if need == SSH else "service"
        rules.append(
            SecurityGroupRule(
                IN, need.protocol, need.first, need.last, network, format_rule_mark(name) + why
            )
        )
    return rules


def is_rule_for(rule: SecurityGroupRule, direction: str, protocol: str) -> bool:
    """Return whether *rule* covers this direction and protocol."""
    return rule.direction == direction and rule.protocol in (ALL, protocol)


def find_missing_ports(
    want: SecurityGroupRule, groups: Sequence[SecurityGroup], own: str, members: Sequence[str]
) -> list[Need]:
    """Return the ports of *want* that *groups* do not open.

    For all traffic (EFA), a rule only counts if it names its own group: the default outbound 0.0.0.0/0 does not carry
    OS-bypass traffic (AWS EFA guide, "EFA-enabled security group", and aws-ofi-nccl#663). For ports, any rule that
    covers every member counts.

    Args:
        want: the rule.
        groups: the groups that every member has.
        own: id of the group that *want* names, "" if it names a network.
        members: addresses of the cluster.
    """
    shared = {group.id for group in groups}

    def holds(group: SecurityGroup, rule: SecurityGroupRule) -> bool:
        if not own:
            return is_within_network(want.target, rule.target)
        if want.protocol == ALL:
            return rule.target == group.id
        return rule.target in shared or all(is_within_network(one, rule.target) for one in members)

    spans = [
        (rule.first, rule.last)
        for group in groups
        for rule in group.rules
        if is_rule_for(rule, want.direction, want.protocol) and holds(group, rule)
    ]
    left = subtract_spans([(want.first, want.last)], spans)
    return [Need(want.protocol, first, last) for first, last in left]


def find_missing_rules(
    wants: Sequence[SecurityGroupRule],
    groups: Sequence[SecurityGroup],
    own: str,
    members: Sequence[str],
) -> list[tuple[SecurityGroupRule, list[Need]]]:
    """Return the rules that the groups lack, each with the missing ports."""
    found = []
    for want in wants:
        gap = find_missing_ports(want, groups, own if want.target == own else "", members)
        if gap:
            found.append((want, gap))
    return found


def find_stale_rules(
    wants: Iterable[SecurityGroupRule], group: SecurityGroup | None, name: str
) -> list[SecurityGroupRule]:
    """Return rules with Fullmesh's mark that are no longer needed, never rules of other owners."""
    keep = set(wants)
    rules = group.rules if group else ()
    return [
        rule
        for rule in rules
        if rule.description.startswith(format_rule_mark(name)) and rule not in keep
    ]


def remove_group_rules(group: SecurityGroup, rules: Sequence[SecurityGroupRule]) -> SecurityGroup:
    """Return the group without *rules*."""
    return replace(group, rules=tuple(rule for rule in group.rules if rule not in rules))


def find_open_ssh_rules(
    groups: Iterable[SecurityGroup],
) -> list[tuple[SecurityGroup, SecurityGroupRule]]:
    """Return rules that open the ssh port to everybody."""
    return [
        (group, rule)
        for group in groups
        for rule in group.rules
        if rule.target in EVERYBODY
        and is_rule_for(rule, IN, "tcp")
        and rule.first <= SSH.first <= rule.last
    ]


def rule_to_argument(rule: SecurityGroupRule, own: str, own_name: str) -> dict[str, Any]:
    """Convert the rule for ``amazon.aws.ec2_security_group``. A group that does not exist yet is given by its name."""
    result: dict[str, Any] = {"rule_desc": rule.description}
    if rule.protocol == ALL:
        result["proto"] = "all"
    else:
        result |= {"proto": rule.protocol, "from_port": rule.first, "to_port": rule.last}
    if rule.target == own:
        result |= {"group_id": own} if own.startswith("sg-") else {"group_name": own_name}
    elif ":" in rule.target:
        result["cidr_ipv6"] = rule.target
    else:
        result["cidr_ip"] = rule.target
    return result


@dataclass(frozen=True)
class Ec2Node:
    """A node for the rules: its cluster address and its interface with the groups."""

    node: str
    address: str
    interface: Ec2Interface


def find_opened_spans(
    rules: Iterable[SecurityGroupRule],
    direction: str,
    need: Need,
    address: str,
    groups: Iterable[str],
) -> list[Span]:
    """Return the spans of *need* that *rules* open to a peer with this address and these groups."""
    peers = set(groups)
    return [
        (rule.first, rule.last)
        for rule in rules
        if is_rule_for(rule, direction, need.protocol)
        and (
            rule.target in peers
            or (need.protocol != ALL and is_within_network(address, rule.target))
        )
    ]


def find_blocked_ports(
    seen: Ec2Resources, here: Ec2Node, peer: Ec2Node, direction: str, need: Need
) -> list[Need]:
    """Return the ports of *need* that the groups of *here* block in *direction* to *peer*. Rules of all groups add up.

    EFA needs one group that both have and that names itself, so only the shared groups of a peer count.
    """
    rules = [
        rule
        for one in here.interface.groups
        if one in seen.groups
        for rule in seen.groups[one].rules
    ]
    peers = peer.interface.groups
    if need.protocol == ALL:
        peers = tuple(set(peers) & set(here.interface.groups))
    spans = find_opened_spans(rules, direction, need, peer.address, peers)
    left = subtract_spans([(need.first, need.last)], spans)
    return [Need(need.protocol, first, last) for first, last in left]


def rule_to_permission(rule: SecurityGroupRule) -> dict[str, Any]:
    """Convert the rule for the module ``ec2_revoked_rules``."""
    return {
        "direction": rule.direction,
        "protocol": rule.protocol,
        "first": rule.first,
        "last": rule.last,
        "target": rule.target,
        "description": rule.description,
    }


def build_group_tags(name: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a group that Fullmesh creates."""
    return {**{str(key): str(value) for key, value in more.items()}, TAG: name}


# On a group: Fullmesh created it for the cluster of this name. On an interface, "<TAG>/<name>" lists groups that
# Fullmesh attached.
TAG = "fullmesh-cluster"
