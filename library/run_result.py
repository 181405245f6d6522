# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Declare the module that saves a run's result on the controller. action_plugins/run_result.py implements it."""

from __future__ import annotations

DOCUMENTATION = r"""
---
module: run_result
short_description: Write runs/<time>/result.json, junit.xml and report.html in one step
description:
  - Makes the directory, writes the file completely or not at all, and points C(latest) at it.
  - Runs on the controller without any connection, for every host of the task.
  - If the reports cannot be written, the task warns and keeps the result.
options:
  directory:
    description: The folder of all runs.
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
    description: Writes the file as well, since a verification is a report about the nodes and does not change them.
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
  description: The other files that were written.
  type: list
  elements: str
  returned: always
"""
