# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return a node's EFA setup."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.facts.efa import (
    ENVIRONMENT_FILES,
    observe_efa,
    read_environment_files,
)

DOCUMENTATION = r"""
---
module: efa_facts
short_description: Return a node's EFA setup
description:
  - Reads the device, its driver, the provider C(efa) of C(fi_info), libfabric, and NCCL's network plugin, which is
    loaded in a child process.
options:
  environment_files:
    description:
      - Files of C(NAME=value) lines for a job's environment. The last one wins. Missing ones are skipped.
    type: list
    elements: path
    default: [/etc/environment, /etc/fullmesh/env]
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Collect facts about EFA
  efa_facts:
  register: __efa_seen
"""

RETURN = r"""
efa:
  description: C(vendor), C(instance), C(pci), C(verbs), C(driver_version), C(libfabric), C(plugin) and C(environment).
  type: dict
  returned: success
"""


def main() -> None:
    """Survey the setup and return the result."""
    module = AnsibleModule(
        argument_spec={
            "environment_files": {
                "type": "list",
                "elements": "path",
                "default": list(ENVIRONMENT_FILES),
            }
        },
        supports_check_mode=True,
    )
    seen = observe_efa(read_environment_files(module.params["environment_files"]))
    module.exit_json(changed=False, efa=seen)


if __name__ == "__main__":
    main()
