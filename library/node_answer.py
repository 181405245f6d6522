# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Declare the module that sets a host's facts from its answer. action_plugins/node_answer.py implements it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: node_answer
short_description: Set the facts of a host from its answer to a query of all hosts
description:
  - C(ask_nodes) keeps all answers in one variable, since most hosts never need their facts. This module sets them.
  - Runs on the controller, without a connection.
options:
  answer:
    description: The host's entry in C(answers) of C(ask_nodes).
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
  description: The facts in the answer.
  type: dict
  returned: always
"""
