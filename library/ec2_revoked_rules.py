# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Take single rules out of a security group and leave every other rule alone. Runs on the controller."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule

with contextlib.suppress(ImportError):  # AnsibleAWSModule says so
    import botocore.exceptions as botocore_errors

if TYPE_CHECKING:
    from typing import Any

    Entry = dict[str, Any]

DOCUMENTATION = r"""
---
module: ec2_revoked_rules
short_description: Take single rules out of a security group
description:
  - M(amazon.aws.ec2_security_group) removes either no rule or all that it was not given, other people's among them.
    This one revokes exactly the rules that it is given, where they are there.
  - Needs boto3 and the rights C(ec2:DescribeSecurityGroups), C(ec2:DescribeSecurityGroupRules),
    C(ec2:RevokeSecurityGroupIngress) and C(ec2:RevokeSecurityGroupEgress).
  - Credentials come through the usual AWS chain.
options:
  group_id:
    description: The group.
    type: str
    required: true
  rules:
    description: What must be gone.
    type: list
    elements: dict
    required: true
    suboptions:
      direction:
        description: V(in) or V(out).
        type: str
        choices: [in, out]
        required: true
      protocol:
        description: V(tcp), V(udp), V(-1) for all, or a number.
        type: str
        required: true
      first:
        description: Lowest port.
        type: int
        required: true
      last:
        description: Highest port.
        type: int
        required: true
      target:
        description: A group's id or a network.
        type: str
        required: true
      description:
        description: A rule with another description is somebody else's by now, and stays.
        type: str
        default: ''
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
attributes:
  check_mode:
    description: Says what would be revoked.
    support: full
  diff_mode:
    description: The group's rules before and after.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Take our rule out
  ec2_revoked_rules:
    group_id: sg-0a1b2c3d4e5f60718
    rules:
      - {direction: in, protocol: tcp, first: 29500, last: 29500, target: sg-0a1b2c3d4e5f60718}
"""

RETURN = r"""
revoked:
  description: The rules that were there.
  type: list
  elements: str
  returned: success
"""

RULE = {
    "direction": {"type": "str", "choices": ["in", "out"], "required": True},
    "protocol": {"type": "str", "required": True},
    "first": {"type": "int", "required": True},
    "last": {"type": "int", "required": True},
    "target": {"type": "str", "required": True},
    "description": {"type": "str", "default": ""},
}
SOURCES = (
    ("IpRanges", "CidrIp"),
    ("Ipv6Ranges", "CidrIpv6"),
    ("UserIdGroupPairs", "GroupId"),
)


def identity(direction: str, permission: Entry, target: str) -> tuple[Any, ...]:
    """What EC2 tells rules apart by."""
    protocol = str(permission["IpProtocol"])
    ports = (permission.get("FromPort"), permission.get("ToPort"))
    return (direction, protocol, None if protocol == "-1" else ports, target)


def present(group: Entry) -> dict[tuple[Any, ...], str]:
    """Every rule of a group: identity -> its description."""
    found = {}
    for direction, key in (("in", "IpPermissions"), ("out", "IpPermissionsEgress")):
        for permission in group.get(key, []):
            for kind, name in SOURCES:
                for source in permission.get(kind, []):
                    ident = identity(direction, permission, str(source.get(name)))
                    found[ident] = str(source.get("Description") or "")
    return found


def rule_ids(answer: list[Entry]) -> dict[tuple[Any, ...], str]:
    """Identity -> id, from DescribeSecurityGroupRules."""
    found = {}
    for rule in answer:
        other = rule.get("ReferencedGroupInfo") or {}
        target = rule.get("CidrIpv4") or rule.get("CidrIpv6") or other.get("GroupId")
        direction = "out" if rule.get("IsEgress") else "in"
        found[identity(direction, rule, str(target))] = str(rule["SecurityGroupRuleId"])
    return found


def wanted_gone(rule: Entry) -> tuple[Any, ...]:
    """The identity of a rule as it was given."""
    head = {"IpProtocol": rule["protocol"], "FromPort": rule["first"], "ToPort": rule["last"]}
    return identity(rule["direction"], head, rule["target"])


def choose(group: Entry, rules: list[Entry]) -> list[tuple[Any, ...]]:
    """The rules that are there and are still described as we described them."""
    there = present(group)
    return [
        key
        for key, text in ((wanted_gone(rule), rule["description"]) for rule in rules)
        if there.get(key) == text
    ]


def words(key: tuple[Any, ...]) -> str:
    """A rule in words, for the diff."""
    direction, protocol, ports, target = key
    if ports is None:
        return f"{direction} all traffic {target}"
    return f"{direction} {ports[0]}-{ports[1]}/{protocol} {target}"


def revoke(client: Any, group_id: str, chosen: list[tuple[Any, ...]]) -> None:
    """One call for each direction, by the rules' ids: nothing else can be meant."""
    pages = client.get_paginator("describe_security_group_rules").paginate(
        Filters=[{"Name": "group-id", "Values": [group_id]}]
    )
    known = rule_ids([rule for page in pages for rule in page["SecurityGroupRules"]])
    for direction, call in (
        ("in", client.revoke_security_group_ingress),
        ("out", client.revoke_security_group_egress),
    ):
        own = [known[key] for key in chosen if key[0] == direction and key in known]
        if own:
            call(GroupId=group_id, SecurityGroupRuleIds=own)


def main() -> None:
    """Read the group, compare, revoke."""
    module = AnsibleAWSModule(
        argument_spec={
            "group_id": {"type": "str", "required": True},
            "rules": {"type": "list", "elements": "dict", "required": True, "options": RULE},
        },
        supports_check_mode=True,
    )
    client = module.client("ec2")
    group_id = module.params["group_id"]
    try:
        group = client.describe_security_groups(GroupIds=[group_id])["SecurityGroups"][0]
        chosen = choose(group, module.params["rules"])
        if chosen and not module.check_mode:
            revoke(client, group_id, chosen)
    except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
        module.fail_json_aws(error, msg=f"the rules of {group_id} cannot be revoked")
    before = [words(key) for key in sorted(present(group), key=str)]
    gone = [words(key) for key in sorted(chosen, key=str)]
    after = [line for line in before if line not in gone]
    module.exit_json(
        changed=bool(chosen),
        revoked=gone,
        diff={
            "before_header": group_id,
            "after_header": group_id,
            "before": "".join(line + "\n" for line in before),
            "after": "".join(line + "\n" for line in after),
        },
    )


if __name__ == "__main__":
    main()
