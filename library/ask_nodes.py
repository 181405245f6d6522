# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""One question to all hosts of a play at once: what Ansible shows of it; action_plugins/ask_nodes.py does it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: ask_nodes
short_description: Ask all hosts of a play the same question at once
description:
  - Runs once for the play, in one process on the controller, over the connections that Ansible is configured with and
    that ssh keeps open; a host costs no process here.
  - The program that answers travels to a host once, is compiled there and kept in a folder below C(/run) that only root
    may enter.
  - Hosts that need a password at a prompt, or another connection than ssh or C(local), are left to the module of the
    question's name and returned as C(ordinary), or asked by that module from here (O(one_by_one)).
options:
  question:
    description: Which question; the name of the module that answers it as well.
    type: str
    required: true
    choices: [ladder_gloo, ladder_links, ladder_node, ladder_trace, node_facts]
  common:
    description: Arguments that are the same for all hosts.
    type: dict
    default: {}
  each:
    description: Arguments that each host has its own of, by argument and then by host; as a dictionary or as its JSON.
    type: raw
    default: {}
  secret:
    description: Arguments that are the same for all hosts and are shown nowhere.
    type: dict
    default: {}
  hosts:
    description: Whom of the play's hosts to ask; all of them when this is missing.
    type: list
    elements: str
  as_login:
    description: Hosts that are asked as whoever logs in, whatever C(become) says.
    type: list
    elements: str
    default: []
  or_login:
    description: Ask hosts that fail once more, as whoever logs in.
    type: bool
    default: false
  one_by_one:
    description: >-
      Run the module of the question's name, over Ansible's own connection, on hosts that can't be asked at once.
    type: bool
    default: false
  complete:
    description: Fail, and name every host that gave no answer, unless all have answered.
    type: bool
    default: false
  together:
    description: >-
      The answers belong together. As soon as a host gives none, fails, or answers with C(broken), the others are asked
      to stop, and their answers are waited for 5 s.
    type: bool
    default: false
  hold:
    description: >-
      Keep a session to each host open until the run is over there. If the controller ends, or is not heard for 3.5 s,
      the host ends all that the run started on it. Hosts that are asked one by one cannot do this.
    type: bool
    default: false
  seconds:
    description: How long a host's answer is waited for. Who waits for a turn to connect has not begun.
    type: int
    default: 60
  folder:
    description: Where a host keeps the program; root's alone, and better gone after a reboot. Empty keeps it nowhere.
    type: path
    default: /run/fullmesh/ask
attributes:
  check_mode:
    description: Asks all the same; a question leaves nothing that lasts on a host.
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
  description: By host, what the module of the question would have returned. A host that gave none has C(unreachable) or
    C(failed).
  type: dict
  returned: always
ordinary:
  description: By host, why it has to be asked by the module itself, or was.
  type: dict
  returned: always
"""
