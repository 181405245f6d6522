# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Give a host the facts of its answer: what Ansible shows of it; action_plugins/node_answer.py does it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_answer
short_description: Set the facts that a host answered with when all were asked at once
description:
  - C(ask_nodes) keeps all answers in one variable, as most hosts never need their facts. This gives a host its own.
  - Runs on the controller, without a connection.
options:
  answer:
    description: What C(ask_nodes) has in C(answers) for the host.
    type: dict
    required: true
attributes:
  check_mode:
    description: Changes nothing but facts.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Set the facts from the answer
  node_answer:
    answer: "{{ __asked['answers'][inventory_hostname] }}"
"""

RETURN = r"""
ansible_facts:
  description: Those of the answer.
  type: dict
  returned: always
"""
