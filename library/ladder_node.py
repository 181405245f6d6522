# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the first call of the verification on a node: survey it, query NCCL, open the listeners."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.probe.first_call import observe_and_listen
from ansible.module_utils.fullmesh.schema.ladder_arguments import LADDER_NODE

DOCUMENTATION = r"""
---
module: ladder_node
short_description: Survey a node from a distributed job's view, and open the listeners for a link test
description:
  - Reads addresses, names, limits, kernel settings and versions. Lets the system's NCCL choose its address.
  - Leaves a detached process behind that listens for ladder_links and ends by itself after O(lifetime) seconds.
    It only serves clients that know O(token).
options:
  run:
    description: Name of this verification (letters, digits, - and _).
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
    description: Interface of the plan, used if the address is not on this node.
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
    description: Number of listeners on ports that the kernel chooses.
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
    description: Ranges (first and last port) that the extra listener must avoid.
    type: list
    elements: list
    default: []
  survey:
    description: Collect everything that the rules of the diagnosis need.
    type: bool
    default: false
  beside:
    description:
      - Resolve names and run the login of C(as_job) in the background. ladder_gloo returns the answers.
      - A silent name server delays the run only once.
    type: bool
    default: false
  as_job:
    description: With C(survey), also run the first second of a job through a login of the account of jobs.
    type: bool
    default: false
  job_user:
    description: The account of jobs. Empty uses that of job units, or an account without special rights.
    type: str
    default: ""
  range:
    description: First and last data port. Empty uses this kernel's own range.
    type: list
    elements: int
    default: []
  assumed:
    description: The range is a guess. A node that Fullmesh never configured uses its kernel's own range.
    type: bool
    default: false
  spread:
    description: Number of listeners across the range, in addition to those at the borders of firewall rules.
    type: int
    default: 0
  listen:
    description: Open the listeners.
    type: bool
    default: true
  nccl:
    description: Query the system's NCCL.
    type: bool
    default: true
  lifetime:
    description: Seconds after which the listeners end by themselves.
    type: int
    default: 120
  attached:
    description: >-
      Set by ask_nodes if the session stays open for the run. The listeners, and all that the run starts later, then end
      with that session.
    type: bool
    default: false
  rails:
    description: The node's addresses on the plan's rails, each with C(rail) and C(address). Each gets a listener.
    type: list
    elements: dict
    default: []
attributes:
  check_mode:
    description: Works as usual, since nothing lasting is left on the node.
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
  description: Addresses, interface, names, limits, sysctls, versions, clock. C(survey) if it was requested.
  type: dict
  returned: always
nccl:
  description: The answer of the system's NCCL. C(reason) is empty or one of missing, deadline, crashed, refused.
  type: dict
  returned: when it was asked and the plan's address is on an interface
ports:
  description: >-
    The listeners, each with C(kind) (sample, range, master, rendezvous, outside), C(port), C(error), C(holder).
  type: list
  elements: dict
  returned: always
rails:
  description: The listeners on O(rails), each with C(rail), C(address), C(port), C(error).
  type: list
  elements: dict
  returned: when O(rails) was given
tapped:
  description: Handshakes on the wire are recorded.
  type: bool
  returned: always
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=LADDER_NODE, supports_check_mode=True)
    said = observe_and_listen(**module.params)
    # Ansible would send the arguments back, which are the largest part by far and the controller's own.
    module.exit_json(changed=False, invocation={}, **said)


if __name__ == "__main__":
    main()
