# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Build the environment of training jobs next to the one in use, and switch only after it has been verified."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.torch_env import (
    VenvError,
    ensure_torch_venv,
    observe_torch_venv,
    remove_torch_venv,
)

DOCUMENTATION = r"""
---
module: torch_venv
short_description: Build a virtual environment from hash-pinned wheels next to the one in use
description:
  - The environment is in a directory named after its content (lock, Python, machine), and C(path) is a link to it. The
    link changes only after torch has been imported in the new one, so an interrupted run changes nothing.
  - An environment from an earlier run is used again.
  - The module waits until the build of an earlier run has ended on this node.
options:
  state:
    description:
      - V(observed) only reads. V(present) builds and switches.
      - V(absent) removes C(store) and C(wheels). It leaves the link C(path) to the undo point.
    type: str
    choices: [observed, present, absent]
    default: observed
  path:
    description: The link that jobs use.
    type: path
    required: true
  store:
    description: Directory of the environments.
    type: path
    required: true
  wheels:
    description: Directory for bundles and kept wheels.
    type: path
    required: true
  python:
    description: The interpreter to build on. Required unless O(state=absent).
    type: path
  requirements:
    description: The lock's text. Required unless O(state=absent).
    type: str
  torch_version:
    description: The expected C(torch.__version__).
    type: str
    default: ''
  accelerator:
    description: The build of torch that is needed, such as V(cpu), V(cuda) or V(cuda13.0).
    type: str
    default: cpu
  bundle:
    description: Tar of wheels on this node, which is removed afterwards.
    type: str
    default: ''
  expected:
    description: Wheel file name to SHA-256.
    type: dict
    default: {}
  keep_wheels:
    description: Keep the wheels in C(wheels) for the next build.
    type: bool
    default: false
  seconds:
    description: Deadline of each step, and of the wait for an earlier run's build.
    type: int
    default: 900
attributes:
  check_mode:
    description: Reports the environment that it would build.
    support: full
  diff_mode:
    description: The environment before and after, by name.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Read the state of the environment
  torch_venv:
    path: /opt/fullmesh/venv
    store: /opt/fullmesh/venvs
    wheels: /opt/fullmesh/wheels
    python: /usr/bin/python3.11
    requirements: "{{ lookup('ansible.builtin.file', 'torch-2.13.0-cpu.txt') }}"
  register: __torch_runtime_seen
"""

RETURN = r"""
needed:
  description: An environment has to be built.
  type: bool
  returned: always
linked:
  description: The link points to the right environment.
  type: bool
  returned: always
python:
  description: Version of the interpreter, such as C(3.11). Empty if it cannot be used.
  type: str
  returned: always
fault:
  description: Why the interpreter cannot be used, with a code.
  type: str
  returned: always
have:
  description: SHA-256 of the wheels that were kept.
  type: list
  elements: str
  returned: always
bundles:
  description: Complete bundles that are still on the node, with their sizes.
  type: dict
  returned: always
versions:
  description: The versions that the environment reported when it was built.
  type: dict
  returned: when it is built
"""


def main() -> None:
    """Read the parameters, build or remove the environment."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["observed", "present", "absent"], "default": "observed"},
            "path": {"type": "path", "required": True},
            "store": {"type": "path", "required": True},
            "wheels": {"type": "path", "required": True},
            "python": {"type": "path"},
            "requirements": {"type": "str"},
            "torch_version": {"type": "str", "default": ""},
            "accelerator": {"type": "str", "default": "cpu"},
            "bundle": {"type": "str", "default": ""},
            "expected": {"type": "dict", "default": {}},
            "keep_wheels": {"type": "bool", "default": False},
            "seconds": {"type": "int", "default": 900},
        },
        required_if=[
            ("state", state, ("python", "requirements")) for state in ("observed", "present")
        ],
        supports_check_mode=True,
    )
    os.umask(0o022)  # jobs run as other users, and a root umask of 077 would hide torch from them
    try:
        if module.params["state"] == "observed":
            module.exit_json(changed=False, **observe_torch_venv(module.params))
        if module.params["state"] == "absent":
            module.exit_json(changed=remove_torch_venv(module.params, module.check_mode))
        result = ensure_torch_venv(module.params, module.check_mode)
    except (VenvError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
