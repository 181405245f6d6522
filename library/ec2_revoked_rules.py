# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Revoke single rules of a security group and keep all others. Runs on the controller."""

from __future__ import annotations

import contextlib

from ansible.module_utils.fullmesh.ec2_rules import (
    describe_security_rule,
    find_removable_rules,
    list_group_rules,
    revoke_rules,
)
from ansible_collections.amazon.aws.plugins.module_utils.modules import AnsibleAWSModule

with contextlib.suppress(ImportError):  # AnsibleAWSModule reports it
    import botocore.exceptions as botocore_errors

DOCUMENTATION = r"""
---
module: ec2_revoked_rules
short_description: Revoke single rules of a security group
description:
  - M(amazon.aws.ec2_security_group) removes either no rule or all rules that it was not given, including those of
    others. This module revokes exactly the given rules, if they exist.
  - Needs boto3 and the rights C(ec2:DescribeSecurityGroups), C(ec2:DescribeSecurityGroupRules),
    C(ec2:RevokeSecurityGroupIngress) and C(ec2:RevokeSecurityGroupEgress).
  - Credentials come through the usual AWS chain.
options:
  group_id:
    description: The group.
    type: str
    required: true
  rules:
    description: The rules to remove.
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
        description: A rule with another description belongs to others and stays.
        type: str
        default: ''
extends_documentation_fragment:
  - amazon.aws.common.modules
  - amazon.aws.region.modules
  - amazon.aws.boto3
attributes:
  check_mode:
    description: Reports the rules that would be revoked.
    support: full
  diff_mode:
    description: The group's rules before and after.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Revoke obsolete rules
  ec2_revoked_rules:
    group_id: sg-0a1b2c3d4e5f60718
    rules:
      - {direction: in, protocol: tcp, first: 29500, last: 29500, target: sg-0a1b2c3d4e5f60718}
"""

RETURN = r"""
revoked:
  description: The rules that existed.
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
        chosen = find_removable_rules(group, module.params["rules"])
        if chosen and not module.check_mode:
            revoke_rules(client, group_id, chosen)
    except (botocore_errors.ClientError, botocore_errors.BotoCoreError) as error:
        module.fail_json_aws(error, msg=f"the rules of {group_id} cannot be revoked")
    before = [describe_security_rule(key) for key in sorted(list_group_rules(group), key=str)]
    gone = [describe_security_rule(key) for key in sorted(chosen, key=str)]
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
