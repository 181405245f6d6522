# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find and revoke single rules of a security group. Runs on the controller."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

# EC2's answers (its API reference): boto3's own dicts.
Answer = dict[str, Any]

SOURCES = (
    ("IpRanges", "CidrIp"),
    ("Ipv6Ranges", "CidrIpv6"),
    ("UserIdGroupPairs", "GroupId"),
)


class SecurityRuleKey(NamedTuple):
    """The identity of a rule in EC2. ``ports`` is None for all traffic."""

    direction: str
    protocol: str
    ports: tuple[int | None, int | None] | None
    target: str


class SecurityRule(TypedDict):
    """A rule as Fullmesh wrote it."""

    direction: str
    protocol: str
    first: int | None
    last: int | None
    target: str
    description: str


def parse_rule_key(direction: str, permission: Answer, target: str) -> SecurityRuleKey:
    """Parse a permission into its identity."""
    protocol = str(permission["IpProtocol"])
    ports = (permission.get("FromPort"), permission.get("ToPort"))
    return SecurityRuleKey(direction, protocol, None if protocol == "-1" else ports, target)


def list_group_rules(group: Answer) -> dict[SecurityRuleKey, str]:
    """Return every rule of a group: identity -> description."""
    found = {}
    for direction, key in (("in", "IpPermissions"), ("out", "IpPermissionsEgress")):
        for permission in group.get(key, []):
            for kind, name in SOURCES:
                for source in permission.get(kind, []):
                    ident = parse_rule_key(direction, permission, str(source.get(name)))
                    found[ident] = str(source.get("Description") or "")
    return found


def map_rule_ids(answer: list[Answer]) -> dict[SecurityRuleKey, str]:
    """Return identity -> id from DescribeSecurityGroupRules."""
    found = {}
    for rule in answer:
        other = rule.get("ReferencedGroupInfo") or {}
        target = rule.get("CidrIpv4") or rule.get("CidrIpv6") or other.get("GroupId")
        direction = "out" if rule.get("IsEgress") else "in"
        found[parse_rule_key(direction, rule, str(target))] = str(rule["SecurityGroupRuleId"])
    return found


def make_rule_key(rule: SecurityRule) -> SecurityRuleKey:
    """Return the identity of a rule."""
    head = {"IpProtocol": rule["protocol"], "FromPort": rule["first"], "ToPort": rule["last"]}
    return parse_rule_key(rule["direction"], head, rule["target"])


def find_removable_rules(group: Answer, rules: list[SecurityRule]) -> list[SecurityRuleKey]:
    """Return the rules that exist and still have the original description."""
    there = list_group_rules(group)
    return [
        key
        for key, text in ((make_rule_key(rule), rule["description"]) for rule in rules)
        if there.get(key) == text
    ]


def describe_security_rule(key: SecurityRuleKey) -> str:
    """Describe a rule for the diff."""
    direction, protocol, ports, target = key
    if ports is None:
        return f"{direction} all traffic {target}"
    return f"{direction} {ports[0]}-{ports[1]}/{protocol} {target}"


def revoke_rules(client: Any, group_id: str, chosen: list[SecurityRuleKey]) -> None:
    """Revoke rules with one call for each direction. Rule ids make this exact."""
    pages = client.get_paginator("describe_security_group_rules").paginate(
        Filters=[{"Name": "group-id", "Values": [group_id]}]
    )
    known = map_rule_ids([rule for page in pages for rule in page["SecurityGroupRules"]])
    for direction, call in (
        ("in", client.revoke_security_group_ingress),
        ("out", client.revoke_security_group_egress),
    ):
        own = [known[key] for key in chosen if key[0] == direction and key in known]
        if own:
            call(GroupId=group_id, SecurityGroupRuleIds=own)
