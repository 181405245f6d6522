# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Save, compare and restore the versions of packages that belong together."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.packages import family
from ansible.module_utils.fullmesh.state.errors import UndoError
from ansible.module_utils.fullmesh.state.observe import NodeSystem

DOCUMENTATION = r"""
---
module: package_family
short_description: Save the versions of packages that belong together, for an undo
description:
  - A driver of another branch replaces 30 packages at once. The role's undo point keeps the versions before and after
    the role, so that an undo knows which versions to restore and which changes others made.
  - Installs and removes nothing itself. Needs no repository.
options:
  role:
    description: The role whose undo point is used.
    type: str
    required: true
  patterns:
    description: Regular expressions. A package whose whole name matches belongs to the family.
    type: list
    elements: str
    required: true
  state:
    description: >-
      V(seen) only reads. V(remembered) saves the present versions as the original ones, once. V(noted) saves the
      versions after the role. V(compared) returns the steps of an undo, and warns about later changes by others.
    type: str
    choices: [seen, remembered, noted, compared]
    default: seen
attributes:
  check_mode:
    description: Reads and writes nothing.
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
  description: Each package of the family with its version, in the package manager's format.
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
  description: Removed or changed packages, as arguments of apt or dnf. Empty unless O(state=compared).
  type: list
  elements: str
  returned: always
remove:
  description: New packages that can go without packages of others. Empty unless O(state=compared).
  type: list
  elements: str
  returned: always
needed:
  description: Each new C(package) that stays, because the packages in C(needed_by) need it.
  type: list
  elements: dict
  returned: always
kept:
  description: Packages that others have changed since. Empty unless O(state=compared).
  type: list
  elements: str
  returned: always
"""


def main() -> None:
    """Read the parameters, call and return the result."""
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
