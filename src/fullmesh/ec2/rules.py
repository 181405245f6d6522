"""Which rules a cluster wants in its security groups, which are there, and which are somebody else's."""

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
# A rule of ours says so in its description, which is what the AWS console shows beside it.
MARK = "Fullmesh "


def parse_need(text: object) -> Need:
    """Read ``29500/tcp`` or ``50000-54095/udp`` (firewalld's spelling, as in the plan's ``open_ports``).

    Raises:
        ValueError: anything else.
    """
    found = parse_port_entry(text)
    if found is None or found[1] not in ("tcp", "udp") or not found[0].first:
        raise ValueError(
            f"{str(text)!r} is no port within 1-65535; write it like 22/tcp or 6000-6010/udp, lower end first"
        )
    span, protocol = found
    return Need(protocol, span.first, span.last)


def list_member_needs(
    mode: str, open_ports: Iterable[object], extra: Iterable[object] = ()
) -> list[Need]:
    """What the members must let each other do: all traffic with EFA, else the plan's ports.

    Neighbouring ports become one: a security group has room for few rules.
    """
    if mode == EFA:
        return [EVERYTHING]
    return merge_needs(parse_need(port) for port in [*open_ports, *extra])


def format_rule_mark(name: str) -> str:
    """How the description of each rule of the cluster *name* begins."""
    return f"{MARK}{name}: "


def build_group_rules(
    group: str, members: Sequence[Need], guests: Iterable[tuple[Need, str]], name: str
) -> list[SecurityGroupRule]:
    """The rules that *group* has to hold: members both ways, and what named networks may come to.

    The way out is asked for as well: a group whose default outbound rule was taken away blocks the cluster just so.
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
    """Whether *rule* speaks of this direction and protocol at all."""
    return rule.direction == direction and rule.protocol in (ALL, protocol)


def find_missing_ports(
    want: SecurityGroupRule, groups: Sequence[SecurityGroup], own: str, members: Sequence[str]
) -> list[Need]:
    """The ports of *want* that *groups* leave shut.

    For all traffic (EFA) only a rule counts that names the very group that holds it: the default outbound 0.0.0.0/0
    does not carry OS-bypass traffic (AWS EFA guide, "EFA-enabled security group"; aws-ofi-nccl#663). For ports any
    rule counts that holds every member.

    Args:
        want: the rule.
        groups: those that every member has.
        own: id of the group that *want* names, "" when it names a network.
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
    """The rules that the groups lack, each with the ports that are shut."""
    found = []
    for want in wants:
        gap = find_missing_ports(want, groups, own if want.target == own else "", members)
        if gap:
            found.append((want, gap))
    return found


def find_stale_rules(
    wants: Iterable[SecurityGroupRule], group: SecurityGroup | None, name: str
) -> list[SecurityGroupRule]:
    """Rules that carry our mark and are wanted no longer; nobody else's rule is ever among them."""
    keep = set(wants)
    rules = group.rules if group else ()
    return [
        rule
        for rule in rules
        if rule.description.startswith(format_rule_mark(name)) and rule not in keep
    ]


def remove_group_rules(group: SecurityGroup, rules: Sequence[SecurityGroupRule]) -> SecurityGroup:
    """The group as it is once *rules* are gone."""
    return replace(group, rules=tuple(rule for rule in group.rules if rule not in rules))


def find_open_ssh_rules(
    groups: Iterable[SecurityGroup],
) -> list[tuple[SecurityGroup, SecurityGroupRule]]:
    """Rules that let the whole world in at the ssh port."""
    return [
        (group, rule)
        for group in groups
        for rule in group.rules
        if rule.target in EVERYBODY
        and is_rule_for(rule, IN, "tcp")
        and rule.first <= SSH.first <= rule.last
    ]


def rule_to_argument(rule: SecurityGroupRule, own: str, own_name: str) -> dict[str, Any]:
    """The rule as ``amazon.aws.ec2_security_group`` takes it; a group that is still to be made is known by its name."""
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
    """A node as the rules see it: its cluster address and the groups that guard it."""

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
    """The spans of *need* that *rules* open towards a peer with this address and these groups."""
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
    """The ports of *need* that the groups of *here* keep shut in *direction* towards *peer*; groups add up.

    EFA asks for one group that both have and that names itself, so a peer counts by the groups that are shared.
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
    """The rule as the module ``ec2_revoked_rules`` takes it."""
    return {
        "direction": rule.direction,
        "protocol": rule.protocol,
        "first": rule.first,
        "last": rule.last,
        "target": rule.target,
        "description": rule.description,
    }


def build_group_tags(name: str, more: Mapping[str, str]) -> dict[str, str]:
    """The tags of a group that we make."""
    return {**{str(key): str(value) for key, value in more.items()}, TAG: name}


# On a group: made by Fullmesh for the cluster of this name. On an interface, "<TAG>/<name>": groups that we put there.
TAG = "fullmesh-cluster"
