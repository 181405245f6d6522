# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""First call of the verification on a node: look at it, ask NCCL, open the listeners."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.probe.first_call import answer
from ansible.module_utils.fullmesh.schema.ladder_arguments import LADDER_NODE

DOCUMENTATION = r"""
---
module: ladder_node
short_description: Look at a node as a distributed job sees it, and open the listeners for a link test
description:
  - Reads addresses, names, limits, kernel settings and versions; lets the system's NCCL choose its address.
  - Leaves a detached process behind that listens for ladder_links and ends by itself after O(lifetime) seconds.
    It serves only those who know O(token).
options:
  run:
    description: Name of this verification; letters, digits, - and _.
    type: str
    required: true
  token:
    description: The secret of this verification.
    type: str
    required: true
  node:
    description: Name of this node in the plan.
    type: str
    required: true
  address:
    description: This node's cluster address.
    type: str
    required: true
  interface:
    description: Interface of the plan, used when the address is not there.
    type: str
    default: ""
  hosts:
    description: The plan's list of addresses with their names.
    type: list
    elements: dict
    default: []
  python:
    description: Interpreter of the jobs.
    type: str
    required: true
  samples:
    description: How many listeners get their port from the kernel.
    type: int
    default: 3
  named:
    description: Fixed ports to listen on, each with C(kind) and C(port).
    type: list
    elements: dict
    default: []
  outside:
    description: Open one more listener on a port that peers must not reach.
    type: bool
    default: false
  allowed:
    description: Ranges (first and last port) that the extra listener must keep out of.
    type: list
    elements: list
    default: []
  survey:
    description: Look at everything that the rules of the diagnosis ask for.
    type: bool
    default: false
  beside:
    description:
      - Look names up while the listeners and probes of this run are at work; ladder_gloo returns the answers.
      - A name server that says nothing costs its seconds in any case, but nobody waits for them twice.
    type: bool
    default: false
  range:
    description: First and last data port; empty takes the range that this kernel gives out.
    type: list
    elements: int
    default: []
  assumed:
    description: The range is a guess; a node that Fullmesh never configured takes its kernel's own range.
    type: bool
    default: false
  spread:
    description: How many listeners are spread over the range, besides those at the borders of firewall rules.
    type: int
    default: 0
  listen:
    description: Open the listeners.
    type: bool
    default: true
  nccl:
    description: Ask the system's NCCL.
    type: bool
    default: true
  lifetime:
    description: Seconds after which the listeners end by themselves.
    type: int
    default: 120
  attached:
    description: >-
      Set by ask_nodes if the session stays open for the run; the listeners, and all that the run starts later, then end
      with that session.
    type: bool
    default: false
attributes:
  check_mode:
    description: Does the same; nothing lasting is left on the node.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Survey the node and open listeners
  ladder_node:
    run: 20260102T030405
    token: "{{ __token }}"
    node: node1
    address: 192.0.2.11
    python: /opt/fullmesh/venv/bin/python
  register: __node
"""

RETURN = r"""
facts:
  description: Addresses, interface, names, limits, sysctls, versions, clock; C(survey) when it was asked for.
  type: dict
  returned: always
nccl:
  description: What the system's NCCL answered; C(reason) is empty or one of missing, deadline, crashed, refused.
  type: dict
  returned: when it was asked and the plan's address is on an interface
ports:
  description: >-
    The listeners, each with C(kind) (sample, range, master, rendezvous, outside), C(port), C(error), C(holder).
  type: list
  elements: dict
  returned: always
tapped:
  description: Handshakes are watched on the wire.
  type: bool
  returned: always
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=LADDER_NODE, supports_check_mode=True)
    said = answer(**module.params)
    # Ansible would send the arguments back, which are the largest part by far and the controller's own.
    module.exit_json(changed=False, invocation={}, **said)


if __name__ == "__main__":
    main()
