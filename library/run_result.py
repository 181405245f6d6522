# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Keep the result of a run on the controller: what Ansible shows of it; action_plugins/run_result.py does it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: run_result
short_description: Write runs/<time>/result.json, junit.xml and report.html in one step
description:
  - Makes the directory, writes the file whole or not at all, and points C(latest) at it.
  - Runs on the controller, without a connection to anywhere, whatever the host of the task is.
  - When the reports cannot be written the task warns; the result is kept all the same.
options:
  directory:
    description: Where runs are kept.
    type: path
    required: true
  run:
    description: Name of this run.
    type: str
    required: true
  result:
    description: The result.
    type: dict
    required: true
attributes:
  check_mode:
    description: Writes the file as well; a verification is a report about the nodes and changes none.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Save the result on the controller
  run_result:
    directory: runs
    run: 20260102T030405
    result: "{{ __result }}"
"""

RETURN = r"""
path:
  description: The file.
  type: str
  returned: always
reports:
  description: What was written beside it.
  type: list
  elements: str
  returned: always
"""
