# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Wait until a node's first boot is over and no other program changes its packages."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.facts import busy

DOCUMENTATION = r"""
---
module: node_at_rest
short_description: Wait until other programs have finished with a node's packages or its first boot
description:
  - Waits for cloud-init, unattended upgrades, dnf-automatic, and holders of a lock of dpkg, apt, rpm or dnf. Changes
    nothing.
options:
  seconds:
    description: How long to wait.
    type: int
    required: true
attributes:
  check_mode:
    description: Checks once and does not wait.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Wait for the system's own updates
  node_at_rest:
    seconds: 600
"""

RETURN = r"""
busy:
  description: Programs that still run. Always empty in a real run, which fails otherwise.
  type: list
  elements: str
  returned: success
seconds:
  description: How long it took.
  type: float
  returned: success
"""


def main() -> None:
    """Read the parameter, wait and return the result."""
    module = AnsibleModule(
        argument_spec={"seconds": {"type": "int", "required": True}}, supports_check_mode=True
    )
    asked = module.params["seconds"]
    found, took = busy.wait_until_idle(0 if module.check_mode else asked, busy.describe_busy_node)
    if found and not module.check_mode:
        module.fail_json(
            msg=f"[PR-121] After {asked} s other programs still work on this node: {'; '.join(found)}. Fix: wait for "
            "them, or end those that hang, and run again. A run waits for preflight_wait_seconds."
        )
    module.exit_json(changed=False, busy=found, seconds=round(took, 1))


if __name__ == "__main__":
    main()
