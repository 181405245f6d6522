# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the rule that blocks a packet, with the kernel's traces."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.probe.rule_trace import trace_rules
from ansible.module_utils.fullmesh.schema.ladder_arguments import LADDER_TRACE

DOCUMENTATION = r"""
---
module: ladder_trace
short_description: Repeat closed connections, and find the packet filter rules that block them
description:
  - Both ends of a connection are traced at the same time. The kernel reports the packets that Fullmesh's table marks.
  - That table decides nothing. The kernel removes it with the process that made it.
options:
  token:
    description: The secret of this diagnosis.
    type: str
    default: ""
  node:
    description: Name of this node in the plan.
    type: str
    required: true
  address:
    description: This node's cluster address.
    type: str
    required: true
  targets:
    description: Listeners of peers to connect to, each with C(node), C(address), C(port) and C(kind).
    type: list
    elements: dict
    default: []
  ends:
    description: >-
      Peers to watch: each with its address, and the ports of closed listeners on this node (C(mine)) and on the peer
      (C(theirs)).
    type: list
    elements: dict
    required: true
  payload:
    description: Bytes to send there and back if a connection is open after all.
    type: int
    default: 1024
  seconds:
    description: Deadline for all connections together.
    type: float
    default: 1.3
attributes:
  check_mode:
    description: Works as without check mode, because it changes nothing on the node.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Trace the rules that block node2
  ladder_trace:
    node: node1
    address: 192.0.2.11
    targets:
      - {node: node2, address: 192.0.2.12, port: 50012, kind: sample}
    ends:
      - {address: 192.0.2.12, mine: [], theirs: [50012]}
  register: __traces
"""

RETURN = r"""
traced:
  description: >-
    Blocked packets. C(family), C(table) and C(chain) of the rule, its C(handle) (0 for the chain's policy), C(rule) as
    nft prints it, and C(source), C(target), C(sport), C(dport) of the packet.
  type: list
  elements: dict
  returned: always
why:
  description: Why tracing was not possible, or empty.
  type: str
  returned: always
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=LADDER_TRACE, supports_check_mode=True)
    said = trace_rules(**module.params)
    module.exit_json(changed=False, invocation={}, **said)


if __name__ == "__main__":
    main()
