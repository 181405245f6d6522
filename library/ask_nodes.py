# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Declare the query of all hosts of a play at once. action_plugins/ask_nodes.py implements it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ask_nodes
short_description: Query all hosts of a play at once
description:
  - Runs once for the play, in one process on the controller, over the ssh connections that Ansible is configured with.
    It needs no process per host.
  - The program that answers is sent to a host once, compiled there, and kept in a folder below C(/run) that only root
    can enter.
  - Hosts that need a password prompt, or a connection other than ssh or C(local), are returned as C(ordinary). With
    O(one_by_one), the module of the question's name runs on them instead.
options:
  question:
    description: The query, which is also the name of the module that answers it.
    type: str
    required: true
    choices: [ladder_gloo, ladder_links, ladder_node, ladder_trace, node_facts]
  common:
    description: Arguments that are the same for all hosts.
    type: dict
    default: {}
  each:
    description: Arguments that differ between hosts, by argument and then by host. A dictionary or its JSON.
    type: raw
    default: {}
  secret:
    description: Arguments that are the same for all hosts and are never shown.
    type: dict
    default: {}
  hosts:
    description:
      - The hosts of the play to query. All of them if this is missing.
      - C(localhost) is the controller, even if it is not in the play.
    type: list
    elements: str
  as_login:
    description: Hosts that are queried as the login user, even with C(become).
    type: list
    elements: str
    default: []
  or_login:
    description: Query hosts that fail again, as the login user.
    type: bool
    default: false
  one_by_one:
    description: >-
      On hosts that cannot be queried at once, run the module of the question's name over Ansible's own connection.
    type: bool
    default: false
  complete:
    description: Fail with the names of all hosts that gave no answer, unless all have answered.
    type: bool
    default: false
  together:
    description: >-
      The answers belong together. If a host gives none, fails, or answers with C(broken), the others are asked to stop,
      and have 5 s to answer.
    type: bool
    default: false
  hold:
    description: >-
      Keep a session to each host open until the run is over there. If the controller ends, or is silent for 3.5 s,
      the host ends all processes of the run. Hosts that are queried one by one do not support this.
    type: bool
    default: false
  seconds:
    description: How long to wait for a host's answer. The time starts when the host's turn to connect comes.
    type: int
    default: 60
  folder:
    description: The host's folder for the program. It must be root's and temporary. Empty keeps none.
    type: path
    default: /run/fullmesh/ask
attributes:
  check_mode:
    description: Queries as usual, since a query leaves nothing lasting on a host.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Query all nodes at once
  ask_nodes:
    question: node_facts
    common: {venv: /opt/fullmesh/venv}
    each: {digest: "{{ fullmesh_plan['digests'] }}"}
  register: __asked
"""

RETURN = r"""
answers:
  description: By host, the result that the module of the question would have returned. A host without an answer has
    C(unreachable) or C(failed).
  type: dict
  returned: always
ordinary:
  description: By host, the reason for using the module itself.
  type: dict
  returned: always
"""
