# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Packages that belong together: the versions that a node has, had, and gets back."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.packages import family
from ansible.module_utils.fullmesh.state.errors import UndoError
from ansible.module_utils.fullmesh.state.observe import NodeSystem

DOCUMENTATION = r"""
---
module: package_family
short_description: Keep the versions of packages that belong together, for an undo to give them back
description:
  - A driver of another branch replaces thirty packages at once. What the node had before stands in the role's undo
    point, with what the role left, so that an undo knows which versions to give back and what somebody else changed.
  - Installs and removes nothing itself. Needs no repository.
options:
  role:
    description: Whose undo point it is.
    type: str
    required: true
  patterns:
    description: Regular expressions; a package whose whole name is one of them belongs to the family.
    type: list
    elements: str
    required: true
  state:
    description: >-
      V(seen) only looks; V(remembered) keeps what is there now as what was before, once; V(noted) keeps what the role
      leaves; V(compared) says what gives the first back, and warns of what somebody else has changed since.
    type: str
    choices: [seen, remembered, noted, compared]
    default: seen
attributes:
  check_mode:
    description: Looks and writes nothing.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Record the replaced versions
  package_family:
    role: nvidia_driver
    patterns: ["nvidia-driver(-.*)?", "libnvidia-.*"]
    state: remembered

- name: Compare with the previous versions
  package_family:
    role: nvidia_driver
    patterns: ["nvidia-driver(-.*)?", "libnvidia-.*"]
    state: compared
  register: __nvidia_driver_family
"""

RETURN = r"""
versions:
  description: Each package of the family with its version, as the package manager takes both back.
  type: dict
  returned: always
streams:
  description: Module of dnf and the stream that is enabled.
  type: dict
  returned: always
locks:
  description: With rpm, bare name and C(VERSION-RELEASE) of each package, for version_lock.
  type: dict
  returned: always
install:
  description: What was there before and is not any more, as arguments of apt or dnf; empty unless O(state=compared).
  type: list
  elements: str
  returned: always
remove:
  description: What came with the role and can go without a package of others; empty unless O(state=compared).
  type: list
  elements: str
  returned: always
needed:
  description: Each C(package) that came with the role and stays, because the packages in C(needed_by) need it.
  type: list
  elements: dict
  returned: always
kept:
  description: What somebody else has changed since; empty unless O(state=compared).
  type: list
  elements: str
  returned: always
"""


def main() -> None:
    """Read the parameters, call, answer."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "patterns": {"type": "list", "elements": "str", "required": True},
            "state": {
                "choices": ["seen", "remembered", "noted", "compared"],
                "default": "seen",
            },
        },
        supports_check_mode=True,
    )
    # C locale: the words of dpkg-query and rpm are read here.
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}

    def run(command: list[str]) -> tuple[int, str, str]:
        rc, out, err = module.run_command(command)
        return int(rc), str(out), str(err)

    node, role, patterns = NodeSystem("/", run), module.params["role"], module.params["patterns"]
    check, state = module.check_mode, module.params["state"]
    try:
        if state == "remembered":
            found = family.remember_family(node, role, patterns, check)
        elif state == "noted":
            found = family.record_family(node, role, patterns, check)
        elif state == "compared":
            found = family.compare_family(node, role, patterns)
        else:
            found = family.observe_family(node, patterns)
    except UndoError as error:
        module.fail_json(msg=str(error))
    for words in family.describe_family_warnings(found, role):
        module.warn(words)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
